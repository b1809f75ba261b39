"""The loss with one pruning mask for W_Q and one for W_K (eq:new_loss), and its gradient.

As printed, eq:new_loss has no lam in front of its regulariser although the experiments set one; the repaired form
(lam/2)(||M_Q||_F^2 + ||M_K||_F^2) is meant here. With lam = 1 it is the printed one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, MaskLike, as_lam, as_mask, as_reals, check_shapes
from attnprune_verify.model.attention import product, row_blocks, shift_is_needed, softmax_block
from attnprune_verify.model.objective import rows_of_p

__all__ = ["factored_gradient", "factored_loss"]

_FORMS = {"X": ("n", "d"), "W_Q": ("d", "m"), "W_K": ("d", "m"), "M_Q": ("d", "m"), "M_K": ("d", "m")}


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> float:
    """The pruning loss with separate masks on the query and key weights (eq:new_loss, repaired).

    ::

        L(M_Q, M_K) = (1/k) sum_j 1/2 ||F_j(M_Q, M_K) - F_j(1, 1)||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)
        F_j(M_Q, M_K) = softmax(X_j (M_Q * W_Q) (M_K * W_K)^T X_j^T)

    Parameters
    ----------
    M_Q, M_K : (d, m) arrays
    X : (n, d) or (k, n, d) array
    W_Q, W_K : (d, m) arrays
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1

    Returns
    -------
    float

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> factored_loss(ones, ones, np.eye(2), ones, ones, lam=0.5)  # nothing pruned: only the regulariser
    1.0
    """
    return _evaluate(M_Q, M_K, X, W_Q, W_K, lam, mask)[0]


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> tuple[Array, Array]:
    """The gradient of `factored_loss` in M_Q and M_K (ours: the chain rule through thm:mat_view_l).

    ::

        dL/dM_Q = W_Q * (X^T p   X (M_K * W_K)) + lam M_Q
        dL/dM_K = W_K * (X^T p^T X (M_Q * W_Q)) + lam M_K

    Parameters, errors: as `factored_loss`.

    Returns
    -------
    (d, m) array, (d, m) array

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> grad_Q, grad_K = factored_gradient(0 * ones, ones, np.eye(2), ones, np.array([[1.0], [-1.0]]))
    >>> grad_Q.round(6).tolist(), grad_K.tolist()
    ([[-0.380797], [-0.380797]], [[0.0], [0.0]])
    """
    return _evaluate(M_Q, M_K, X, W_Q, W_K, lam, mask)[1]


def _evaluate(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float,
    mask: MaskLike,
) -> tuple[float, tuple[Array, Array]]:
    named = {"X": X, "W_Q": W_Q, "W_K": W_K, "M_Q": M_Q, "M_K": M_K}
    X, W_Q, W_K, M_Q, M_K = arrays = as_reals(**named)
    n = check_shapes(_FORMS, dict(zip(named, arrays, strict=True)))["n"]
    lam, checked = as_lam(lam), as_mask(mask, n)
    samples = X if X.ndim == 3 else X[np.newaxis]
    k = len(samples)
    dense_queries, dense_keys = product(samples, W_Q), product(samples, W_K)
    with np.errstate(over="ignore"):  # an overflow is reported by the logits it reaches
        queries, keys = product(samples, M_Q * W_Q), product(samples, M_K * W_K)
    total = 0.0
    d_queries, d_keys = np.empty_like(queries), np.zeros_like(keys)
    shift, dense_shift = shift_is_needed(queries, keys), shift_is_needed(dense_queries, dense_keys)
    for block in row_blocks(k, n, checked):
        F = softmax_block(queries, keys, block, shift)
        c = F - softmax_block(dense_queries, dense_keys, block, dense_shift)
        total += float(np.vdot(c, c))
        p = rows_of_p(F, c)
        d_queries[:, block.rows] = p @ keys[:, block.columns]
        d_keys[:, block.columns] += p.swapaxes(-1, -2) @ queries[:, block.rows]
    flat = samples.reshape(k * n, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        gradients = tuple(
            W * (flat.T @ d_projected.reshape(k * n, -1) / k) + lam * M
            for W, d_projected, M in ((W_Q, d_queries, M_Q), (W_K, d_keys, M_K))
        )
    if not all(np.isfinite(gradient).all() for gradient in gradients):
        raise InvalidInstance(f"the gradient must be finite in {W_Q.dtype}; it overflows")
    value = total / (2 * k)
    if lam:
        value += 0.5 * lam * (float(np.vdot(M_Q, M_Q)) + float(np.vdot(M_K, M_K)))
    if not math.isfinite(value):
        raise InvalidInstance(f"the loss must be finite in {W_Q.dtype}; ||M_Q||_F^2 + ||M_K||_F^2 overflows")
    return value, (gradients[0], gradients[1])
