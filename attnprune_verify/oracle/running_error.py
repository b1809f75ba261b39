"""How far may a correct floating-point implementation be from the truth? A running-error bound, entry by entry.

The bound is propagated through logits -> softmax -> c -> p -> gradient for an implementation that computes with
unit roundoff u (2**-24 for float32, 2**-53 for float64), the standard model fl(a op b) = (a op b)(1 + delta),
|delta| <= u, plus one underflow unit per operation. It assumes

* a product of k terms is summed in any order: gamma_k = k u / (1 - k u);
* logits come from two nested matrix products, (X A) X^T or X (A X^T), in any order each;
* exp is accurate within 4 u; the rows are shifted by their maximum, or no exponential leaves the floating range;
* dividing by the row sum, multiplying by its reciprocal, or subtracting log(row sum) or logsumexp(row) in the
  exponent (the latter rounds relative to the largest logit, for all weights of a row alike);
* p as c*F - diag((c*F)1)F, as F*(c - (c*F)1), or as reverse mode writes it (up to eight roundings each).

Why the bound is not too small: every step is a sum of non-negative terms, evaluated in float64 from values whose own
float64 error is added first (the same rules with u = 2**-53). Sums and products of non-negative numbers lose at most a
relative k 2**-53, below 2**-20 for every size that fits into a computer; the factor `_SAFETY` pays for that.
The underflow unit is the smallest *normal* number, so hardware that flushes subnormal numbers to zero is covered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.inputs import floats

__all__ = [
    "attention_bound",
    "factored_gradient_bound",
    "factored_loss_bound",
    "gradient_bound",
    "hessian_vector_product_bound",
    "loss_bound",
]

_Array: TypeAlias = NDArray[np.float64]

_U64 = 2.0**-53
_SAFETY = 1 + 2.0**-19
_BLOCK = 2**20  # logits per row block


def attention_bound(X: ArrayLike, W: ArrayLike, mask: MaskLike = None, unit_roundoff: float = _U64) -> _Array:
    """Bound |F_computed - F| entry by entry, shape (n, n) or (k, n, n).

    Examples
    --------
    >>> import numpy as np
    >>> bool((attention_bound(np.eye(2), np.eye(2)) < 1e-14).all())
    True
    """
    (weight,), samples, allowed = floats(X, mask, W=W)
    n = len(allowed)
    bounds = np.zeros((len(samples), n, n))
    with np.errstate(all="ignore"):
        for tokens, bound in zip(samples, bounds, strict=True):
            weights = _Fused(weight, np.abs(weight))
            for block in _row_blocks(n):
                bound[block] = _softmax(weights, tokens, block, allowed, _Rounding(unit_roundoff)).error
        return _SAFETY * bounds.reshape(*samples.shape[3 - np.ndim(X) : -1], n)


def loss_bound(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, unit_roundoff: float = _U64
) -> float:
    """Bound |L_computed - L|.

    Examples
    --------
    >>> import numpy as np
    >>> loss_bound(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5) < 1e-14
    True
    """
    (pruning, weight), samples, allowed = floats(X, mask, M=M, W=W)
    pair = _Fused(pruning * weight, np.abs(pruning * weight)), _Fused(weight, np.abs(weight))
    return _loss_bound(pair, [pruning], samples, allowed, lam, unit_roundoff)


def factored_loss_bound(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = _U64,
) -> float:
    """Bound |L_computed - L| for the factored loss (logits may be formed through the pair or the fused weight)."""
    (mask_q, mask_k, query, key), samples, allowed = floats(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    pair = _product(mask_q * query, mask_k * key), _product(query, key)
    return _loss_bound(pair, [mask_q, mask_k], samples, allowed, lam, unit_roundoff)


def gradient_bound(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, unit_roundoff: float = _U64
) -> _Array:
    """Bound |g_computed - g| entry by entry, shape (d, d), for the gradient W * (X^T p X) + lam M.

    Parameters
    ----------
    M, W : (d, d) arrays
    X : (n, d) or (k, n, d) array
    lam : float
    mask : None, "causal" or (n, n) of 0 and 1
    unit_roundoff : float
        Of the implementation judged: ``numpy.finfo(dtype).eps / 2``.

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> bool((gradient_bound(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5) < 1e-13).all())
    True
    """
    (pruning, weight), samples, allowed = floats(X, mask, M=M, W=W)
    rounding = _Rounding(unit_roundoff)
    with np.errstate(all="ignore"):
        pair = _Fused(pruning * weight, np.abs(pruning * weight)), _Fused(weight, np.abs(weight))
        size, error = _inner(pair, samples, allowed, rounding)
        return _weighted(np.abs(weight), size, error, lam * np.abs(pruning), np.abs(pruning), rounding)


def factored_gradient_bound(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = _U64,
) -> tuple[_Array, _Array]:
    """Bound the two factored gradients entry by entry, shapes (d, m)."""
    (mask_q, mask_k, query, key), samples, allowed = floats(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    rounding = _Rounding(unit_roundoff)
    with np.errstate(all="ignore"):
        masked_q, masked_k = np.abs(mask_q * query), np.abs(mask_k * key)
        size, error = _inner((_product(mask_q * query, mask_k * key), _product(query, key)), samples, allowed, rounding)
        bounds = []
        for weight, other, pruning, turned in (
            (query, masked_k, mask_q, (size, error)),
            (key, masked_q, mask_k, (size.T, error.T)),
        ):
            # One more product with d terms; the masked factor carries one rounding of its own.
            total, moved = turned[0] @ other, turned[1] @ other
            moved += rounding.gamma(len(weight) + 2) * (total + moved) + len(weight) * rounding.tiny
            bounds.append(_weighted(np.abs(weight), total, moved, lam * np.abs(pruning), np.abs(pruning), rounding))
        return bounds[0], bounds[1]


def hessian_vector_product_bound(
    M: ArrayLike,
    V: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = _U64,
) -> _Array:
    """Bound |Hv_computed - Hv| entry by entry, shape (d, d)."""
    (pruning, direction, weight), samples, allowed = floats(X, mask, M=M, V=V, W=W)
    rounding = _Rounding(unit_roundoff)
    with np.errstate(all="ignore"):
        pair = _Fused(pruning * weight, np.abs(pruning * weight)), _Fused(weight, np.abs(weight))
        size, error = _inner(
            pair, samples, allowed, rounding, moved=_Fused(direction * weight, np.abs(direction * weight))
        )
        return _weighted(np.abs(weight), size, error, lam * np.abs(direction), np.abs(direction), rounding)


class _Rounding(NamedTuple):
    """The arithmetic of the implementation judged."""

    u: float

    @property
    def tiny(self) -> float:
        """The underflow unit: the smallest normal number of the format with this unit roundoff."""
        return float(np.finfo(np.float32 if self.u > 2.0**-40 else np.float64).tiny)

    def gamma(self, k: int) -> float:
        return k * self.u / (1 - k * self.u) if k * self.u < 1 else np.inf


class _Fused(NamedTuple):
    """A fused weight A (d, d), and the sum of absolute values that its rounding errors are relative to."""

    value: _Array
    size: _Array
    terms: int = 0  # terms of the product that formed A, when it has two factors


class _Approx(NamedTuple):
    """A float64 evaluation, a bound of |true|, and a bound of |computed - true| for the implementation judged."""

    value: _Array
    size: _Array
    error: _Array


class _Softmax(NamedTuple):
    value: _Array  # float64 evaluation
    own: _Array  # its own error: |value - true|
    error: _Array  # |computed - true| for the implementation judged
    slip: _Array  # how far its row sums may be from 1, shape (rows, 1)

    @property
    def size(self) -> _Array:
        return np.minimum(self.value + self.own, 1.0)

    @property
    def approx(self) -> _Approx:
        return _Approx(self.value, self.size, self.error)


_FLOAT64 = _Rounding(_U64)


def _product(query: _Array, key: _Array) -> _Fused:
    return _Fused(query @ key.T, np.abs(query) @ np.abs(key).T, query.shape[1])


def _row_blocks(n: int) -> Iterator[slice]:
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _logit_error(weights: _Fused, tokens: _Array, block: slice, rounding: _Rounding) -> _Array:
    d = tokens.shape[1]
    size = np.abs(tokens)
    rows, columns = size[block].sum(axis=1, keepdims=True), size.sum(axis=1)
    lost = d * rounding.tiny * (rows * columns + d * rows + d * columns + 1) * (1 + weights.terms)
    return np.asarray(rounding.gamma(2 * d + weights.terms + 4) * (size[block] @ (weights.size @ size.T) + lost) + lost)


def _softmax(
    weights: _Fused, tokens: _Array, block: slice, allowed: NDArray[np.bool_], rounding: _Rounding
) -> _Softmax:
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
    rounded = _exponent_rounding(_logit_error(weights, tokens, block, _FLOAT64), spread, _FLOAT64)
    relative = np.where(positions, np.expm1(_logit_error(weights, tokens, block, _FLOAT64) + rounded), 0.0)
    worst = 2 * relative.max(axis=1, keepdims=True) + 2 * _FLOAT64.gamma(n + 8) + 4 * n * _FLOAT64.tiny
    size = np.where(positions, np.where(worst < 0.25, value * (1 + 4 * worst) + 4 * _FLOAT64.tiny, 1.0), 0.0)
    own = _capped(size * _quotient_error(size, relative, largest, _FLOAT64), positions, _FLOAT64)
    size = np.minimum(value + own, 1.0)
    # Then the implementation judged, relative to the true weights, which are at most `size`.
    rounded = _exponent_rounding(_logit_error(weights, tokens, block, rounding), spread, rounding)
    relative = np.where(positions, np.expm1(_logit_error(weights, tokens, block, rounding) + rounded), 0.0)
    error = _capped(size * _quotient_error(size, relative, largest, rounding), positions, rounding)
    slip = rounding.gamma(n + 8) + 2 * rounding.u * largest
    slip = slip + 2 * ((size + error) * np.where(positions, rounded, 0.0)).sum(axis=1, keepdims=True)
    return _Softmax(value, own, error, slip)


def _exponent_rounding(logit_error: _Array, spread: _Array, rounding: _Rounding) -> _Array:
    """Errors of an exponential besides its logit's: the rounding of z - max, of log(row sum), and exp itself."""
    return np.asarray(4 * rounding.u * (spread + 2 * logit_error + np.log(spread.shape[1]) + 4))


