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

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.error_propagation import (
    FLOAT64,
    U64,
    Approx,
    Array,
    Fused,
    Rounding,
    dp_matrix,
    logit_error,
    p_matrix,
    product,
    residual,
    row_blocks,
    softmax,
    times,
)
from attnprune_verify.oracle.inputs import floats

__all__ = [
    "attention_bound",
    "factored_gradient_bound",
    "factored_loss_bound",
    "gradient_bound",
    "hessian_vector_product_bound",
    "loss_bound",
]

_SAFETY = 1 + 2.0**-19


def attention_bound(X: ArrayLike, W: ArrayLike, mask: MaskLike = None, unit_roundoff: float = U64) -> Array:
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
            weights = Fused(weight, np.abs(weight))
            for block in row_blocks(n):
                bound[block] = softmax(weights, tokens, block, allowed, Rounding(unit_roundoff)).error
        return _SAFETY * bounds.reshape(*samples.shape[3 - np.ndim(X) : -1], n)


def loss_bound(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, unit_roundoff: float = U64
) -> float:
    """Bound |L_computed - L|.

    Examples
    --------
    >>> import numpy as np
    >>> loss_bound(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5) < 1e-14
    True
    """
    (pruning, weight), samples, allowed = floats(X, mask, M=M, W=W)
    pair = Fused(pruning * weight, np.abs(pruning * weight)), Fused(weight, np.abs(weight))
    return _loss_bound(pair, [pruning], samples, allowed, lam, unit_roundoff)


def factored_loss_bound(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = U64,
) -> float:
    """Bound |L_computed - L| for the factored loss (logits may be formed through the pair or the fused weight)."""
    (mask_q, mask_k, query, key), samples, allowed = floats(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    pair = product(mask_q * query, mask_k * key), product(query, key)
    return _loss_bound(pair, [mask_q, mask_k], samples, allowed, lam, unit_roundoff)


def gradient_bound(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, unit_roundoff: float = U64
) -> Array:
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
    rounding = Rounding(unit_roundoff)
    with np.errstate(all="ignore"):
        pair = Fused(pruning * weight, np.abs(pruning * weight)), Fused(weight, np.abs(weight))
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
    unit_roundoff: float = U64,
) -> tuple[Array, Array]:
    """Bound the two factored gradients entry by entry, shapes (d, m)."""
    (mask_q, mask_k, query, key), samples, allowed = floats(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    rounding = Rounding(unit_roundoff)
    with np.errstate(all="ignore"):
        masked_q, masked_k = np.abs(mask_q * query), np.abs(mask_k * key)
        size, error = _inner((product(mask_q * query, mask_k * key), product(query, key)), samples, allowed, rounding)
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
    unit_roundoff: float = U64,
) -> Array:
    """Bound |Hv_computed - Hv| entry by entry, shape (d, d)."""
    (pruning, direction, weight), samples, allowed = floats(X, mask, M=M, V=V, W=W)
    rounding = Rounding(unit_roundoff)
    with np.errstate(all="ignore"):
        pair = Fused(pruning * weight, np.abs(pruning * weight)), Fused(weight, np.abs(weight))
        size, error = _inner(
            pair, samples, allowed, rounding, moved=Fused(direction * weight, np.abs(direction * weight))
        )
        return _weighted(np.abs(weight), size, error, lam * np.abs(direction), np.abs(direction), rounding)


def _inner(
    pair: tuple[Fused, Fused],
    samples: Array,
    allowed: NDArray[np.bool_],
    rounding: Rounding,
    moved: Fused | None = None,
) -> tuple[Array, Array]:
    """X^T p X (or X^T dp X when the weights move by `moved`), averaged: a bound of its size and of its error."""
    k, n, d = samples.shape
    size, error, mass = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for tokens in samples:
        columns = np.abs(tokens)
        for block in row_blocks(n):
            f, c = residual(pair, tokens, block, allowed, rounding)
            if moved is None:
                p = p_matrix(f, c, rounding)
            else:
                dz = tokens[block] @ (moved.value @ tokens.T)
                own = logit_error(moved, tokens, block, FLOAT64)
                error_dz = logit_error(moved, tokens, block, rounding)
                p = dp_matrix(f, c, Approx(dz, np.abs(dz) + own, error_dz), rounding)
            positions = allowed[block]
            p_size, p_error = np.where(positions, p.size, 0.0), np.where(positions, p.error, 0.0)
            size += columns[block].T @ (p_size @ columns)
            error += columns[block].T @ (p_error @ columns)
        rows = columns.sum(axis=0)
        mass += n * (rows[:, np.newaxis] + rows + n)
    total = rounding.gamma(2 * n + k + 6) * (size + error) + error + rounding.tiny * (k + mass)
    return size / k, total / k


def _weighted(weight: Array, size: Array, error: Array, regular: Array, pruning: Array, rounding: Rounding) -> Array:
    """W * (...) + lam M: lam may be rounded to the format, the product and the sum are."""
    value = weight * (size + error) + regular
    bound = weight * error + 4 * rounding.u * value + rounding.tiny * (4 + pruning)
    return np.where(np.isnan(bound), np.inf, _SAFETY * bound)


def _loss_bound(
    pair: tuple[Fused, Fused],
    masks: list[Array],
    samples: Array,
    allowed: NDArray[np.bool_],
    lam: float,
    unit_roundoff: float,
) -> float:
    k, n, _ = samples.shape
    rounding = Rounding(unit_roundoff)
    size = error = 0.0
    with np.errstate(all="ignore"):
        for tokens in samples:
            for block in row_blocks(n):
                _, c = residual(pair, tokens, block, allowed, rounding)
                size += float((c.size * c.size).sum())
                error += float(times(c, c).sum())
        misfit = error + rounding.gamma(k * n * n + k + 4) * (size + error)
        squares = float(sum((part * part).sum() for part in masks))
        terms = sum(part.size for part in masks)
        regular = lam * (rounding.gamma(terms + 6) * squares + terms * rounding.tiny)
        whole = (size + misfit) / k + lam * squares
        bound = 0.5 * (misfit / k + regular + 4 * rounding.u * whole) + rounding.tiny * (k * n * n + terms + 4)
    return float("inf") if np.isnan(bound) else _SAFETY * float(bound)
