"""The paper's Lipschitz and PL inequalities and their repaired forms on one instance, decided rigorously."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model import Objective
from attnprune_verify.theory import paper, sharp
from attnprune_verify.theory.balls import frobenius, nearest, precision
from attnprune_verify.theory.evaluation import (
    AttentionPart,
    Route,
    attention_part,
    curvature_along,
    gradient_change,
    route,
    work,
)
from attnprune_verify.theory.gram import gram_floor, is_positive_semidefinite
from attnprune_verify.theory.measure import logit_norm, measure

__all__ = ["Bound", "evaluate_bounds"]

_ATTAINED = 2.0**-400  # equality to 120 digits: an instance that attains the bound
_SHARP = 20  # bits of relative accuracy that decide every inequality with a margin
_SMALL = 2e4


@dataclass(frozen=True)
class Bound:
    """One inequality on one instance.

    Attributes
    ----------
    id : str
        thm:lip_grad_l, lem:PL_ineq, fix:lip_grad_l or fix:PL_ineq.
    lhs, rhs : float
        The two sides; nan where the statement does not apply.
    status : str
        holds, violated, undecided or not_applicable.
    note : str
        How it was decided, or why it does not apply.
    """

    id: str
    lhs: float
    rhs: float
    status: str
    note: str


def evaluate_bounds(instance: Instance, progress: Callable[[str], None] | None = None) -> tuple[Bound, ...]:
    """Both inequalities, as printed and repaired, at the instance's M (1 when it has none).

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
        return (
            _lipschitz("thm:lip_grad_l", steepest, lam, paper.lipschitz(n, d, found.radius, 0.0)),
            _paper_pl(instance),
            _lipschitz("fix:lip_grad_l", steepest, lam, sharp.lipschitz(K, 0.0)),
            _repaired_pl(instance),
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
    return Bound(identity, nearest(found.whole), nearest(constant), status, found.where)


def _steepest(instance: Instance) -> _Steepest:
    M = np.asarray(instance.M_or_ones, dtype=np.float64)
    other = np.random.default_rng(0).uniform(0.1, 0.9, M.shape)
    for bits in _ladder(instance):
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


def _ladder(instance: Instance) -> tuple[int, ...]:
    """Precisions to try: many bits help where logits are huge or tiny, and are affordable on small instances."""
    if route(instance) != Route.BALLS:
        return (128,)
    return (128, 512, 2048, 8192) if work(instance) <= _SMALL else (128, 512)


def _curved_directions(instance: Instance, points: tuple[tuple[str, Array], ...]) -> Iterator[tuple[str, Array, Array]]:
    """Top eigenvectors of the Hessian in floating point, where Hessian-vector products are affordable."""
    if route(instance) == Route.CRUDE:
        return
    X, W = (np.asarray(array, dtype=np.float64) for array in (instance.samples, instance.W))
    try:
        objective = Objective(X, W, instance.lam, instance.mask)
        for name, point in points:
            yield name, point, _top_direction(objective, point)
    except InvalidInstance:  # logits beyond float64: the secant in balls is all there is
        return


def _top_direction(objective: Objective, M: Array) -> Array:
    d = len(M)

    def product(v: Array) -> Array:
        return objective.hessian_vector_product(M, v.reshape(d, d)).ravel()

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
        if not image.any():
            break
        start = image
    return start.reshape(d, d)


def _paper_pl(instance: Instance) -> Bound:
    """lem:PL_ineq: its hypotheses first, then both sides."""
    found = measure(instance)
    M = instance.M_or_ones
    if instance.k is not None and instance.k > 1:
        return _void("the lemma is about a single X; averaged gradients of several samples can cancel")
    if found.floor.masked:
        return _void("a mask forbids positions, where F(M) = 0: the hypothesis delta > 0 is contradictory")
    if not found.beta.positive:
        return _void(f"beta = 0 ({found.beta.reason}), so mu = 0 and xi divides by 0")
    if found.min_W == 0:
        return _void("min|W| = 0, so mu = 0 and xi divides by 0")
    if float(M.min()) < 0 or float(M.max()) > 1:
        return _void("M lies outside [0, 1]^(d x d)")
    if instance.lam > 1:
        return _void(f"lam = {instance.lam:.6g} lies outside [0, 1]")
    cross = 6 * arb(instance.n).sqrt() * found.max_W * found.norm_X**2 * instance.lam * instance.d
    beta = _admissible_beta(instance.samples[0])
    return _pl("lem:PL_ineq", instance, lambda at: paper.mu(found.min_W, beta, at.floor), cross)


def _void(note: str) -> Bound:
    return Bound("lem:PL_ineq", float("nan"), float("nan"), "not_applicable", note)


def _repaired_pl(instance: Instance) -> Bound:
    """fix:PL_ineq; over a batch with the stacked tokens, X^T p X being one sum over all rows of all samples."""
    found = measure(instance)
    k = len(instance.samples)
    stacked = np.asarray(instance.samples, dtype=np.float64).reshape(-1, instance.d)
    beta = _admissible_beta(stacked) if found.beta.positive else arb(0)
    floor = sharp.inner_product_floor(instance.allowed.sum(axis=1).tolist())
    return _pl(
        "fix:PL_ineq", instance, lambda at: sharp.mu(found.min_W, beta, at.floor) / k, -2 * arb(instance.lam) * floor
    )


def _admissible_beta(X: Array) -> arb:
    """A number with X X^T >= beta I for certain: the double nearest to lambda_min if it is one, else just below."""
    floor = gram_floor(X)
    if not floor.positive:
        return arb(0)
    candidate = nearest(floor.value)
    if len(X) <= 32 and 0 < candidate < float("inf") and is_positive_semidefinite(X, candidate):
        return arb(candidate)
    return arb(floor.enclosure.lower())


def _pl(identity: str, instance: Instance, mu_at: Callable[[AttentionPart], arb], cross: arb) -> Bound:
    """Decide ||grad L||^2 >= (mu/2) ||c||^2 + lam^2 ||M||^2 - cross by the difference; lam^2 ||M||^2 cancels."""
    lam = instance.lam
    status, note = "undecided", "the enclosures of both sides overlap"
    for bits in _ladder(instance):
        at = attention_part(instance, bits)
        with precision(bits):
            demanded = mu_at(at) / 2 * at.c_squares
            offered = at.gradient_squares + 2 * lam * at.product + cross
            slack = offered - demanded
            regular = (lam * measure(instance).norm_M) ** 2
            lhs, rhs = offered - cross + regular, demanded + regular - cross
        if slack >= 0 or (demanded == 0 and lam == 0):  # a square is never negative
            status, note = "holds", ""
        elif slack < 0:
            status, note = "violated", ""
        elif slack.abs_upper() <= _ATTAINED * demanded.abs_upper():
            status, note = "holds", "attained: both sides agree to 120 digits"
        if status != "undecided":
            break
    how = f"by {route(instance)}"
    if at.c_squares == 0:
        how += "; c = 0 here, nothing is pruned" if instance.M is None else "; c = 0 here"
    elif mu_at(at) == 0:
        how += "; mu = 0, so only the regulariser is compared"
    return Bound(identity, nearest(lhs), nearest(rhs), status, f"{note}; {how}" if note else how)
