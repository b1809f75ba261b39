"""Decisions on a statement from lanes: for every instance HOLDS, VIOLATED, UNDECIDED or NOT_MET, and its slack."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.campaign.quantities import LaneQuantities
from attnprune_verify.claims.cases.relation import Relation
from attnprune_verify.claims.core import Claim, Margin, Unmet, relations
from attnprune_verify.theory.numbers.lanes import WIDER, Diverges, Lane, middle, reach

__all__ = ["HOLDS", "NOT_MET", "UNDECIDED", "VIOLATED", "Decision", "TooManyBranches", "decide_lanes"]

NOT_MET, HOLDS, UNDECIDED, VIOLATED = range(4)
RESOLUTION = 1e-6
"""Two sides that rounding may have put on the wrong side of each other count as equal where that rounding is below this
share of their size; else the instance is undecided."""
_MOST_PARTS = 200  # chosen: of at most 1024 lanes, some five a part


class TooManyBranches(Exception):
    """Raised when nearly every instance takes a different branch; the caller then judges them one by one."""


class Decision(NamedTuple):
    """Decision for each instance of a batch: NOT_MET, HOLDS, UNDECIDED or VIOLATED, and its slack (nan if not met)."""

    state: NDArray[np.int8]
    slack: NDArray[np.float64]


def decide_lanes(claim: Claim, quantities: LaneQuantities, lanes: int, margin: Margin | None = None) -> Decision:
    """Judge `lanes` instances at once; at a branch on a value they are split, and each part is judged by itself.

    Raises
    ------
    TooManyBranches
        If they are split too often.
    """
    found = Decision(np.full(lanes, NOT_MET, dtype=np.int8), np.full(lanes, np.nan))
    waiting = [(quantities, np.arange(lanes))]
    parts = 0
    while waiting:
        one, places = waiting.pop()
        try:
            part = _uniform(claim, one, len(places), margin or claim.margin)
        except Diverges as way:
            parts += 1
            if parts > _MOST_PARTS:
                raise TooManyBranches(claim.test_id) from None
            waiting += [(one.part(chosen), places[chosen]) for chosen in (way.first, ~way.first)]
            continue
        if part is not None:
            found.state[places], found.slack[places] = part
    return found


def _uniform(claim: Claim, q: LaneQuantities, lanes: int, margin: Margin) -> Decision | None:
    """Decide instances that take the same branches; None if a hypothesis fails or nothing is asserted of them."""
    with np.errstate(all="ignore"):  # what overflows has an infinite radius, and is undecided
        for hypothesis in claim.hypotheses:
            if not hypothesis.holds(q):
                return None
        try:
            asserted = relations(margin, q)
        except Unmet:
            return None
        return _weigh(asserted, lanes) if asserted else None


def _weigh(asserted: Sequence[Relation], lanes: int) -> Decision:
    """Decide a statement from its relations: all must hold, and the slack is the least of theirs."""
    holds, violated = np.ones(lanes, dtype=bool), np.zeros(lanes, dtype=bool)
    slack = np.full(lanes, np.inf)  # stays where everything overflows
    for relation in asserted:
        one = _identity(relation) if relation.kind == "==" else _inequality(relation)
        holds &= one[0]
        violated |= one[1]
        np.fmin(slack, one[2], out=slack)
    state = np.where(violated, VIOLATED, np.where(holds, HOLDS, UNDECIDED)).astype(np.int8)
    return Decision(state, np.where(np.isinf(slack), np.nan, slack))


_Answer = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]


def _pairs(relation: Relation) -> list[tuple[Any, Any]] | None:
    lhs, rhs = (np.atleast_1d(np.asarray(side, dtype=object)) for side in (relation.lhs, relation.rhs))
    if relation.kind == "==" and lhs.shape != rhs.shape:
        return None
    return list(zip(*(side.ravel() for side in np.broadcast_arrays(lhs, rhs)), strict=True))


def _inequality(relation: Relation) -> _Answer:
    """Slack as `relation.slack` has it: (large - small) / (|large| + |small|)."""
    holds, violated, slack = np.array([True]), np.array([False]), np.array([1.0])
    strict = relation.kind == "<"
    for a, b in _pairs(relation) or []:
        small, large = (a, b) if relation.kind in ("<=", "<") else (b, a)
        (low_s, high_s), (low_l, high_l) = reach(small), reach(large)
        s, m = middle(small), middle(large)
        size = np.abs(m) + np.abs(s)
        certain = (high_s < low_l) if strict else (high_s <= low_l)
        within = (_radius(small) + _radius(large) <= RESOLUTION * size) & (not strict)
        violated = violated | ((low_s >= high_l) if strict else (low_s > high_l))
        holds = holds & (certain | within)
        with np.errstate(invalid="ignore", divide="ignore"):
            one = (m - s) / size
        one = np.where(s == m, np.where((s == 0) & (not strict), 1.0, -1.0 if strict else 0.0), one)
        # beside what overflowed nothing is known of the slack
        slack = np.fmin(slack, np.where(np.isfinite(high_s) & np.isfinite(high_l), one, np.inf))
    return holds, violated, slack


def _identity(relation: Relation) -> _Answer:
    """Decide an identity: both sides must agree within their rounding errors; the slack is 1 - error/bound."""
    pairs = _pairs(relation)
    if pairs is None:  # of different shapes
        return np.array([False]), np.array([True]), np.array([-1.0])
    holds, violated, slack = np.array([True]), np.array([False]), np.array([1.0])
    scale = np.array([0.0])
    for a, b in pairs:
        scale = np.maximum(scale, np.abs(middle(a)) + np.abs(middle(b)))
    for a, b in pairs:
        bound = (_radius(a) + _radius(b)) * WIDER
        error = np.abs(middle(a) - middle(b))
        violated = violated | (error > bound)
        holds = holds & (error <= bound) & (bound <= RESOLUTION * scale)
        with np.errstate(invalid="ignore", divide="ignore"):
            one = 1.0 - error / np.maximum(bound, 2.0**-53 * (np.abs(middle(a)) + np.abs(middle(b))))
        slack = np.fmin(slack, np.where(error == 0, 1.0, np.where(np.isfinite(bound), one, np.inf)))
    return holds, violated, slack


def _radius(entry: Any) -> NDArray[np.float64]:
    if not isinstance(entry, Lane) or entry.rad is None:
        return np.array([0.0])
    return entry.rad