def _others(values: _Array) -> _Array:
    """For each entry the sum of the other entries of its row (non-negative), rounded up."""
    total = values.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(total - values, 0.0) + (values.shape[1] + 4) * 2 * _U64 * total)


def _quotient_error(size: _Array, relative: _Array, largest: _Array, rounding: _Rounding) -> _Array:
    """The relative error of a weight whose exponential and whose neighbours' have these relative errors.

    Computed over true is 1 / (F_j + sum_{l != j} F_l e_l / e_j): a weight near 1 hardly moves. inf where unknown.
    """
    moved = (1 + relative) * _others(size * relative) + relative * _others(size)
    ratio = moved / (1 - moved)
    row = rounding.gamma(size.shape[1] + 4) + 2 * size.shape[1] * rounding.tiny  # the row sum is at least about 1
    row = row + 2 * rounding.u * largest
    return np.where((moved < 0.5) & (row < 0.1), ratio + (1 + ratio) * 2 * (row + 2 * rounding.u), np.inf)


def _capped(error: _Array, positions: NDArray[np.bool_], rounding: _Rounding) -> _Array:
    """Both the true and the computed weight lie between 0 and 1 (plus the rounding of one sum)."""
    limit = 1 + rounding.gamma(positions.shape[1] + 8)
    known = np.where(np.isnan(error), np.inf, error + 4 * rounding.tiny)
    return np.where(positions, np.minimum(known, limit), 0.0)


