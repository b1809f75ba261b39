"""Automatic differentiation (autograd, float64) of the literal definition of the loss; no closed form is used.

The row shift is a constant for the differentiation: subtracting any number from a row of logits leaves the softmax
unchanged, so its derivative with respect to the shift is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import autograd.numpy as anp
import numpy as np
from autograd import grad
from autograd.tracer import getval
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.inputs import floats

__all__ = ["factored_gradient", "factored_loss", "gradient", "hessian_vector_product", "loss"]

_Matrix: TypeAlias = NDArray[np.float64]
_Loss: TypeAlias = Callable[..., Any]


def loss(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> float:
    """L(M) = 1/2 ||F(M) - F(1)||_F^2 + lam/2 ||M||_F^2, the first term averaged over a batch (def:loss_func).

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> loss(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5)
    1.0
    """
    literal, (pruning,) = _fused(M, X, W, lam, mask)
    return float(literal(pruning))


def gradient(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> _Matrix:
    """The gradient of `loss` with respect to M, by reverse mode.

    Examples
    --------
    >>> import numpy as np
    >>> gradient(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    literal, (pruning,) = _fused(M, X, W, lam, mask)
    return np.asarray(grad(literal)(pruning))


def hessian_vector_product(
    M: ArrayLike, V: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None
) -> _Matrix:
    """The gradient of <gradient(M), V> with respect to M, by reverse mode over reverse mode.

    Examples
    --------
    >>> import numpy as np
    >>> hessian_vector_product(np.ones((2, 2)), np.eye(2), np.eye(2), np.zeros((2, 2)), lam=0.5)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    literal, (pruning, direction) = _fused(M, X, W, lam, mask, V=V)
    slope = grad(literal)
    return np.asarray(grad(lambda masks: anp.sum(slope(masks) * direction))(pruning))


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> float:
    """The loss with logits X (M_Q*W_Q)(M_K*W_K)^T X^T and lam/2 (||M_Q||^2 + ||M_K||^2) (eq:new_loss).

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> factored_loss(ones, ones, np.eye(2), ones, ones, lam=0.5)
    1.0
    """
    literal, masks = _factored(M_Q, M_K, X, W_Q, W_K, lam, mask)
    return float(literal(*masks))


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> tuple[_Matrix, _Matrix]:
    """The gradients of `factored_loss` with respect to M_Q and M_K.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> factored_gradient(ones, ones, np.eye(2), ones, ones, lam=0.5)[0].tolist()
    [[0.5], [0.5]]
    """
    literal, masks = _factored(M_Q, M_K, X, W_Q, W_K, lam, mask)
    return np.asarray(grad(literal, 0)(*masks)), np.asarray(grad(literal, 1)(*masks))


def _fused(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float, mask: MaskLike, **more: ArrayLike
) -> tuple[_Loss, list[_Matrix]]:
    (weight, *points), samples, allowed = floats(X, mask, W=W, M=M, **more)
    targets = [_softmax(tokens @ weight @ tokens.T, allowed) for tokens in samples]

    def literal(pruning: Any) -> Any:
        masked = pruning * weight
        misfit = 0.0
        for tokens, target in zip(samples, targets, strict=True):
            found = _softmax(anp.dot(anp.dot(tokens, masked), tokens.T), allowed)
            misfit = misfit + 0.5 * anp.sum((found - target) ** 2)
        return misfit / len(samples) + 0.5 * anp.sum(lam * pruning * pruning)

    return literal, points


def _factored(
    M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, W_Q: ArrayLike, W_K: ArrayLike, lam: float, mask: MaskLike
) -> tuple[_Loss, list[_Matrix]]:
    (query, key, *points), samples, allowed = floats(X, mask, W_Q=W_Q, W_K=W_K, M_Q=M_Q, M_K=M_K)
    targets = [_softmax((tokens @ query) @ (tokens @ key).T, allowed) for tokens in samples]

    def literal(pruning_q: Any, pruning_k: Any) -> Any:
        misfit = 0.0
        for tokens, target in zip(samples, targets, strict=True):
            queries, keys = anp.dot(tokens, pruning_q * query), anp.dot(tokens, pruning_k * key)
            misfit = misfit + 0.5 * anp.sum((_softmax(anp.dot(queries, keys.T), allowed) - target) ** 2)
        return misfit / len(samples) + 0.5 * (
            anp.sum(lam * pruning_q * pruning_q) + anp.sum(lam * pruning_k * pruning_k)
        )

    return literal, points


def _softmax(logits: Any, allowed: NDArray[np.bool_]) -> Any:
    fixed = logits
    while hasattr(fixed, "_value"):  # nested boxes when differentiating twice
        fixed = getval(fixed)
    shift = np.max(np.where(allowed, fixed, -np.inf), axis=1, keepdims=True)
    # Forbidden logits may lie far above the shift: they are replaced before the exponential, not after it.
    weights = anp.exp(anp.where(allowed, logits - shift, -np.inf))
    return weights / anp.sum(weights, axis=1, keepdims=True)
