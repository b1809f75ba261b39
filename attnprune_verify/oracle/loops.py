"""The formulas index by index in pure Python: slow, obvious, for tests.

Every logit is one sum, s_ij = scale * sum_c q_ic (R_{j-i} k_j)_c, capped and lowered as the layer says; every
derivative is a sum over the entries of the softmax's Jacobian. Nothing is vectorised, so an axis, a transpose or a
broadcast cannot be wrong without being visible. The Hessian-vector product is the gradient at a complex point,
Im grad(M + i h V) / h with h so small that nothing else is left: all sums here are analytic in M.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.inputs import OracleInput, frequency

_Rows: TypeAlias = list[list[Any]]
_STEP = 2.0**-70  # errors are of second order: 2**-140


def attention(at: OracleInput) -> NDArray[np.float64]:
    """F of the weights as they are, nothing pruned; (k, heads, n, n).

    Examples
    --------
    >>> from attnprune_verify.oracle.inputs import fused
    >>> attention(fused([[1.0]], [[1.0], [2.0]], [[0.0]])).tolist()
    [[[[0.5, 0.5], [0.5, 0.5]]]]
    """
    at = at.floats()
    heads = [[_OneHead(at, at.weights, h, tokens).softmax() for h in range(at.heads)] for tokens in at.samples.tolist()]
    return np.real(np.asarray(heads))


def loss(at: OracleInput) -> float:
    """L(M) = 1/2 sum (F(M)_ij - F(1)_ij)^2 + lam/2 sum M_ab^2: averaged over samples, summed over heads.

    Examples
    --------
    >>> from attnprune_verify.oracle.inputs import fused
    >>> loss(fused([[1, 1], [1, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], lam=0.5))
    1.0
    """
    at = at.floats()
    total = 0.0
    for _, f, f_dense in _pruned_and_dense(at, at.masks):
        for row, dense_row in zip(f, f_dense, strict=True):
            total += sum(abs(a - b) ** 2 for a, b in zip(row, dense_row, strict=True)) / 2
    squares = sum(value * value for M in at.masks for value in M.ravel().tolist())
    return float(total / len(at.samples) + at.lam / 2 * squares)


def gradient(at: OracleInput) -> list[NDArray[np.float64]]:
    """W_ab sum_i X_ia (dL / dq_ib) + lam M_ab, and the same for the keys, where they have weights.

    Examples
    --------
    >>> from attnprune_verify.oracle.inputs import fused
    >>> [part.tolist() for part in gradient(fused([[1, 1], [1, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], lam=0.5))]
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    at = at.floats()
    return [part.real.copy() for part in _gradient(at, at.masks)]


def hessian_vector_product(at: OracleInput, *directions: ArrayLike) -> list[NDArray[np.float64]]:
    """The derivative of `gradient` along `directions`, by a complex step.

    Examples
    --------
    >>> from attnprune_verify.oracle.inputs import fused
    >>> at = fused([[1, 1], [1, 1]], [[1, 0], [0, 1]], [[0, 0], [0, 0]], 0.5)
    >>> hessian_vector_product(at, [[1, 2], [3, 4]])[0].tolist()
    [[0.5, 1.0], [1.5, 2.0]]
    """
    at = at.floats()
    moved = tuple(M + 1j * _STEP * V for M, V in zip(at.masks, at.directions(*directions), strict=True))
    return [part.imag / _STEP for part in _gradient(at, moved)]


def _gradient(at: OracleInput, masks: tuple[NDArray[Any], ...]) -> list[NDArray[np.complex128]]:
    sums = [np.zeros(W.shape, dtype=np.complex128) for W in at.weights]
    for head, f, f_dense in _pruned_and_dense(at, masks):
        n = len(f)
        for i, row in enumerate(f):
            c = [row[j] - f_dense[i][j] for j in range(n)]
            for j in range(n):
                slope = 0.0  # dL / du_ij = sum_l c_l dF_l / du_j
                for other in range(n):
                    slope += c[other] * row[other] * ((1.0 if other == j else 0.0) - row[j])
                if slope:
                    head.add(sums, i, j, slope * head.bend(i, j) / len(at.samples))
    return [W * total + at.lam * M for W, total, M in zip(at.weights, sums, masks, strict=True)]


def _pruned_and_dense(at: OracleInput, masks: tuple[NDArray[Any], ...]) -> Iterator[tuple[_OneHead, _Rows, _Rows]]:
    pruned = tuple(M * W for M, W in zip(masks, at.weights, strict=True))
    for tokens in at.samples.tolist():
        for h in range(at.heads):
            head = _OneHead(at, pruned, h, tokens)
            yield head, head.softmax(), _OneHead(at, at.weights, h, tokens).softmax()


class _OneHead:
    """One head on one sample: its queries, its keys, and every pair of tokens by itself."""

    def __init__(self, at: OracleInput, weights: tuple[NDArray[Any], ...], h: int, tokens: _Rows) -> None:
        self.at, self.h, self.tokens, m = at, h, tokens, at.m
        own = range(h * m, h * m + m)
        shared = range(h // (at.heads // at.kv_heads) * m, h // (at.heads // at.kv_heads) * m + m)
        self.columns = (own, shared)
        self.queries = _affine(tokens, weights[0], at.biases[0], own)
        self.keys = _affine(tokens, weights[1], at.biases[1], shared) if at.moves_keys else tokens
        self.waves = [] if at.rope is None else [frequency(at.rope, pair, m) for pair in range(m // 2)]

    def turned(self, row: list[Any], offset: int) -> list[Any]:
        """R_offset row."""
        m, turned = len(row), list(row)
        for pair, wave in enumerate(self.waves):
            a, b = (pair, pair + m // 2) if self.at.rope.layout == "half" else (2 * pair, 2 * pair + 1)
            sin, cos = math.sin(offset * wave), math.cos(offset * wave)
            turned[a], turned[b] = cos * row[a] - sin * row[b], sin * row[a] + cos * row[b]
        return turned

    def product(self, i: int, j: int) -> Any:
        """scale * q_i R_{j-i} k_j."""
        key = self.turned(self.keys[j], j - i)
        return self.at.scale * sum(q * k for q, k in zip(self.queries[i], key, strict=True))

    def logit(self, i: int, j: int) -> Any:
        value, cap = self.product(i, j), self.at.softcap
        if cap is not None:
            value = cap * cmath.tanh(value / cap)
        return value if self.at.alibi is None else value - float(self.at.alibi[self.h]) * abs(i - j)

    def bend(self, i: int, j: int) -> Any:
        """Derivative of a logit by the product of query and key: 1, or 1 / cosh^2 under a cap."""
        if self.at.softcap is None:
            return 1.0
        return 1 - cmath.tanh(self.product(i, j) / self.at.softcap) ** 2

    def softmax(self) -> _Rows:
        rows = []
        for i, positions in enumerate(self.at.allowed.tolist()):
            logits = {j: self.logit(i, j) for j, seen in enumerate(positions) if seen}
            largest = max(complex(value).real for value in logits.values())
            weights = {j: cmath.exp(value - largest) for j, value in logits.items()}
            total = sum(weights.values())
            rows.append([weights[j] / total if j in weights else 0.0 for j in range(len(positions))])
        return rows

    def add(self, sums: list[NDArray[Any]], i: int, j: int, slope: Any) -> None:
        """slope times the derivatives of scale * q_i R_{j-i} k_j in both weights."""
        sides = ((i, self.turned(self.keys[j], j - i)), (j, self.turned(self.queries[i], i - j)))
        for total, columns, (token, other) in zip(sums, self.columns, sides, strict=False):
            for c, value in zip(columns, other, strict=True):
                for a, x in enumerate(self.tokens[token]):
                    total[a, c] += slope * self.at.scale * x * value


def _affine(tokens: _Rows, A: NDArray[Any], bias: Any, columns: range) -> _Rows:
    rows = A.tolist()
    constant = [0.0 if bias is None else float(bias[c]) for c in columns]
    return [
        [
            sum(x * row[c] for x, row in zip(token, rows, strict=True)) + b
            for c, b in zip(columns, constant, strict=True)
        ]
        for token in tokens
    ]
