"""Unbiased estimates of the output metrics at real size, from drawn rows and sketched tokens (docs/fisher_obs.md).

The exact sums (`attnprune_verify.algorithms.layer.fisher`) cost 2 n^2 m^2 operations and, with positions, 2 n^3 m a
head and sequence. Here R of the n rows are looked at, and in the key metric inner products of tokens are replaced by
those of r random projections with independent signs w in every row: E[(x_j . w)(x_j' . w)] = x_j . x_j'. With
z_ja = x_j . w_a and u_ij = R_j^T R_i q_i

    G_Q ~ scale^2 sum_i 1/(t pi_i) |x_i|^2 C_i
    G_K ~ sum_i 1/(r t pi_i) sum_a [ sum_j f_ij z_ja^2 u_ij u_ij^T - v_ia v_ia^T ],   v_ia = sum_j f_ij z_ja u_ij

and each bracket is a covariance, so the estimates are positive semidefinite as the metrics are. With positions, u_ij
turns with j in each pair of features, so its moments are products of f with sines and cosines of j alone.

Rows are drawn as often as their traces say, |x_i|^2 tr C_i and t_i |q_i|^2, which one pass over the attention gives.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher_draws import (
    Drawn,
    Estimate,
    attention_rows,
    draw_rows,
    estimate_of,
    importance,
)
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.validate import Array

_ROWS = 64  # at a time
Signs = Callable[[tuple[int, ...]], Array]
"""Shape (..., d) -> independent vectors w with E[w w^T] = I."""


def random_signs(rng: np.random.Generator) -> Signs:
    """Signs +-1, each with probability 1/2."""
    return lambda shape: rng.integers(0, 2, shape).astype(np.float64) * 2 - 1


def estimated_query_metric(data: Calibration, keys: Array, rows: int, rng: np.random.Generator) -> Estimate:
    """`query_metric` from about `rows` rows of the calibration set."""
    spread, operations = _spread(data, keys)
    shares = spread.reshape(data.k, data.layer.heads, -1) * data.size[:, np.newaxis]
    drawn = draw_rows(importance(shares, data.size), rows, rng)
    total = np.zeros((len(drawn[0].weights), data.layer.heads, *keys.shape[2:] * 2))
    for sample, of_sample in enumerate(drawn):
        for head in range(data.layer.heads):
            index = sample * data.layer.heads + head
            upper = np.triu_indices(keys.shape[2])
            products = keys[index][:, upper[0]] * keys[index][:, upper[1]]
            for part in _parts(of_sample):
                C, count = _token_metrics(data, keys[index], products, upper, index, part.rows)
                weights = part.weights * data.size[sample, part.rows]
                total[:, head] += np.tensordot(weights, C, axes=1)
                operations += count + 2 * weights.size * C[0].size
    estimate = estimate_of(data.layer.scale**2 * total, operations)
    return estimate if rows < data.size.size else replace(estimate, error=np.zeros(data.layer.heads))


def estimated_key_metric(
    data: Calibration,
    queries: Array,
    weights: Array,
    rows: int,
    sketches: int,
    rng: np.random.Generator,
    signs: Signs | None = None,
) -> Estimate:
    """`key_metric` from about `rows` rows, each with `sketches` projections of the tokens of its own.

    `weights` are the rows' t_i, or estimates of them: they only say which rows to draw.
    """
    shares = (weights * np.square(queries).sum(axis=2)).reshape(data.k, data.layer.heads, -1)
    drawn, signs = draw_rows(importance(shares, data.size), rows, rng), signs or random_signs(rng)
    m, d = queries.shape[2], data.X.shape[2]
    turns = _Turns(data.layer.rope, data.n, m)
    total = np.zeros((len(drawn[0].weights), data.layer.kv_heads, m, m))
    operations = 0.0
    for sample, of_sample in enumerate(drawn):
        for part in _parts(of_sample):
            z = signs((len(part.rows), sketches, d)) @ data.X[sample].T / np.sqrt(sketches)  # shared by the heads
            operations += 2.0 * z.size * d
            for head in range(data.layer.heads):
                index = sample * data.layer.heads + head
                columns, first, second = attention_rows(data, index, part.rows)
                seen = z[:, :, columns]
                v = turns.sums(queries[index, part.rows], first[:, np.newaxis] * seen, columns)
                moments = turns.products(queries[index, part.rows], second * np.square(seen).sum(axis=1), columns)
                moments -= v.swapaxes(1, 2) @ v
                total[:, head // data.layer.group] += np.tensordot(part.weights, moments, axes=1)
                operations += 2.0 * first.size * m + turns.operations(first.size, sketches) + 2 * v.size * m
    return estimate_of(total, operations)


def estimated_row_weights(
    data: Calibration, sketches: int, rng: np.random.Generator, signs: Signs | None = None
) -> Array:
    """`row_weights`, t_i = tr(X^T J_i X), from as many projections of the tokens of each sample; unbiased, >= 0."""
    k, heads, n, d = data.k, data.layer.heads, data.n, data.X.shape[2]
    z = np.swapaxes((signs or random_signs(rng))((k, sketches, d)) @ data.X.swapaxes(1, 2), 1, 2) / np.sqrt(sketches)
    squares = np.square(z).sum(axis=2)
    weights = np.empty((k * heads, n))
    for index in range(k * heads):
        for block, _, first, second in data.attention_of(index):
            means = first @ z[index // heads, block.columns]
            weights[index, block.rows] = second @ squares[index // heads, block.columns]
            weights[index, block.rows] -= np.einsum("ia,ia->i", means, means)
    return np.maximum(weights, 0.0)


def _spread(data: Calibration, keys: Array) -> tuple[Array, float]:
    """tr C_i = sum_j f_ij |k_j|^2 - |sum_j f_ij k_j|^2 for every row, (k*heads, n), and the operations."""
    spread, operations = np.empty(keys.shape[:2]), 0.0
    squares = np.square(keys).sum(axis=2)
    for index in range(len(keys)):
        for block, _, first, second in data.attention_of(index):
            means = first @ keys[index, block.columns]
            spread[index, block.rows] = second @ squares[index, block.columns] - np.square(means).sum(axis=1)
            operations += 2.0 * first.size * (2 * keys.shape[2] + 1)
    return np.maximum(spread, 0.0), operations


def exact_operations(data: Calibration) -> float:
    """Count the operations of `query_metric` and `key_metric` in a layer with positions: products, block by block."""
    n, m, d = data.n, data.layer.m, data.X.shape[2]
    total = 0.0
    for block in data.maps.blocks():
        rows, columns = block.shape
        total += 2 * 2 * rows * columns * m * m  # moments of keys, and of queries
        total += 2 * rows * columns * m * 3  # the attention twice, means
        total += 2 * rows * columns**2 * m + 2 * rows * columns * m * m  # inner products of tokens; the last product
    return float(data.k * data.layer.heads * (total + 2 * n * n * d))


def _parts(drawn: Drawn) -> Iterator[Drawn]:
    for start in range(0, len(drawn.rows), _ROWS):
        yield Drawn(drawn.rows[start : start + _ROWS], drawn.weights[:, start : start + _ROWS])


def _token_metrics(
    data: Calibration,
    keys: Array,
    products: Array,
    upper: tuple[NDArray[np.intp], ...],
    index: int,
    rows: NDArray[np.intp],
) -> tuple[Array, float]:
    """C_i for these rows, (rows, m, m), and the operations."""
    m = keys.shape[1]
    columns, first, second = attention_rows(data, index, rows)
    means, moments = first @ keys[columns], second @ products[columns]
    C: Array = np.empty((len(rows), m, m))
    C[:, upper[0], upper[1]] = C[:, upper[1], upper[0]] = moments
    C -= means[:, :, np.newaxis] * means[:, np.newaxis]
    if data.layer.rope is not None:  # R_i^T C_i R_i, one side and then the other
        for _ in range(2):
            C = data.layer.rope.turn(C.transpose(2, 0, 1), rows, back=True).transpose(1, 0, 2)
    return C, 2.0 * first.size * (2 * m + products.shape[1])


class _Turns:
    """Sums over j of weights times u_ij = R_j^T qr_i and u_ij u_ij^T, for rotated queries qr_i.

    In pair c let kappa = qr_c1 + i qr_c2; then u_c1 + i u_c2 = kappa exp(-i j w_c), and products of two pairs turn with
    w_c + w_c' (without the conjugate) and w_c - w_c' (with it).
    """

    def __init__(self, rope: RoPE | None, n: int, m: int) -> None:
        self._rope, self._m = rope, m
        if rope is None:
            return
        w = rope.frequencies(m)
        self._first, self._second = (np.arange(m)[part] for part in rope.pairs(m))
        self._c, self._d = np.triu_indices(m // 2)
        j = np.arange(n)[:, np.newaxis]
        self._linear = np.hstack([np.cos(j * w), np.sin(j * w)])
        both, between = j * (w[self._c] + w[self._d]), j * (w[self._c] - w[self._d])
        self._square = np.hstack([np.cos(both), np.sin(both), np.cos(between), np.sin(between)])

    def operations(self, weights: int, sketches: int) -> float:
        """Count the operations for rows x columns weights."""
        if self._rope is None:
            return 0.0
        return 2.0 * weights * float(sketches * self._linear.shape[1] + self._square.shape[1])

    def sums(self, queries: Array, weights: Array, columns: slice) -> Array:
        """sum_j weights_iaj u_ij; (rows, sketches, m)."""
        if self._rope is None:
            return np.asarray(weights.sum(axis=2)[..., np.newaxis] * queries[:, np.newaxis])
        cos, sin = np.split(weights @ self._linear[columns], 2, axis=2)
        sums = np.empty((*weights.shape[:2], self._m))
        one, other = queries[:, np.newaxis, self._first], queries[:, np.newaxis, self._second]
        sums[..., self._first] = one * cos + other * sin
        sums[..., self._second] = other * cos - one * sin
        return sums

    def products(self, queries: Array, weights: Array, columns: slice) -> Array:
        """sum_j weights_ij u_ij u_ij^T; (rows, m, m)."""
        if self._rope is None:
            return np.asarray((weights.sum(axis=1)[:, np.newaxis] * queries)[:, :, np.newaxis] * queries[:, np.newaxis])
        cos_both, sin_both, cos_between, sin_between = np.split(weights @ self._square[columns], 4, axis=1)
        kappa = queries[:, self._first] + 1j * queries[:, self._second]
        left, right = kappa[:, self._c], kappa[:, self._d]
        plain = left * right * (cos_both - 1j * sin_both)
        crossed = left * right.conj() * (cos_between - 1j * sin_between)
        products = np.empty((len(queries), self._m, self._m))
        entries: list[tuple[Any, Any, Array]] = [
            (self._first, self._first, (crossed + plain).real / 2),
            (self._second, self._second, (crossed - plain).real / 2),
            (self._first, self._second, (plain - crossed).imag / 2),
            (self._second, self._first, (plain + crossed).imag / 2),
        ]
        for row, column, entry in entries:
            products[:, row[self._c], column[self._d]] = entry
            products[:, column[self._d], row[self._c]] = entry
        return products
