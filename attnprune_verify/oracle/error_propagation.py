"""Propagation of rounding errors from scores to p: one rule a step, for any unit roundoff.

Each rule takes float64 values with bounds of the true values' sizes and of the errors of the implementation judged,
and returns the same for its result. `running_error` lists the assumptions on that implementation; `score_errors`
derives the errors of the scores.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FLOAT64", "U64", "Approx", "Array", "Rounding", "Scores", "Softmax", "bent", "dp_matrix", "p_matrix", "residual",
    "softmax", "times",
]  # fmt: skip

Array: TypeAlias = NDArray[np.float64]

U64, U32 = 2.0**-53, 2.0**-24  # half a unit in the last place of 1: IEEE 754


class Rounding(NamedTuple):
    """The arithmetic of the implementation judged; formats of 16 bits are stored only, and computed in float32."""

    u: float

    @property
    def tiny(self) -> float:
        """Bound of an underflow's error: the smallest normal number of the format with this unit roundoff.

        In float16 it is the smallest subnormal number: hardware stores float16 without flushing subnormals to 0.
        """
        if self.u == 2.0**-11:
            return float(np.finfo(np.float16).smallest_subnormal)
        return float(np.finfo(np.float32 if self.u > 2.0**-40 else np.float64).tiny)

    @property
    def working(self) -> Rounding:
        """The arithmetic of its sums, logits and exponentials."""
        return Rounding(min(self.u, U32))

    def gamma(self, k: int) -> float:
        """Return gamma of a sum of k terms, plus the rounding of stored values if that is coarser."""
        u = min(self.u, U32)
        stored = self.u if self.u > u else 0.0
        return k * u / (1 - k * u) + stored if k * u < 1 else np.inf


class Approx(NamedTuple):
    """A float64 evaluation, a bound of |true|, and a bound of |computed - true| for the implementation judged."""

    value: Array
    size: Array
    error: Array


class Scores(NamedTuple):
    """Rows of scores, the arguments of the softmax."""

    value: Array  # float64 evaluation
    own: Array  # its own error
    error: Array  # |computed - true| for the implementation judged
    bend: Approx | None = None  # u' and u'' of a cap
    curve: Approx | None = None


class Softmax(NamedTuple):
    """Rows of a softmax, as the implementation judged may have them."""

    value: Array  # float64 evaluation
    own: Array  # its own error: |value - true|
    error: Array  # |computed - true| for the implementation judged
    slip: Array  # how far its row sums may be from 1, shape (rows, 1)

    @property
    def size(self) -> Array:
        return np.minimum(self.value + self.own, 1.0)

    @property
    def approx(self) -> Approx:
        return Approx(self.value, self.size, self.error)


FLOAT64 = Rounding(U64)


def softmax(scores: Scores, positions: NDArray[np.bool_], rounding: Rounding) -> Softmax:
    """The softmax of rows of scores; formats of 16 bits store its result only."""
    stored, rounding = rounding, rounding.working
    logits, n = scores.value, positions.shape[1]
    shift = np.max(np.where(positions, logits, -np.inf), axis=1, keepdims=True)
    exponentials = np.where(positions, np.exp(np.where(positions, logits - shift, -np.inf)), 0.0)
    value = exponentials / exponentials.sum(axis=1, keepdims=True)
    # Our own float64 evaluation first: crudely from the largest relative error in the row, which needs no knowledge
    # of the true weights (relative to the value we have it is r / (1 - r)), then again with the weights so bounded.
    spread, largest = _shifted(logits, 2 * scores.own, positions)
    rounded = _exponent_rounding(scores.own, spread, FLOAT64)
    relative = np.where(positions, np.expm1(scores.own + rounded), 0.0)
    worst = 2 * relative.max(axis=1, keepdims=True) + 2 * FLOAT64.gamma(n + 8) + 4 * n * FLOAT64.tiny
    size = np.where(positions, np.where(worst < 0.25, value * (1 + 4 * worst) + 4 * FLOAT64.tiny, 1.0), 0.0)
    own = _capped(size * _quotient_error(size, relative, largest, FLOAT64), positions, FLOAT64)
    size = np.minimum(value + own, 1.0)
    # Then the implementation judged, relative to the true weights, which are at most `size`.
    spread, largest = _shifted(logits, scores.own + scores.error, positions)
    rounded = _exponent_rounding(scores.error, spread, rounding)
    relative = np.where(positions, np.expm1(scores.error + rounded), 0.0)
    error = _capped(size * _quotient_error(size, relative, largest, rounding), positions, rounding)
    slip = rounding.gamma(n + 8) + 2 * rounding.u * largest
    slip = slip + 2 * ((size + error) * np.where(positions, rounded, 0.0)).sum(axis=1, keepdims=True)
    if stored.u > rounding.u:
        error, slip = error + stored.u * (size + error) + np.where(positions, stored.tiny, 0.0), slip + stored.u
    return Softmax(value, own, error, slip)


def _shifted(logits: Array, reach: Array, positions: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Bound the distance of scores within `reach` from the computed maximum of their row, and that maximum's size."""
    high = np.max(np.where(positions, logits + reach, -np.inf), axis=1, keepdims=True)
    low = np.max(np.where(positions, logits - reach, -np.inf), axis=1, keepdims=True)
    return np.where(positions, high - logits, 0.0), np.maximum(np.abs(high), np.abs(low))


def _exponent_rounding(logit_error: Array, spread: Array, rounding: Rounding) -> Array:
    """Errors of an exponential besides its logit's: the rounding of z - max, of log(row sum), and exp itself."""
    return np.asarray(4 * rounding.u * (spread + 2 * logit_error + np.log(spread.shape[1]) + 4))