def _residual(
    pair: tuple[_Fused, _Fused], tokens: _Array, block: slice, allowed: NDArray[np.bool_], rounding: _Rounding
) -> tuple[_Softmax, _Approx]:
    f = _softmax(pair[0], tokens, block, allowed, rounding)
    dense = _softmax(pair[1], tokens, block, allowed, rounding)
    value = f.value - dense.value
    size = np.abs(value) * (1 + 4 * _U64) + f.own + dense.own
    error = f.error + dense.error
    error = error + rounding.u * (size + error) + np.where(allowed[block], rounding.tiny, 0.0)
    return f, _Approx(value, size, error)


def _times(left: _Approx, right: _Approx) -> _Array:
    """The error of a product whose factors have errors."""
    return left.error * (right.size + right.error) + left.size * right.error


def _centred(f: _Softmax, y: _Approx, rounding: _Rounding) -> _Approx:
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
    return _Approx(value, size, error + weight.shape[1] * rounding.tiny)


def _p(f: _Softmax, c: _Approx, rounding: _Rounding) -> _Approx:
    q = _centred(f, c, rounding)
    parts = f.size * (c.size + (c.size * f.size).sum(axis=1, keepdims=True))
    return _finished(f.value * q.value, parts, _times(q, f.approx), rounding)


