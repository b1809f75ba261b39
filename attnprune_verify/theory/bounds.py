"""The paper's Lipschitz and PL inequalities and their repaired forms on one instance, decided rigorously."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model import Objective
from attnprune_verify.theory.formulas import paper, sharp
from attnprune_verify.theory.numbers.balls import frobenius, nearest, precision
from attnprune_verify.theory.pl_bounds import Bound, beyond_floats, pl_bounds
from attnprune_verify.theory.quantities.evaluation import (
    Route,
    curvature_along,
    gradient_change,
    objective_of,
    precision_ladder,
    route,
)
from attnprune_verify.theory.quantities.measure import logit_norm, measure

__all__ = ["BOUND_IDS", "Bound", "evaluate_bounds"]

BOUND_IDS = ("thm:lip_grad_l", "lem:PL_ineq", "fix:lip_grad_l", "fix:PL_ineq")

_SHARP = 20  # bits of relative accuracy that decide every inequality with a margin


def evaluate_bounds(instance: Instance, progress: Callable[[str], None] | None = None) -> tuple[Bound, ...]:
    """Evaluate both inequalities, as printed and repaired, at the instance's M.

    Without an M: at M = 1, where c = 0, and at a seeded M in [0.1, 0.9]; the worse is reported.

    * thm:lip_grad_l, fix:lip_grad_l: the largest ||grad L(M) - grad L(M')||_F / ||M - M'||_F found, over a seeded M'
      and over the largest curvature at M and at M' (the limit M' -> M), against L_paper and L_sharp.
    * lem:PL_ineq, fix:PL_ineq: ||grad L(M)||_F^2 against (mu/2) ||c||_F^2 + lam^2 ||M||_F^2 minus the cross term;
      multiplied out, so that mu = 0 needs no division. The paper's cross term is 6 sqrt(n) max|W| ||X||_F^2 lam d, the
      repaired one 2 lam sum_i W0((m_i - 1)/e), valid for every real M and every mask.

    beta and delta are numbers certainly admissible in the hypotheses (the best ones up to rounding). Every verdict is
    decided by enclosures; where both sides agree to 120 digits the instance attains the bound and it holds.

    Examples
    --------
    >>> import numpy as np
    >>> instance = Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2)))
    >>> [(bound.id, bound.status) for bound in evaluate_bounds(instance)]
    [('thm:lip_grad_l', 'holds'), ('lem:PL_ineq', 'violated'), ('fix:lip_grad_l', 'holds'), ('fix:PL_ineq', 'holds')]
    """
    say = progress or (lambda text: None)
    say("largest curvature")
    steepest = _steepest(instance)
    say("PL inequality")
    with precision():
        lam, found, K = instance.lam, measure(instance), arb(logit_norm(instance).upper.upper())
        n, d = instance.n, instance.d
        printed, repaired = pl_bounds(instance)
        return (
            _lipschitz("thm:lip_grad_l", steepest, lam, paper.lipschitz(n, d, found.radius, 0.0)),
            printed,
            _lipschitz("fix:lip_grad_l", steepest, lam, sharp.lipschitz(K, 0.0)),
            repaired,
        )


@dataclass(frozen=True)
class _Steepest:
    """The largest change of the gradient per change of M that was found; `attention` without the regulariser's lam."""

    whole: arb
    attention: arb
    where: str


def _lipschitz(identity: str, found: _Steepest, lam: float, attention_constant: arb) -> Bound:
    """Decide whole <= lam + constant; attention <= constant suffices, by the triangle inequality."""
    constant = lam + attention_constant
    if found.whole <= constant or found.attention <= attention_constant:
        status = "holds"
    else:
        status = "violated" if found.whole > constant else "undecided"
    note = found.where + beyond_floats(found.whole, constant)
    return Bound(identity, nearest(found.whole), nearest(constant), status, note)


def _steepest(instance: Instance) -> _Steepest:
    M = np.asarray(instance.M_or_ones, dtype=np.float64)
    other = np.random.default_rng(0).uniform(0.1, 0.9, M.shape)
    if logit_norm(instance).upper == 0:  # the centred logits, and so F, do not depend on M
        return _Steepest(arb(instance.lam), arb(0), "F does not depend on M: every token is the same to it")
    for bits in precision_ladder(instance):
        change = gradient_change(instance, M, other, bits)
        if change.attention == 0 or change.attention.rel_accuracy_bits() > _SHARP:
            break
    with precision():
        distance = frobenius(M - other) * arb(1, 1e-15)  # M - M' is rounded once
        whole, attention, where = change.whole / distance, change.attention / distance, "between M and a seeded M'"
        for name, point, direction in _curved_directions(instance, (("M", M), ("a seeded M'", other))):
            curvature = curvature_along(instance, point, direction)
            if curvature > whole:
                whole, attention, where = curvature, curvature + instance.lam, f"the largest curvature found at {name}"
    return _Steepest(whole, attention, f"{where}, by {route(instance)}")


def _curved_directions(instance: Instance, points: tuple[tuple[str, Array], ...]) -> Iterator[tuple[str, Array, Array]]:
    """Top eigenvectors of the Hessian in floating point, where Hessian-vector products are affordable."""
    if route(instance) == Route.CRUDE:
        return
    try:
        objective = objective_of(instance, instance.lam, keep_dense=True)
        for name, point in points:
            with np.errstate(all="ignore"):  # a search: only finite directions are used
                direction = _top_direction(objective, point)
            if np.isfinite(direction).all() and direction.any():
                yield name, point, direction
    except InvalidInstance:  # logits beyond float64: the secant in balls is all there is
        return


def _top_direction(objective: Objective, M: Array) -> Array:
    d = len(M)

    times = objective.hessian_operator_at([M])

    def product(v: Array) -> Array:
        return times([v.reshape(d, d)])[0].ravel()

    start: Array = np.abs(objective.W).ravel() + 1e-3 * np.random.default_rng(1).standard_normal(d * d)
    if d * d > 8:
        operator = LinearOperator((d * d, d * d), matvec=product, dtype=np.float64)
        try:
            _, vectors = eigsh(operator, k=1, which="LM", v0=start, ncv=8, maxiter=2, tol=1e-2)
            return np.asarray(vectors[:, 0]).reshape(d, d)
        except ArpackError:
            pass
    for _ in range(8):
        image = product(start / np.linalg.norm(start))
        if not image.any() or not np.isfinite(image).all():
            break
        start = image
    return start.reshape(d, d)
