"""The formulas index by index in pure Python: slow, obvious, for tests.

Gradient and Hessian-vector product are the double sums written out; nothing is vectorised, so an axis, a transpose or
a broadcast cannot be wrong without being visible.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.inputs import floats

__all__ = ["factored_gradient", "factored_loss", "gradient", "hessian_vector_product", "loss"]

_Rows: TypeAlias = list[list[float]]


def loss(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> float:
    """L(M) = 1/2 sum_ij (F(M)_ij - F(1)_ij)^2 + lam/2 sum_ab M_ab^2, the first sum averaged over a batch.

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> loss([[1, 1], [1, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], lam=0.5)
    1.0
    """
    (pruning, weight), samples, allowed = floats(X, mask, M=M, W=W)
    return _loss(_fused_pair(pruning, weight), samples, allowed) + lam / 2 * _squares(pruning)


def gradient(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> NDArray[np.float64]:
    """g_ab = W_ab sum_ij X_ia p_ij X_jb + lam M_ab with p_ij = F_ij (c_ij - sum_l c_il F_il) (thm:mat_view_l).

    Examples
    --------
    >>> gradient([[1, 1], [1, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], lam=0.5).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    (pruning, weight), samples, allowed = floats(X, mask, M=M, W=W)
    inner = _inner(_fused_pair(pruning, weight), samples, allowed)
    d = len(weight)
    return np.array([[weight[a, b] * inner[a][b] + lam * pruning[a, b] for b in range(d)] for a in range(d)])


def hessian_vector_product(
    M: ArrayLike, V: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None
) -> NDArray[np.float64]:
    """(Hv)_ab = W_ab sum_ij X_ia dp_ij X_jb + lam V_ab, where dp_ij is the derivative of p_ij along V.

    Examples
    --------
    >>> hessian_vector_product([[1, 1], [1, 1]], [[1, 2], [3, 4]], [[1, 0], [0, 1]], [[0, 0], [0, 0]], 0.5).tolist()
    [[0.5, 1.0], [1.5, 2.0]]
    """
    (pruning, direction, weight), samples, allowed = floats(X, mask, M=M, V=V, W=W)
    d = len(weight)
    inner = [[0.0] * d for _ in range(d)]
    pruned, dense = _fused_pair(pruning, weight)
    moved = [[float(direction[a, b] * weight[a, b]) for b in range(d)] for a in range(d)]
    for tokens in samples.tolist():
        dz = _logits(tokens, moved)
        f, f_dense = _softmax(_logits(tokens, pruned), allowed), _softmax(_logits(tokens, dense), allowed)
        for i, row in enumerate(f):
            n = len(row)
            c = [row[j] - f_dense[i][j] for j in range(n)]
            df = [row[j] * (dz[i][j] - sum(row[m] * dz[i][m] for m in range(n))) for j in range(n)]
            r = sum(c[m] * row[m] for m in range(n))
            dr = sum(df[m] * row[m] + c[m] * df[m] for m in range(n))
            for j in range(n):
                dp = df[j] * (c[j] - r) + row[j] * (df[j] - dr)
                for a, b in product(range(d), range(d)):
                    inner[a][b] += tokens[i][a] * dp * tokens[j][b] / len(samples)
    return np.array([[weight[a, b] * inner[a][b] + lam * direction[a, b] for b in range(d)] for a in range(d)])


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> float:
    """The loss whose fused weight is sum_m (M_Q*W_Q)_am (M_K*W_K)_bm, with lam/2 (||M_Q||^2 + ||M_K||^2).

    Examples
    --------
    >>> factored_loss([[1], [1]], [[1], [1]], [[1, 0], [0, 1]], [[1], [1]], [[1], [1]], lam=0.5)
    1.0
    """
    (mask_q, mask_k, query, key), samples, allowed = floats(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    misfit = _loss((_outer(mask_q * query, mask_k * key), _outer(query, key)), samples, allowed)
    return misfit + lam / 2 * (_squares(mask_q) + _squares(mask_k))


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """With Y_ab = sum_ij X_ia p_ij X_jb: W_Q_am sum_b Y_ab (M_K*W_K)_bm + lam M_Q_am, and its mirror image for M_K.

    Examples
    --------
    >>> factored_gradient([[1], [1]], [[1], [1]], [[1, 0], [0, 1]], [[1], [1]], [[1], [1]], lam=0.5)[1].tolist()
    [[0.5], [0.5]]
    """
    (mask_q, mask_k, query, key), samples, allowed = floats(X, mask, M_Q=M_Q, M_K=M_K, W_Q=W_Q, W_K=W_K)
    inner = _inner((_outer(mask_q * query, mask_k * key), _outer(query, key)), samples, allowed)
    d, m = query.shape
    wrt_q, wrt_k = np.empty((d, m)), np.empty((d, m))
    for a, e in product(range(d), range(m)):
        from_keys = sum(inner[a][b] * mask_k[b, e] * key[b, e] for b in range(d))
        from_queries = sum(inner[b][a] * mask_q[b, e] * query[b, e] for b in range(d))
        wrt_q[a, e] = query[a, e] * from_keys + lam * mask_q[a, e]
        wrt_k[a, e] = key[a, e] * from_queries + lam * mask_k[a, e]
    return wrt_q, wrt_k


def _fused_pair(pruning: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[_Rows, _Rows]:
    d = len(weight)
    return [[float(pruning[a, b] * weight[a, b]) for b in range(d)] for a in range(d)], weight.tolist()


def _outer(query: NDArray[np.float64], key: NDArray[np.float64]) -> _Rows:
    d, m = query.shape
    return [[float(sum(query[a, e] * key[b, e] for e in range(m))) for b in range(d)] for a in range(d)]


def _logits(tokens: _Rows, weights: _Rows) -> _Rows:
    n, d = len(tokens), len(weights)
    z = [[0.0] * n for _ in range(n)]
    for i, j in product(range(n), range(n)):
        for a in range(d):
            z[i][j] += tokens[i][a] * sum(weights[a][b] * tokens[j][b] for b in range(d))
    return z


def _softmax(z: _Rows, allowed: NDArray[np.bool_]) -> _Rows:
    f = []
    for i, row in enumerate(z):
        largest = max(row[j] for j in range(len(row)) if allowed[i, j])
        weights = [math.exp(row[j] - largest) if allowed[i, j] else 0.0 for j in range(len(row))]
        f.append([weight / sum(weights) for weight in weights])
    return f


def _loss(pair: tuple[_Rows, _Rows], samples: NDArray[np.float64], allowed: NDArray[np.bool_]) -> float:
    total = 0.0
    for tokens in samples.tolist():
        f, f_dense = (_softmax(_logits(tokens, weights), allowed) for weights in pair)
        for i, j in product(range(len(f)), range(len(f))):
            total += (f[i][j] - f_dense[i][j]) ** 2 / 2
    return total / len(samples)


def _inner(pair: tuple[_Rows, _Rows], samples: NDArray[np.float64], allowed: NDArray[np.bool_]) -> _Rows:
    d = samples.shape[2]
    inner = [[0.0] * d for _ in range(d)]
    for tokens in samples.tolist():
        f, f_dense = (_softmax(_logits(tokens, weights), allowed) for weights in pair)
        for i, row in enumerate(f):
            c = [row[j] - f_dense[i][j] for j in range(len(row))]
            r = sum(c[j] * row[j] for j in range(len(row)))
            for j, a, b in product(range(len(row)), range(d), range(d)):
                inner[a][b] += tokens[i][a] * row[j] * (c[j] - r) * tokens[j][b] / len(samples)
    return inner


def _squares(masks: NDArray[np.float64]) -> float:
    return float(sum(value * value for value in masks.ravel().tolist()))