def _dp(f: _Softmax, c: _Approx, dz: _Approx, rounding: _Rounding) -> _Approx:
    """The derivative of p: dF*F + c*dF - diag((dF*F + c*dF)1)F - diag((c*F)1)dF with dF = F*(dz - (F*dz)1)."""
    weights = f.approx
    spread = _centred(f, dz, rounding)
    parts = f.size * (dz.size + (dz.size * f.size).sum(axis=1, keepdims=True))
    df = _finished(f.value * spread.value, parts, _times(spread, weights), rounding)
    both = _Approx(f.value + c.value, f.size + c.size, f.error + c.error)
    first = _finished(df.value * both.value, df.size * both.size, _times(df, both), rounding)
    s = _row_sum(first.value, first.size, first.error, rounding)
    r = _row_sum(c.value * f.value, c.size * f.size, _times(c, weights), rounding)
    parts = first.size + s.size * f.size + r.size * df.size
    moved = first.error + _times(s, weights) + _times(r, df)
    return _finished(first.value - s.value * f.value - r.value * df.value, parts, moved, rounding)


def _row_sum(value: _Array, size: _Array, error: _Array, rounding: _Rounding) -> _Approx:
    """A sum over n products, each rounded once or twice."""
    n = size.shape[1]
    total, moved = size.sum(axis=1, keepdims=True), error.sum(axis=1, keepdims=True)
    moved += rounding.gamma(n + 4) * (total + moved) + n * rounding.tiny
    return _Approx(value.sum(axis=1, keepdims=True), total, moved)


def _finished(value: _Array, parts: _Array, moved: _Array, rounding: _Rounding) -> _Approx:
    """Eight roundings of the parts a value is put together from, on top of what its operands had."""
    error = moved + 8 * rounding.u * (parts + moved) + 8 * rounding.tiny
    # Our float64 value obeys the same bound if the implementation is not more precise than float64.
    size = np.minimum(parts, np.abs(value) + error) if rounding.u >= _U64 else parts
    return _Approx(value, size, error)


def _inner(
    pair: tuple[_Fused, _Fused],
    samples: _Array,
    allowed: NDArray[np.bool_],
    rounding: _Rounding,
    moved: _Fused | None = None,
) -> tuple[_Array, _Array]:
    """X^T p X (or X^T dp X when the weights move by `moved`), averaged: a bound of its size and of its error."""
    k, n, d = samples.shape
    size, error, mass = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for tokens in samples:
        columns = np.abs(tokens)
        for block in _row_blocks(n):
            f, c = _residual(pair, tokens, block, allowed, rounding)
            if moved is None:
                p = _p(f, c, rounding)
            else:
                dz = tokens[block] @ (moved.value @ tokens.T)
                own = _logit_error(moved, tokens, block, _FLOAT64)
                error_dz = _logit_error(moved, tokens, block, rounding)
                p = _dp(f, c, _Approx(dz, np.abs(dz) + own, error_dz), rounding)
            positions = allowed[block]
            p_size, p_error = np.where(positions, p.size, 0.0), np.where(positions, p.error, 0.0)
            size += columns[block].T @ (p_size @ columns)
            error += columns[block].T @ (p_error @ columns)
        rows = columns.sum(axis=0)
        mass += n * (rows[:, np.newaxis] + rows + n)
    total = rounding.gamma(2 * n + k + 6) * (size + error) + error + rounding.tiny * (k + mass)
    return size / k, total / k


def _weighted(
    weight: _Array, size: _Array, error: _Array, regular: _Array, pruning: _Array, rounding: _Rounding
) -> _Array:
    """W * (...) + lam M: lam may be rounded to the format, the product and the sum are."""
    value = weight * (size + error) + regular
    bound = weight * error + 4 * rounding.u * value + rounding.tiny * (4 + pruning)
    return np.where(np.isnan(bound), np.inf, _SAFETY * bound)


def _loss_bound(
    pair: tuple[_Fused, _Fused],
    masks: list[_Array],
    samples: _Array,
    allowed: NDArray[np.bool_],
    lam: float,
    unit_roundoff: float,
) -> float:
    k, n, _ = samples.shape
    rounding = _Rounding(unit_roundoff)
    size = error = 0.0
    with np.errstate(all="ignore"):
        for tokens in samples:
            for block in _row_blocks(n):
                _, c = _residual(pair, tokens, block, allowed, rounding)
                size += float((c.size * c.size).sum())
                error += float(_times(c, c).sum())
        misfit = error + rounding.gamma(k * n * n + k + 4) * (size + error)
        squares = float(sum((part * part).sum() for part in masks))
        terms = sum(part.size for part in masks)
        regular = lam * (rounding.gamma(terms + 6) * squares + terms * rounding.tiny)
        whole = (size + misfit) / k + lam * squares
        bound = 0.5 * (misfit / k + regular + 4 * rounding.u * whole) + rounding.tiny * (k * n * n + terms + 4)
    return float("inf") if np.isnan(bound) else _SAFETY * float(bound)
