"""A relation between two computed sides, decided in each arithmetic."""

import math
import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np

_IDENTITY_RADIUS = 1e-15
"""An identity is consistent in ball arithmetic when both sides overlap and the balls are this small relatively."""


_LOST = 1e-9
"""A bound this much smaller than what was added to both its sides is their rounding."""


class Relation(NamedTuple):
    """``lhs kind rhs`` with kind one of ==, <=, >=, <.

    `part` names one bullet of a statement with several. `offset` was added to both sides so that neither is a small
    difference: how nearly the bound is attained is seen without it.
    """

    kind: str
    lhs: Any
    rhs: Any
    part: str = ""
    offset: Any = 0


def at_most(lhs: Any, rhs: Any, part: str = "", offset: Any = 0) -> Relation:
    """lhs <= rhs."""
    return Relation("<=", lhs, rhs, part, offset)


def at_least(lhs: Any, rhs: Any, part: str = "", offset: Any = 0) -> Relation:
    """lhs >= rhs."""
    return Relation(">=", lhs, rhs, part, offset)


def equal(lhs: Any, rhs: Any, part: str = "") -> Relation:
    """lhs == rhs, entry by entry."""
    return Relation("==", lhs, rhs, part)


def less(lhs: Any, rhs: Any, part: str = "") -> Relation:
    """lhs < rhs, strictly; only meaningful in exact or ball arithmetic."""
    return Relation("<", lhs, rhs, part)


def slack(relation: Relation) -> float:
    """Distance of the relation from failing, in [-1, 1] and free of scale: (large - small) / (|large| + |small|).

    For an identity minus the largest deviation over the largest entry. nan when a side is not a number.
    """
    if relation.kind == "==":
        return _deviation(np.asarray(relation.lhs), np.asarray(relation.rhs))
    lhs, rhs = relation.lhs, relation.rhs
    if not (isinstance(lhs, float) and isinstance(rhs, float)):
        lhs, rhs = _floats(lhs), _floats(rhs)
    small, large = (lhs, rhs) if relation.kind in ("<=", "<") else (rhs, lhs)
    if isinstance(small, float):
        if math.isnan(small) or math.isnan(large):
            return math.nan
        return min(1.0, _slack_of_one(float(small), float(large), relation.kind == "<"))
    if np.isnan(small).any() or np.isnan(large).any():
        return math.nan
    if not small.ndim and not large.ndim:
        return min(1.0, _slack_of_one(float(small), float(large), relation.kind == "<"))
    pairs = zip(*np.broadcast_arrays(np.atleast_1d(small), np.atleast_1d(large)), strict=True)
    return min((1.0, *(_slack_of_one(float(a), float(b), relation.kind == "<") for a, b in pairs)))


def _slack_of_one(a: float, b: float, strict: bool) -> float:
    if a == b:
        # 0 <= 0 puts nothing at risk; 0 < 0 is as false as can be
        return -1.0 if strict else (0.0 if a != 0 else 1.0)
    if math.isinf(a) or math.isinf(b):
        return 1.0 if b > a else -1.0
    return (b - a) / (abs(a) + abs(b))


def attained(relation: Relation) -> float | None:
    """small / large for a bound between non-negative numbers: 1 with equality; None where the ratio has no meaning."""
    if relation.kind == "==":
        return None
    small, large = (relation.lhs, relation.rhs) if relation.kind in ("<=", "<") else (relation.rhs, relation.lhs)
    try:
        low, high = float(small - relation.offset), float(large - relation.offset)
    except (TypeError, ValueError):
        return None
    if not (math.isfinite(low) and math.isfinite(high)) or high < 1e-200 or low < 0:
        return None
    if high <= _LOST * abs(float(relation.offset)):
        return None
    return low / high


def scaled(relation: Relation, factor: float) -> Relation:
    """The bound with its larger side, less the offset, times `factor`."""
    kind, lhs, rhs, part, offset = relation
    if kind in ("<=", "<"):
        return Relation(kind, lhs, (rhs - offset) * factor + offset, part, offset)
    return Relation(kind, (lhs - offset) * factor + offset, rhs, part, offset)


@cache
def kind_of(part: str) -> str:
    """A part without the number of its row or step: "row 3, lower" and "row 0, lower" are one part."""
    return re.sub(r"(row|t =) ?\d+", r"\1", part)


def _deviation(lhs: Any, rhs: Any) -> float:
    if lhs.shape != rhs.shape:
        return -1.0
    # the difference is taken before floats come in: balls may be far outside their range
    with np.errstate(invalid="ignore", over="ignore"):
        gap = float(np.max(np.abs(_floats(lhs - rhs)), initial=0.0))
        scale = float(np.max(np.abs(_floats(lhs)), initial=0.0) + np.max(np.abs(_floats(rhs)), initial=0.0))
    return 0.0 if gap == 0.0 or math.isinf(scale) and math.isfinite(gap) else -gap / scale


def numbers(relation: Relation) -> tuple[float | None, float | None]:
    """Both sides as floats; of arrays the entries that are furthest off. None where a side is no number at all."""
    try:
        lhs, rhs = np.broadcast_arrays(_floats(relation.lhs), _floats(relation.rhs))
    except (TypeError, ValueError):  # sides of different shapes, or of words
        return None, None
    if not lhs.size:
        return None, None
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(lhs - rhs) if relation.kind == "==" else rhs - lhs if relation.kind in (">=", ">") else lhs - rhs
    worst = int(np.argmax(np.where(np.isnan(gap), -np.inf, gap)))
    return float(lhs.flat[worst]), float(rhs.flat[worst])


def decide(relation: Relation) -> bool | None:
    """Return True if the relation certainly holds, False if it certainly fails, None if neither is certain.

    For exact fractions and for balls; an identity between balls counts as holding when the two sides overlap and
    their radii are negligible.
    """
    lhs, rhs = (
        np.atleast_1d(np.asarray(relation.lhs, dtype=object)),
        np.atleast_1d(np.asarray(relation.rhs, dtype=object)),
    )
    if relation.kind == "==" and lhs.shape != rhs.shape:
        return False
    answers = [
        _decide_one(relation.kind, a, b)
        for a, b in zip(*(x.ravel() for x in np.broadcast_arrays(lhs, rhs)), strict=True)
    ]
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def _decide_one(kind: str, a: Any, b: Any) -> bool | None:
    if kind == ">=":
        kind, a, b = "<=", b, a
    if kind == "<=":
        return True if a <= b else (False if a > b else None)
    if kind == "<":
        return True if a < b else (False if a >= b else None)
    if a == b:
        return True
    difference = a - b
    if difference > 0 or difference < 0:
        return False
    # overlapping balls: consistent only if they are small
    size = float(abs(a)) + float(abs(b)) + 1e-300
    return True if float(getattr(difference, "rad", lambda: 0.0)()) <= _IDENTITY_RADIUS * max(size, 1e-12) else None


def agrees_to(relation: Relation, digits: int) -> bool:
    """Return True where both sides are small balls that agree to that many digits: an attained bound."""
    sides = np.broadcast_arrays(
        np.atleast_1d(np.asarray(relation.lhs, dtype=object)), np.atleast_1d(np.asarray(relation.rhs, dtype=object))
    )
    return all(
        float(abs(a - b).upper()) <= 10.0**-digits * (1 + float(abs(a).upper()))
        for a, b in zip(*(s.ravel() for s in sides), strict=True)
    )


def _floats(side: Any) -> Any:
    array = np.asarray(side)
    if array.dtype == object:
        array = np.array([float(entry) for entry in array.ravel()]).reshape(array.shape)
    return array.astype(np.float64)
