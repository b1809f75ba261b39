"""The PL inequality, as printed (lem:PL_ineq) and repaired (fix:PL_ineq), decided by enclosures."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.assumptions import show
from attnprune_verify.theory.formulas import conditions, paper, sharp
from attnprune_verify.theory.numbers.balls import frobenius, nearest, precision
from attnprune_verify.theory.quantities.evaluation import AttentionPart, attention_part, precision_ladder, route
from attnprune_verify.theory.quantities.gram import GramFloor, gram_floor, is_positive_semidefinite
from attnprune_verify.theory.quantities.measure import measure

_EXACT_TOKENS = 32  # chosen: an exact LDL^T of so many tokens takes milliseconds
_ATTAINED = 2.0**-400  # equality to 120 digits: an instance that attains the bound
_WORST_FIRST = ("violated", "undecided", "holds")


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


def pl_bounds(instance: Instance) -> tuple[Bound, Bound]:
    """lem:PL_ineq and fix:PL_ineq at the instance's M; without one, the worse of M = 1 and a seeded M in [0.1, 0.9].

    At M = 1 nothing is pruned, c = 0, and the inequality says nothing about the attention.

    Examples
    --------
    >>> import numpy as np
    >>> [bound.status for bound in pl_bounds(Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]])))]
    ['violated', 'holds']
    """
    points = [instance]
    if instance.M is None:
        points.append(instance.with_M(np.random.default_rng(0).uniform(0.1, 0.9, instance.W.shape)))
    evaluate = cache(attention_part)  # both inequalities look at the same points
    return _paper_pl(instance, points, evaluate), _repaired_pl(instance, points, evaluate)


_Evaluate = Callable[[Instance, int], AttentionPart]


def _paper_pl(instance: Instance, points: list[Instance], evaluate: _Evaluate) -> Bound:
    """lem:PL_ineq: its hypotheses first, then both sides."""
    found = measure(instance)
    M = instance.M_or_ones
    if instance.k is not None and instance.k > 1:
        return _void("the lemma is about a single X; averaged gradients of several samples can cancel")
    if found.floor.masked:
        return _void("a mask forbids positions, where F(M) = 0: the hypothesis delta > 0 is contradictory")
    if not conditions.beta_positive(found.beta.enclosure):
        return _void(f"beta = 0 ({found.beta.reason}), so mu = 0 and xi divides by 0")
    if not conditions.weights_nonzero(found.min_W):
        return _void("min|W| = 0, so mu = 0 and xi divides by 0")
    if not (conditions.in_box(float(M.min())) and conditions.in_box(float(M.max()))):
        return _void("M lies outside [0, 1]^(d x d)")
    if not conditions.lam_in_unit_interval(instance.lam):
        return _void(f"lam = {instance.lam:.6g} lies outside [0, 1]")
    cross = paper.cross_term(instance.n, instance.d, found.max_W, found.norm_X, instance.lam)
    beta = _admissible_beta(instance.samples[0], found.beta)
    inequality = _Inequality("lem:PL_ineq", lambda at: paper.mu(found.min_W, beta, at.floor), cross)
    return _worst(inequality, points, evaluate)


def _void(note: str) -> Bound:
    return Bound("lem:PL_ineq", float("nan"), float("nan"), "not_applicable", note)


def _repaired_pl(instance: Instance, points: list[Instance], evaluate: _Evaluate) -> Bound:
    """fix:PL_ineq; over a batch with the stacked tokens, X^T p X being one sum over all rows of all samples."""
    found = measure(instance)
    k = len(instance.samples)
    beta = arb(0)
    if found.beta.positive:
        stacked = np.asarray(instance.samples, dtype=np.float64).reshape(-1, instance.d)
        beta = _admissible_beta(stacked, found.beta if k == 1 else gram_floor(stacked))
    floor = sharp.inner_product_floor(instance.allowed.sum(axis=1).tolist())
    inequality = _Inequality(
        "fix:PL_ineq", lambda at: sharp.mu(found.min_W, beta, at.floor) / k, sharp.cross_global(instance.lam, -floor)
    )
    return _worst(inequality, points, evaluate)


def _admissible_beta(X: Array, floor: GramFloor) -> arb:
    """A number with X X^T >= beta I for certain: the double nearest to lambda_min if it is one, else just below."""
    if not floor.positive:
        return arb(0)
    candidate = nearest(floor.value)
    if len(X) <= _EXACT_TOKENS and 0 < candidate < float("inf") and is_positive_semidefinite(X, candidate):
        return arb(candidate)
    return arb(floor.enclosure.lower())


@dataclass(frozen=True)
class _Inequality:
    """||grad L||^2 >= (mu/2) ||c||^2 + lam^2 ||M||^2 - cross."""

    id: str
    mu: Callable[[AttentionPart], arb]
    cross: arb


def _worst(inequality: _Inequality, points: list[Instance], evaluate: _Evaluate) -> Bound:
    """The verdict at the point where it is worst; of equal verdicts the last, which is the one with c != 0."""
    judged = [_decide(inequality, point, evaluate) for point in points]
    return min(reversed(judged), key=lambda bound: _WORST_FIRST.index(bound.status))


def _decide(inequality: _Inequality, point: Instance, evaluate: _Evaluate) -> Bound:
    """Decide by the sign of the difference of both sides, from which lam^2 ||M||^2 has cancelled."""
    lam, cross = point.lam, inequality.cross
    status, note = "undecided", "the enclosures of both sides overlap; "
    for bits in precision_ladder(point):
        at = evaluate(point, bits)
        with precision(bits):
            mu = inequality.mu(at)
            demanded = mu / 2 * at.c_squares
            offered = at.gradient_squares + 2 * lam * at.product + cross
            slack = offered - demanded
            regular = (lam * frobenius(point.M_or_ones)) ** 2
            lhs, rhs = offered - cross + regular, demanded + regular - cross
        if slack >= 0 or (demanded == 0 and lam == 0):  # a square is never negative
            status, note = "holds", ""
        elif slack < 0:
            status, note = "violated", ""
        elif slack.abs_upper() <= _ATTAINED * demanded.abs_upper():
            status, note = "holds", "attained: both sides agree to 120 digits; "
        if status != "undecided":
            break
    note += f"by {route(point)}"
    if at.c_squares == 0:
        note += "; c = 0 here"
    elif mu == 0:
        note += "; mu = 0, so only the regulariser is compared"
    return Bound(inequality.id, nearest(lhs), nearest(rhs), status, note + beyond_floats(lhs, rhs))


def beyond_floats(lhs: arb, rhs: arb) -> str:
    """The size of both sides where, as floats, they are both 0 or both inf, for the end of a note."""
    if nearest(lhs) != nearest(rhs) or nearest(lhs) not in (0.0, math.inf) or not (lhs > 0 and rhs > 0):
        return ""
    return f"; left {show(lhs)}, right {show(rhs)}"
