"""Rigorous enclosures by ball arithmetic (python-flint): attention, loss, gradient, Hessian-vector product.

The inputs are taken as the exact numbers they are (floats, integers or `fractions.Fraction`), so an enclosure here
certainly contains the true value of the formula. The gradient is the closed form of thm:mat_view_l; that the closed
form is the derivative of the loss is confirmed independently by `attnprune_verify.oracle.ball_series`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.ball_forms import (
    attention_term,
    fused,
    inner_gradient,
    inner_product,
    mean,
    pair,
    row_blocks,
    rows_of,
    softmax_rows,
    square,
)
from attnprune_verify.oracle.ball_series import directional_derivative, second_directional_derivative
from attnprune_verify.oracle.enclosure import (
    Enclosure,
    as_ball,
    as_balls,
    enclose,
    hadamard,
    refined,
    working_precision,
)
from attnprune_verify.oracle.inputs import exact

__all__ = [
    "Enclosure",
    "attention",
    "directional_derivative",
    "factored_gradient",
    "factored_loss",
    "gradient",
    "hessian_vector_product",
    "loss",
    "second_directional_derivative",
]


def attention(X: ArrayLike, W: ArrayLike, mask: MaskLike = None, *, prec: int = 128) -> Enclosure:
    """Enclose F = softmax(X W X^T), row by row over the allowed positions (def:attn_matrix, def:mask).

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    mask : None, "causal" or (n, n) of 0 and 1
    prec : int
        Working precision in bits.

    Returns
    -------
    Enclosure
        Of shape (n, n) or (k, n, n).

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> attention(np.zeros((2, 1)), [[1.0]]).contains([[0.5, 0.5], [0.5, 0.5]])
    True
    """
    (weight,), samples, allowed = exact(X, mask, W=W)
    with working_precision(prec):
        balls: list[arb] = []
        for tokens in map(as_balls, samples):
            keys = as_balls(weight) * tokens.transpose()
            for block in row_blocks(len(allowed)):
                for row in softmax_rows(rows_of(tokens, block) * keys, allowed[block]):
                    balls += row
        shape = (*samples.shape[3 - np.ndim(X) : -1], len(allowed))
        return enclose(balls, shape)


def loss(
    M: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose L(M) = 1/2 ||F(M) - F(1)||_F^2 + lam/2 ||M||_F^2, the first term averaged over a batch (def:loss_func).

    With a `target` the precision is doubled until the relative radius is at most `target`.

    Examples
    --------
    >>> import numpy as np
    >>> loss(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5).contains(1.0)
    True
    """
    (pruning, weight), samples, allowed = exact(X, mask, M=M, W=W)

    def compute() -> tuple[list[arb], tuple[int, ...]]:
        logits = fused(pruning, weight)
        return [attention_term(logits, samples, allowed) + as_ball(lam) / 2 * square(as_balls(pruning))], ()

    return refined(compute, prec, target)


def gradient(
    M: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose the gradient W * (X^T p X) + lam M with p = c*F - diag((c*F)1)F, c = F(M) - F(1) (thm:mat_view_l).

    With a `target` the precision is doubled until ||radius|| <= target * ||midpoint||.

    Examples
    --------
    >>> import numpy as np
    >>> gradient(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5).contains(np.full((2, 2), 0.5))
    True
    """
    (pruning, weight), samples, allowed = exact(X, mask, M=M, W=W)

    def compute() -> tuple[list[arb], tuple[int, ...]]:
        inner = mean(inner_gradient(fused(pruning, weight), tokens, allowed) for tokens in samples)
        total = hadamard(as_balls(weight), inner) + as_balls(pruning) * as_ball(lam)
        return total.entries(), pruning.shape

    return refined(compute, prec, target)


def hessian_vector_product(
    M: ArrayLike,
    V: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose the derivative of the gradient in the direction V: W * (X^T dp X) + lam V.

    With dz = X(V*W)X^T, dF = F*(dz - (F*dz)1), r = (c*F)1, s = (dF*F + c*dF)1:
    dp = dF*F + c*dF - diag(s)F - diag(r)dF.

    Examples
    --------
    >>> import numpy as np
    >>> V = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> hessian_vector_product(np.ones((2, 2)), V, np.eye(2), np.zeros((2, 2)), lam=0.5).contains(V / 2)
    True
    """
    (pruning, direction, weight), samples, allowed = exact(X, mask, M=M, V=V, W=W)

    def compute() -> tuple[list[arb], tuple[int, ...]]:
        moved = hadamard(as_balls(direction), as_balls(weight))
        inner = mean(inner_product(fused(pruning, weight), moved, tokens, allowed) for tokens in samples)
        total = hadamard(as_balls(weight), inner) + as_balls(direction) * as_ball(lam)
        return total.entries(), pruning.shape

    return refined(compute, prec, target)


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose the loss with logits X (M_Q*W_Q)(M_K*W_K)^T X^T and lam/2 (||M_Q||^2 + ||M_K||^2) (eq:new_loss).

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> factored_loss(ones, ones, np.eye(2), ones, ones, lam=0.5).contains(1.0)
    True
    """
    (pruning_q, pruning_k, weight_q, weight_k), samples, allowed = exact(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)

    def compute() -> tuple[list[arb], tuple[int, ...]]:
        logits = pair(pruning_q, pruning_k, weight_q, weight_k)
        squares = square(as_balls(pruning_q)) + square(as_balls(pruning_k))
        return [attention_term(logits, samples, allowed) + as_ball(lam) / 2 * squares], ()

    return refined(compute, prec, target)


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> tuple[Enclosure, Enclosure]:
    """Enclose W_Q * (Y (M_K*W_K)) + lam M_Q and W_K * (Y^T (M_Q*W_Q)) + lam M_K, where Y = X^T p X.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> both = factored_gradient(ones, ones, np.eye(2), ones, ones, lam=0.5)
    >>> [part.contains(ones / 2) for part in both]
    [True, True]
    """
    (pruning_q, pruning_k, weight_q, weight_k), samples, allowed = exact(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    size = pruning_q.size

    def compute() -> tuple[list[arb], tuple[int, ...]]:
        logits = pair(pruning_q, pruning_k, weight_q, weight_k)
        inner = mean(inner_gradient(logits, tokens, allowed) for tokens in samples)
        query, key = as_balls(weight_q), as_balls(weight_k)
        wrt_q = hadamard(query, inner * hadamard(as_balls(pruning_k), key)) + as_balls(pruning_q) * as_ball(lam)
        wrt_k = hadamard(key, inner.transpose() * hadamard(as_balls(pruning_q), query)) + as_balls(pruning_k) * as_ball(
            lam
        )
        return wrt_q.entries() + wrt_k.entries(), (2 * size,)

    both = refined(compute, prec, target)
    shape = pruning_q.shape
    return (
        Enclosure(both.lower[:size].reshape(shape), both.upper[:size].reshape(shape)),
        Enclosure(both.lower[size:].reshape(shape), both.upper[size:].reshape(shape)),
    )