def _others(values: Array) -> Array:
    """For each entry the sum of the other (non-negative) entries of its row, rounded up."""
    total = values.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(total - values, 0.0) + (values.shape[1] + 4) * 2 * U64 * total)


def _quotient_error(size: Array, relative: Array, largest: Array, rounding: Rounding) -> Array:
    """The relative error of a weight whose exponential and whose neighbours' have these relative errors.

    Computed over true is 1 / (F_j + sum_{l != j} F_l e_l / e_j): a weight near 1 hardly moves. inf where unknown.
    """
    moved = (1 + relative) * _others(size * relative) + relative * _others(size)
    ratio = moved / (1 - moved)
    row = rounding.gamma(size.shape[1] + 4) + 2 * size.shape[1] * rounding.tiny  # the row sum is at least about 1
    row = row + 2 * rounding.u * largest
    return np.where((moved < 0.5) & (row < 0.1), ratio + (1 + ratio) * 2 * (row + 2 * rounding.u), np.inf)


def _capped(error: Array, positions: NDArray[np.bool_], rounding: Rounding) -> Array:
    """Limit errors of weights: the true and the computed one lie between 0 and 1 (plus the rounding of one sum)."""
    limit = 1 + rounding.gamma(positions.shape[1] + 8)
    known = np.where(np.isnan(error), np.inf, error + 4 * rounding.tiny)
    return np.where(positions, np.minimum(known, limit), 0.0)


def residual(f: Softmax, dense: Softmax, positions: NDArray[np.bool_], rounding: Rounding) -> Approx:
    """c = F(M) - F(1)."""
    value = f.value - dense.value
    size = np.abs(value) * (1 + 4 * U64) + f.own + dense.own
    error = f.error + dense.error
    error = error + rounding.u * (size + error) + np.where(positions, rounding.tiny, 0.0)
    return Approx(value, size, error)


def times(left: Approx, right: Approx) -> Array:
    """The error of a product whose factors have errors."""
    return left.error * (right.size + right.error) + left.size * right.error


def _centred(f: Softmax, y: Approx, rounding: Rounding) -> Approx:
    """y - (F*y)1. The errors of an entry and of its row's mean cancel where the weight is near 1.

    Computed weights sum to 1 only within `slip`; as sum_l F_l = 1,
    y_j - sum_l F_l y_l = sum_{l != j} F_l (y_j - y_l).
    """
    weight = f.size + f.error
    total = ((y.size + y.error) * weight).sum(axis=1, keepdims=True)
    error = f.slip * (y.size + y.error) + y.size * _others(f.error) + _others(y.size * f.error)
    error = error + y.error * _others(weight) + _others(y.error * weight)
    error = error + rounding.gamma(weight.shape[1] + 4) * total + 4 * rounding.u * (y.size + y.error)
    value = y.value - (f.value * y.value).sum(axis=1, keepdims=True)
    size = np.minimum(y.size * _others(f.size) + _others(y.size * f.size), y.size + total)
    return Approx(value, size, error + weight.shape[1] * rounding.tiny)


def p_matrix(f: Softmax, c: Approx, rounding: Rounding) -> Approx:
    """p = F*(c - (F*c)1)."""
    q = _centred(f, c, rounding)
    parts = f.size * (c.size + (c.size * f.size).sum(axis=1, keepdims=True))
    return _finished(f.value * q.value, parts, times(q, f.approx), rounding)


def dp_matrix(f: Softmax, c: Approx, dz: Approx, rounding: Rounding) -> Approx:
    """The derivative of p: dF*F + c*dF - diag((dF*F + c*dF)1)F - diag((c*F)1)dF with dF = F*(dz - (F*dz)1)."""
    weights = f.approx
    spread = _centred(f, dz, rounding)
    parts = f.size * (dz.size + (dz.size * f.size).sum(axis=1, keepdims=True))
    df = _finished(f.value * spread.value, parts, times(spread, weights), rounding)
    both = Approx(f.value + c.value, f.size + c.size, f.error + c.error)
    first = _finished(df.value * both.value, df.size * both.size, times(df, both), rounding)
    s = _row_sum(first.value, first.size, first.error, rounding)
    r = _row_sum(c.value * f.value, c.size * f.size, times(c, weights), rounding)
    parts = first.size + s.size * f.size + r.size * df.size
    moved = first.error + times(s, weights) + times(r, df)
    return _finished(first.value - s.value * f.value - r.value * df.value, parts, moved, rounding)


def bent(p: Approx, bend: Approx | None, rounding: Rounding) -> Approx:
    """p * u', where the scores are capped."""
    if bend is None:
        return p
    return _finished(p.value * bend.value, p.size * bend.size, times(p, bend), rounding)


def _row_sum(value: Array, size: Array, error: Array, rounding: Rounding) -> Approx:
    """A sum over n products, each rounded once or twice."""
    n = size.shape[1]
    total, moved = size.sum(axis=1, keepdims=True), error.sum(axis=1, keepdims=True)
    moved += rounding.gamma(n + 4) * (total + moved) + n * rounding.tiny
    return Approx(value.sum(axis=1, keepdims=True), total, moved)


def _finished(value: Array, parts: Array, moved: Array, rounding: Rounding) -> Approx:
    """Add eight roundings of the parts of a value to the errors of its operands."""
    error = moved + 8 * rounding.u * (parts + moved) + 8 * rounding.tiny
    # Our float64 value obeys the same bound if the implementation is not more precise than float64.
    size = np.minimum(parts, np.abs(value) + error) if rounding.u >= U64 else parts
    return Approx(value, size, error)
