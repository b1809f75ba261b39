"""How rounding errors travel from the logits to p: one rule a step, for any unit roundoff.

Each rule takes float64 values with bounds of the true values' sizes and of the errors of the implementation judged,
and returns the same for its result. What is assumed of that implementation stands in `running_error`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FLOAT64", "U64", "Approx", "Array", "Fused", "Rounding", "Softmax", "dp_matrix", "logit_error", "p_matrix",
    "product", "residual", "row_blocks", "softmax", "times",
]  # fmt: skip

Array: TypeAlias = NDArray[np.float64]

U64 = 2.0**-53
_BLOCK = 2**20  # logits per row block


class Rounding(NamedTuple):
    """The arithmetic of the implementation judged."""

    u: float

    @property
    def tiny(self) -> float:
        """The underflow unit: the smallest normal number of the format with this unit roundoff."""
        return float(np.finfo(np.float32 if self.u > 2.0**-40 else np.float64).tiny)

    def gamma(self, k: int) -> float:
        return k * self.u / (1 - k * self.u) if k * self.u < 1 else np.inf


class Fused(NamedTuple):
    """A fused weight A (d, d), and the sum of absolute values that its rounding errors are relative to."""

    value: Array
    size: Array
    terms: int = 0  # terms of the product that formed A, when it has two factors


class Approx(NamedTuple):
    """A float64 evaluation, a bound of |true|, and a bound of |computed - true| for the implementation judged."""

    value: Array
    size: Array
    error: Array


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


def product(query: Array, key: Array) -> Fused:
    """The fused weight of a pair, W_Q W_K^T."""
    return Fused(query @ key.T, np.abs(query) @ np.abs(key).T, query.shape[1])


def row_blocks(n: int) -> Iterator[slice]:
    """Rows of an (n, n) array, a bounded number of entries at a time."""
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def logit_error(weights: Fused, tokens: Array, block: slice, rounding: Rounding) -> Array:
    """The rounding errors of two nested products of d terms each, and of what the fused weight had."""
    d = tokens.shape[1]
    size = np.abs(tokens)
    rows, columns = size[block].sum(axis=1, keepdims=True), size.sum(axis=1)
    lost = d * rounding.tiny * (rows * columns + d * rows + d * columns + 1) * (1 + weights.terms)
    return np.asarray(rounding.gamma(2 * d + weights.terms + 4) * (size[block] @ (weights.size @ size.T) + lost) + lost)


def softmax(weights: Fused, tokens: Array, block: slice, allowed: NDArray[np.bool_], rounding: Rounding) -> Softmax:
    logits = tokens[block] @ (weights.value @ tokens.T)
    positions = allowed[block]
    shift = np.max(np.where(positions, logits, -np.inf), axis=1, keepdims=True)
    exponentials = np.where(positions, np.exp(np.where(positions, logits - shift, -np.inf)), 0.0)
    value = exponentials / exponentials.sum(axis=1, keepdims=True)
    spread = np.where(positions, np.abs(logits - shift), 0.0)
    largest = np.abs(shift)
    # Our own float64 evaluation first: crudely from the largest relative error in the row, which needs no knowledge
    # of the true weights (relative to the value we have it is r / (1 - r)), then again with the weights so bounded.
    n = len(allowed)
    rounded = _exponent_rounding(logit_error(weights, tokens, block, FLOAT64), spread, FLOAT64)
    relative = np.where(positions, np.expm1(logit_error(weights, tokens, block, FLOAT64) + rounded), 0.0)
    worst = 2 * relative.max(axis=1, keepdims=True) + 2 * FLOAT64.gamma(n + 8) + 4 * n * FLOAT64.tiny
    size = np.where(positions, np.where(worst < 0.25, value * (1 + 4 * worst) + 4 * FLOAT64.tiny, 1.0), 0.0)
    own = _capped(size * _quotient_error(size, relative, largest, FLOAT64), positions, FLOAT64)
    size = np.minimum(value + own, 1.0)
    # Then the implementation judged, relative to the true weights, which are at most `size`.
    rounded = _exponent_rounding(logit_error(weights, tokens, block, rounding), spread, rounding)
    relative = np.where(positions, np.expm1(logit_error(weights, tokens, block, rounding) + rounded), 0.0)
    error = _capped(size * _quotient_error(size, relative, largest, rounding), positions, rounding)
    slip = rounding.gamma(n + 8) + 2 * rounding.u * largest
    slip = slip + 2 * ((size + error) * np.where(positions, rounded, 0.0)).sum(axis=1, keepdims=True)
    return Softmax(value, own, error, slip)


def _exponent_rounding(logit_error: Array, spread: Array, rounding: Rounding) -> Array:
    """Errors of an exponential besides its logit's: the rounding of z - max, of log(row sum), and exp itself."""
    return np.asarray(4 * rounding.u * (spread + 2 * logit_error + np.log(spread.shape[1]) + 4))


def _others(values: Array) -> Array:
    """For each entry the sum of the other entries of its row (non-negative), rounded up."""
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
    """Both the true and the computed weight lie between 0 and 1 (plus the rounding of one sum)."""
    limit = 1 + rounding.gamma(positions.shape[1] + 8)
    known = np.where(np.isnan(error), np.inf, error + 4 * rounding.tiny)
    return np.where(positions, np.minimum(known, limit), 0.0)


def residual(
    pair: tuple[Fused, Fused], tokens: Array, block: slice, allowed: NDArray[np.bool_], rounding: Rounding
) -> tuple[Softmax, Approx]:
    """F(M), and c = F(M) - F(1)."""
    f = softmax(pair[0], tokens, block, allowed, rounding)
    dense = softmax(pair[1], tokens, block, allowed, rounding)
    value = f.value - dense.value
    size = np.abs(value) * (1 + 4 * U64) + f.own + dense.own
    error = f.error + dense.error
    error = error + rounding.u * (size + error) + np.where(allowed[block], rounding.tiny, 0.0)
    return f, Approx(value, size, error)


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


def _row_sum(value: Array, size: Array, error: Array, rounding: Rounding) -> Approx:
    """A sum over n products, each rounded once or twice."""
    n = size.shape[1]
    total, moved = size.sum(axis=1, keepdims=True), error.sum(axis=1, keepdims=True)
    moved += rounding.gamma(n + 4) * (total + moved) + n * rounding.tiny
    return Approx(value.sum(axis=1, keepdims=True), total, moved)


def _finished(value: Array, parts: Array, moved: Array, rounding: Rounding) -> Approx:
    """Eight roundings of the parts a value is put together from, on top of what its operands had."""
    error = moved + 8 * rounding.u * (parts + moved) + 8 * rounding.tiny
    # Our float64 value obeys the same bound if the implementation is not more precise than float64.
    size = np.minimum(parts, np.abs(value) + error) if rounding.u >= U64 else parts
    return Approx(value, size, error)
