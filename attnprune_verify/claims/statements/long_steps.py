"""Steps longer than 1/L with a guarantee: along the segment, by backtracking, and when to stop."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities, variance
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.cases.trajectory import moving as moving_by
from attnprune_verify.claims.cases.trajectory import sharp_L, upper_constant
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Unmet, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, lam_positive, moving
from attnprune_verify.theory.numbers.arithmetic import Undecidable

_SECTION = "G Convergence of Gradient Descent"
_LARGEST_RANGE = 600.0
"""Beyond this range e^r leaves float64; the row then keeps C_+ ||Pi Delta||^2, which is always a bound."""


def _rows(q: Quantities) -> list[tuple[Lifted, ...]]:
    """Return, for rows that can move: C_+ ||Pi Delta_i||^2, the range of Delta_i, V_i, t_i, max_j (c_j - <c, s>)_+."""
    delta, found = q.X @ (q.gradient * q.W) @ q.X.T, []
    for i in np.flatnonzero(q.row_sizes >= 2):
        S = q.allowed[i]
        s, c, v = q.F[i, S], q.c[i, S], delta[i, S]
        always = upper_constant(q) * q.square(v - v.sum() / len(v))
        pull = q.largest([*(c - (c * s).sum()), q.number(0.0)])
        found.append((always, q.largest(v) - q.smallest(v), variance(s, v), q.largest(s), pull))
    return found


def _segment_L(q: Quantities, rows: list[tuple[Lifted, ...]], eta: Lifted, growth: bool = True) -> Lifted:
    """L_seg(eta): the curvature of L on the segment from M to M - eta grad L(M), over ||grad L(M)||^2."""
    half, total = q.number(0.5), q.number(0.0)
    for always, width, spread, top, pull in rows:
        r = width * eta
        if not r < _LARGEST_RANGE:
            total = total + always
            continue
        e = q.exp(r) if growth else q.number(1.0)
        norm = q.smallest([half, e * top])
        total = total + q.smallest([always, e * spread * (norm + q.smallest([half, pull + (e - 1) * top * 4]))])
    return q.lam + total / q.square(q.gradient)


def _longest(case: Case, growth: bool) -> float:
    """Just below the largest eta with eta L_seg(eta) <= 1, by bisection in float64 (at most 2^40)."""
    q = Quantities(case)
    rows = _rows(q)
    low, high = -40.0, 40.0
    for _ in range(34):
        middle = (low + high) / 2
        low, high = (middle, high) if 2.0**middle * _segment_L(q, rows, 2.0**middle, growth) <= 1 else (low, middle)
    return float(2.0**low * (1 - 1e-9))


def _segment(q: Quantities, stretch: float = 1.0, growth: bool = True, bend: float = 1.0) -> list[Relation]:
    """Bound the curvature on a step of any length, and where eta L_seg(eta) <= 1 the decrease.

    The case's share is of the longest such step, beyond it above 1.
    """
    rows = _rows(q)
    eta = q.number(_longest(q.case, growth)) * q.number(float(q.case.get("share", 1.0)))
    place = eta * q.number(float(q.case.get("place", 1.0)))
    L = _segment_L(q, rows, eta, growth)
    found = [_bends(q, place, L * q.number(bend))]
    if eta * L <= 1:
        found.append(_decreases(q, eta * q.number(stretch)))
    always, width, spread, top, pull = zip(*rows, strict=True) if rows else ((),) * 5
    q.note({"r": [one * eta for one in width], "V": spread, "s": top, "u": pull, "L_seg": L})
    q.note({"eta": eta, "t": place, "g": q.gradient, "D": [one / upper_constant(q) for one in always]})
    q.note({"<g, Hess L(M - t g) g>": found[0].lhs, "L(M - eta g)": q.at(q.M - q.gradient * eta).L})
    return found


def _bends(q: Quantities, place: Lifted, L: Lifted) -> Relation:
    """<g, Hess L(M - t g) g> <= L_seg(eta) ||g||^2 for some 0 <= t <= eta."""
    g, size = q.gradient, q.square(q.gradient)
    there = q.at(q.M - g * place)
    bend = (there.directional(g, lambda m: m.G) * g).sum() + q.lam * size
    return at_most(bend, L * size, "curvature on the segment")


def _share(rng: Generator, case: Case) -> dict[str, Any]:
    return {"share": float(rng.choice([0.01, 0.3, 1.0, 1.2, 20.0])), "place": float(rng.choice([0.0, 0.5, 1.0]))}


def _sleeping_row() -> Iterator[Case]:
    """Row 1 is at -1, its target is 1; its step would move row 2, nearly one-hot at its target, from -15 past 0."""
    X = np.array([[1.0, 0.0], [40.0, 1.0]])
    W = np.array([[-1 / 39, 0.0], [55 / 39, 0.0]])  # logit differences m_11 in row 1, 40 m_11 - 55 m_21 in row 2
    M = np.array([[-1.0, 0.0], [-25 / 55, 0.0]])
    yield Case({"X": X, "W": W, "M": M, "lam": 0.0, "mask": None}, "a saturated row in the way")


def _decreases(q: Quantities, eta: Lifted) -> Relation:
    g = q.gradient
    reached = q.at(q.M - g * eta).L
    return at_most(reached + eta * q.square(g) / 2, q.L, "decrease", offset=reached)


def _backtracked(q: Quantities, first: Lifted, alpha: Lifted, beta: Lifted) -> Lifted:
    """The first of first, beta first, beta^2 first, ... that decreases L by alpha eta ||g||^2."""
    g, eta = q.gradient, first
    for _ in range(400):
        reached = q.at(q.M - g * eta).L + alpha * eta * q.square(g)
        if reached <= q.L:
            return eta
        if not reached > q.L:
            raise Undecidable("whether a step is accepted")
        eta = eta * beta
    raise Undecidable("backtracking did not end")


def _armijo(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """eta >= min(eta_0, 2 (1 - alpha) beta/L)."""
    first, alpha, beta = q.first, q.alpha_, q.beta_
    eta = _backtracked(q, first, alpha, beta)
    shortest = (1 - alpha) * beta * 2 / sharp_L(q)
    if eta >= first:  # no trial was refused
        return [at_least(eta, q.smallest([first, shortest * q.number(factor)]), "eta_0")]
    return [at_least(eta, shortest * q.number(factor), "2 (1 - alpha) beta/L")]


def _trial(rng: Generator, case: Case) -> dict[str, Any]:
    return {
        "first": float(rng.choice([0.1, 1.0, 30.0, 1e3])),
        "alpha_": float(rng.choice([0.1, 0.5, 0.96])),
        "beta_": float(rng.choice([0.25, 0.5, 0.96])),
    }


def _pure_regulariser() -> Iterator[Case]:
    """W = 0: L = lam ||M||^2/2, where eta = 2 (1 - alpha)/lam is the longest step accepted."""
    values: dict[str, Any] = {"X": np.ones((2, 1)), "W": np.zeros((1, 1)), "M": np.ones((1, 1)), "lam": 1.0}
    yield Case({**values, "mask": None, "first": 1.0625, "alpha_": 0.5, "beta_": 0.5}, "W = 0, lam = 1")


def _bend_along(point: Quantities) -> Lifted:
    """lam ||g||^2 + C_+ ||Pi A g||^2."""
    g = point.gradient
    return point.lam * point.square(g) + upper_constant(point) * point.square(point.PiA @ g.ravel())


def _directional(point: Quantities) -> Lifted:
    """The directional step ||g||^2 / (lam ||g||^2 + C_+ ||Pi A g||^2)."""
    return point.square(point.gradient) / _bend_along(point)


def _stopping(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """min_{t<T} ||grad L(M_t)||^2 sum_{t<T} eta_t <= lam d^2 from M = 1, for every T up to a step that does not pay.

    The case stretches the directional steps, which pay.
    """
    points, stretch = [q.at(q.number(np.ones((q.d, q.d))))], float(q.case.get("stretch", 1.0))
    sizes, etas, sums, least, pays = list[Lifted](), list[Lifted](), list[Lifted](), list[Lifted](), True
    for _ in range(int(q.case.get("steps", 4))):
        here = points[-1]
        size = here.square(here.gradient)
        if not (size > 0 and _bend_along(here) > 0):
            break
        eta = _directional(here) * q.number(stretch)
        there = q.at(here.M - here.gradient * moving_by(eta))
        paid = stretch <= 1 or bool(there.L + eta * size / 2 <= here.L)  # up to 1 they pay, but for rounding
        pays = pays and (paid or bool(sizes))
        if sizes and not (paid and pays):
            break
        points, sizes, etas = [*points, there], [*sizes, size], [*etas, eta]
        sums, least = [*sums, sum(etas, q.number(0.0))], [*least, q.smallest(sizes)]
    losses = [point.L for point in points]
    q.note({"M_0": points[0].M, "eta_t": etas, "L(M_t)": losses[:-1], "L(M_{t+1})": losses[1:]})
    q.note({"||grad L(M_t)||": [q.sqrt(size) for size in sizes], "min_{t<T} ||grad L(M_t)||^2": least})
    q.note({"sum_{t<T} eta_t": sums})
    if not (sizes and pays):  # the first does not: the letters are noted, nothing is claimed
        raise Unmet(_PAYS.name)
    limit = q.lam * q.d**2 * q.number(factor)
    return [at_most(smallest * total, limit, "T steps") for smallest, total in zip(least, sums, strict=True)]


_PAYS = Hypothesis("L(M_{t+1}) + eta_t ||grad L(M_t)||^2/2 <= L(M_t)")


def _stretched(rng: Generator, case: Case) -> dict[str, Any]:
    return {"stretch": float(rng.choice([0.5, 1.0, 1.0, 1.5, 30.0]))}


def _many_steps() -> Iterator[Case]:
    """Sixty steps, with weights of 0 and more tokens than features."""
    X, W = np.array([[1.0, 0.5], [-1.0, 2.0], [0.5, -1.5]]), np.array([[1.0, 0.0], [-0.5, 2.0]])
    values = {"X": X, "W": W, "M": np.ones((2, 2)), "mask": "causal", "steps": 60, "stretch": 1.0}
    for lam in (1e-3, 0.3):
        yield Case({**values, "lam": lam}, f"60 steps, lam = {lam}")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:segment_step",
        kind=Kind.LEMMA,
        title="A longer step, from the rows' own variances",
        section=_SECTION,
        reading=ANY_MASK,
        formula="<g, Hess L(M - t g) g> <= L_seg ||g||^2, L(M - eta g) + eta ||g||^2/2 <= L(M) wherever eta L_seg <="
        " 1, L_seg = lam + ||g||^{-2} sum_i min(C_+ D_i, e^{r_i} V_i (min(1/2, e^{r_i} s_i) + min(1/2, u_i + 4"
        " (e^{r_i} - 1) s_i))) if ||g|| > 0 and 0 <= t <= eta",
        strength=Strength.LOWER,
        margin=_segment,
        supply=Instances("any", extra=_share),
        hypotheses=(moving("||g|| > 0"),),
        uses=("new:softmax_move", "new:local_curvature", "new:directional_step"),
        attains=_sleeping_row,
        wrong=(
            Wrong("five times the step", lambda q: _segment(q, 5.0)),
            Wrong("the growth e^r left out", lambda q: _segment(q, growth=False)),
            Wrong("0.95 L_seg", lambda q: _segment(q, bend=0.95)),
        ),
        source="new",
    ),
    Claim(
        id="new:armijo_step",
        kind=Kind.LEMMA,
        title="Length of a backtracking step",
        section=_SECTION,
        reading=ANY_MASK,
        formula="eta >= min(eta_0, 2 (1 - alpha) beta / (lam + C_+ K^2)) if ||grad L(M)|| > 0 and eta_0 > 0 and 0 <"
        " alpha < 1 and 0 < beta < 1",
        strength=Strength.LOWER,
        margin=_armijo,
        supply=Instances("any", extra=_trial),
        hypotheses=(moving(),),
        uses=("new:curvature_range",),
        attains=_pure_regulariser,
        wrong=(Wrong("1.1 times that", lambda q: _armijo(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:stopping_rule",
        kind=Kind.LEMMA,
        title="A stopping rule",
        section=_SECTION,
        reading=ANY_MASK,
        formula="min_{t<T} ||grad L(M_t)||^2 <= lam d^2 / sum_{t<T} eta_t, M_0 = 1 if lam > 0 and L(M_{t+1}) + eta_t"
        " ||grad L(M_t)||^2/2 <= L(M_t)",
        strength=Strength.UPPER,
        margin=_stopping,
        supply=Instances("any", extra=_stretched, small=True, free=("W", "X")),
        hypotheses=(lam_positive(lambda rng: _many_steps()), _PAYS),
        uses=("new:directional_step",),
        attains=_many_steps,
        wrong=(Wrong("0.9 of it", lambda q: _stopping(q, 0.9)),),
        source="new",
    ),
)
