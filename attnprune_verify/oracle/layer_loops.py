"""Index by index in pure Python: attention, loss, gradient and Hessian-vector product of a real layer.

Every logit is scale * q_i^T (R_i^T R_j) k_j with the rotation matrices written out, every derivative a sum over the
entries of the softmax's Jacobian. Only for small layers. The Hessian-vector product is the gradient at a complex
point, Im grad(M + i h V) / h with h so small that nothing else is left: all sums here are analytic in M.
"""

from __future__ import annotations

import cmath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.layer_inputs import LayerLike, LayerParts, layer_parts, mask_blocks, rotation_matrices

__all__ = ["attention", "gradient", "hessian_vector_product", "loss"]

_Rows: TypeAlias = list[list[Any]]
_TINY_STEP = 1e-150


def attention(layer: LayerLike, X: ArrayLike) -> NDArray[np.float64]:
    """F^h for every head; (heads, n, n) or (k, heads, n, n).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> one = dict(b_Q=None, b_K=None, heads=1, kv_heads=1, scale=1.0, rope=None, mask=None)
    >>> attention(SimpleNamespace(W_Q=[[0.0]], W_K=[[1.0]], **one), [[1.0], [2.0]]).tolist()
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    parts = layer_parts(layer, X)
    weights = _pair(parts, None, None)
    every = [
        [
            _real(_softmax(_Head(parts, *weights, head, tokens.tolist()).logits(), parts.allowed))
            for head in _heads(parts)
        ]
        for tokens in parts.samples
    ]
    return np.asarray(every if np.ndim(X) == 3 else every[0])


def loss(layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0) -> float:
    """(1/k) sum_j sum_h 1/2 ||F~_j^h - F_j^h||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)."""
    parts = layer_parts(layer, X)
    dense, pruned = _pair(parts, None, None), _pair(parts, np.asarray(M_Q), np.asarray(M_K))
    total = 0.0
    for tokens in parts.samples:
        for head in _heads(parts):
            f = _softmax(_Head(parts, *dense, head, tokens.tolist()).logits(), parts.allowed)
            changed = _softmax(_Head(parts, *pruned, head, tokens.tolist()).logits(), parts.allowed)
            for row, changed_row in zip(f, changed, strict=True):
                for a, b in zip(row, changed_row, strict=True):
                    total += (b - a).real ** 2 / 2
    sizes = sum(float(m) ** 2 for M in (M_Q, M_K) for m in np.ravel(M))
    return total / len(parts.samples) + lam / 2 * sizes


def gradient(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The derivative of `loss` in every entry of M_Q and M_K."""
    of_Q, of_K = _gradient(layer, np.asarray(M_Q), np.asarray(M_K), X, lam)
    return of_Q.real.copy(), of_K.real.copy()


def hessian_vector_product(
    layer: LayerLike,
    M_Q: ArrayLike,
    M_K: ArrayLike,
    V_Q: ArrayLike,
    V_K: ArrayLike,
    X: ArrayLike,
    lam: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The derivative of `gradient` in the direction (V_Q, V_K), by a complex step."""
    step = 1j * _TINY_STEP
    of_Q, of_K = _gradient(
        layer, np.asarray(M_Q) + step * np.asarray(V_Q), np.asarray(M_K) + step * np.asarray(V_K), X, lam
    )
    return of_Q.imag / _TINY_STEP, of_K.imag / _TINY_STEP


def _gradient(
    layer: LayerLike, M_Q: NDArray[Any], M_K: NDArray[Any], X: ArrayLike, lam: float
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    parts = layer_parts(layer, X)
    dense, pruned = _pair(parts, None, None), _pair(parts, M_Q, M_K)
    of_Q = [np.zeros(W.shape, dtype=np.complex128) for W in parts.W_Q]
    of_K = [np.zeros(W.shape, dtype=np.complex128) for W in parts.W_K]
    n = len(parts.allowed)
    for tokens in parts.samples.tolist():
        for head in _heads(parts):
            at = _Head(parts, *pruned, head, tokens)
            f = _softmax(_Head(parts, *dense, head, tokens).logits(), parts.allowed)
            changed = _softmax(at.logits(), parts.allowed)
            for i in range(n):
                for j in range(n):
                    slope = 0.0  # dL / dS_ij
                    for entry in range(n):
                        jacobian = changed[i][entry] * ((1.0 if entry == j else 0.0) - changed[i][j])
                        slope += (changed[i][entry] - f[i][entry]) * jacobian
                    slope *= parts.scale / len(parts.samples)
                    at.add_slopes(i, j, slope, of_Q[head], of_K[head // parts.group])
    Q = np.hstack([W * g for W, g in zip(parts.W_Q, of_Q, strict=True)]) + lam * M_Q
    K = np.hstack([W * g for W, g in zip(parts.W_K, of_K, strict=True)]) + lam * M_K
    return Q, K


class _Head:
    """One head on one sample: its queries, keys and the matrices between positions."""

    def __init__(self, parts: LayerParts, A_Q: list[_Rows], A_K: list[_Rows], head: int, tokens: _Rows) -> None:
        key_head = head // parts.group
        self.tokens, self.scale = tokens, parts.scale
        self.queries = _affine(tokens, A_Q[head], parts.b_Q[head].tolist())
        self.keys = _affine(tokens, A_K[key_head], parts.b_K[key_head].tolist())
        m = len(self.queries[0])
        turns = rotation_matrices(parts.rope, len(tokens), m)
        self.between = [[(R_i.T @ R_j).tolist() for R_j in turns] for R_i in turns]

    def logits(self) -> _Rows:
        return [
            [self.scale * _bilinear(q, self.between[i][j], k) for j, k in enumerate(self.keys)]
            for i, q in enumerate(self.queries)
        ]

    def add_slopes(self, i: int, j: int, slope: Any, of_Q: NDArray[Any], of_K: NDArray[Any]) -> None:
        """S_ij's derivatives: x_i (R_i^T R_j k_j)^T in A_Q and x_j (R_j^T R_i q_i)^T in A_K."""
        between, q, k = self.between[i][j], self.queries[i], self.keys[j]
        m = len(q)
        for c in range(m):
            for_query = sum(between[c][e] * k[e] for e in range(m))
            for_key = sum(between[e][c] * q[e] for e in range(m))
            for p in range(len(self.tokens[0])):
                of_Q[p, c] += slope * self.tokens[i][p] * for_query
                of_K[p, c] += slope * self.tokens[j][p] * for_key


def _pair(parts: LayerParts, M_Q: NDArray[Any] | None, M_K: NDArray[Any] | None) -> tuple[list[_Rows], list[_Rows]]:
    """The masked weights of every head as nested lists; a mask of None stands for all ones."""
    return _masked(parts.W_Q, M_Q), _masked(parts.W_K, M_K)


def _masked(weights: list[NDArray[np.float64]], M: NDArray[Any] | None) -> list[_Rows]:
    if M is None:
        return [W.tolist() for W in weights]
    blocks = mask_blocks(M, len(weights)) if M.dtype.kind != "c" else np.split(M, len(weights), axis=1)
    return [(block * W).tolist() for block, W in zip(blocks, weights, strict=True)]


def _affine(tokens: _Rows, A: _Rows, bias: list[float]) -> _Rows:
    return [[sum(x[p] * A[p][c] for p in range(len(x))) + bias[c] for c in range(len(bias))] for x in tokens]


def _bilinear(left: list[Any], matrix: _Rows, right: list[Any]) -> Any:
    return sum(a * sum(matrix[c][e] * right[e] for e in range(len(right))) for c, a in enumerate(left))


def _softmax(logits: _Rows, allowed: NDArray[np.bool_]) -> _Rows:
    rows = []
    for i, row in enumerate(logits):
        highest = max(complex(z).real for j, z in enumerate(row) if allowed[i, j])
        weights = [cmath.exp(z - highest) if allowed[i, j] else 0.0 for j, z in enumerate(row)]
        total = sum(weights)
        rows.append([weight / total for weight in weights])
    return rows


def _real(rows: _Rows) -> _Rows:
    return [[complex(entry).real for entry in row] for row in rows]


def _heads(parts: LayerParts) -> range:
    return range(len(parts.W_Q))
