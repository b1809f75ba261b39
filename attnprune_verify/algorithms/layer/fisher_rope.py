"""The Fisher metrics when positions rotate queries and keys: the rotation stands inside the sums over tokens.

A metric that costs one matrix product without RoPE costs about m times as much here. The sums run sample by sample and
head by head, so that no array is larger than n m^2 or rows n m.
"""

from collections.abc import Iterator

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.validate import Array


def rope_query_metric(data: Calibration, keys: Array) -> Array:
    """sum_i |x_i|^2 C_i; (k*heads, m, m)."""
    metric = np.empty((len(keys), keys.shape[2], keys.shape[2]))
    for index in range(len(keys)):
        size = data.size[index // data.layer.heads]
        metric[index] = sum(
            np.tensordot(size[block.rows], C, axes=1) for block, C in _token_metrics(data, keys[index], index)
        )
    return metric


def rope_query_diagonal(data: Calibration) -> Array:
    """sum_i x_ip^2 (C_i)_cc; (k*heads, d, m)."""
    diagonal = np.zeros((len(data.keys), data.X.shape[2], data.keys.shape[2]))
    for index, keys in enumerate(data.keys):
        tokens = data.X[index // data.layer.heads]
        for block, C in _token_metrics(data, keys, index):
            diagonal[index] += (tokens[block.rows] ** 2).T @ np.diagonal(C, axis1=1, axis2=2)
    return diagonal


def rope_key_metric(data: Calibration, queries: Array) -> Array:
    """sum_i [sum_j f_ij |x_j|^2 u_ij u_ij^T - sum_jj' f_ij f_ij' (x_j . x_j') u_ij u_ij'^T]; (k*heads, m, m)."""
    rope, m = _rope(data), queries.shape[2]
    metric = np.empty((len(queries), m, m))
    for index, rows in enumerate(queries):
        sample = index // data.layer.heads
        gram = data.X[sample] @ data.X[sample].T
        moments = _turned_moments(data, rows, index)
        total = np.tensordot(data.size[sample], moments, axes=1)
        for block, weighted in _turned_queries(data, rope, rows, index):
            other = gram[block.columns, block.columns] @ weighted
            total -= weighted.reshape(-1, m).T @ other.reshape(-1, m)
        metric[index] = total
    return metric


def rope_key_diagonal(data: Calibration) -> Array:
    """sum_i [sum_j f_ij x_jp^2 u_ijc^2 - (sum_j f_ij x_jp u_ijc)^2]; (k*heads, d, m)."""
    rope = _rope(data)
    diagonal = np.empty((len(data.queries), data.X.shape[2], data.queries.shape[2]))
    for index, rows in enumerate(data.queries):
        tokens = data.X[index // data.layer.heads]
        moments = _turned_moments(data, rows, index)
        total = (tokens**2).T @ np.diagonal(moments, axis1=1, axis2=2)
        for block, weighted in _turned_queries(data, rope, rows, index):
            means = tokens[block.columns].T @ weighted  # v_i as a (d, m) matrix, for every row of the block
            total -= (means**2).sum(axis=0)
        diagonal[index] = total
    return diagonal


def _token_metrics(data: Calibration, keys: Array, index: int) -> Iterator[tuple[RowBlock, Array]]:
    """C_i = R_i^T [sum_j f_ij kr_j kr_j^T - (sum_j f_ij kr_j)(...)^T] R_i for blocks of rows i; (rows, m, m)."""
    rope, (n, m) = _rope(data), keys.shape
    products = (keys[:, :, np.newaxis] * keys[:, np.newaxis, :]).reshape(n, m * m)
    for block, _, first, second in data.attention_of(index):
        means = first @ keys[block.columns]
        C = (second @ products[block.columns]).reshape(-1, m, m) - means[:, :, np.newaxis] * means[:, np.newaxis, :]
        yield block, _turn_back(rope, C, block.rows.start)


def _turned_moments(data: Calibration, queries: Array, index: int) -> Array:
    """sum_i f_ij u_ij u_ij^T = R_j^T [sum_i f_ij qr_i qr_i^T] R_j for every j; (n, m, m)."""
    n, m = queries.shape
    products = (queries[:, :, np.newaxis] * queries[:, np.newaxis, :]).reshape(n, m * m)
    moments = np.zeros((n, m * m))
    for block, _, _, second in data.attention_of(index):
        moments[block.columns] += second.T @ products[block.rows]
    return _turn_back(_rope(data), moments.reshape(n, m, m), 0)


def _turned_queries(data: Calibration, rope: RoPE, queries: Array, index: int) -> Iterator[tuple[RowBlock, Array]]:
    """f_ij u_ij for blocks of rows i and all their columns j; (rows, columns, m)."""
    for block, _, first, _ in data.attention_of(index):
        columns = first.shape[1]
        step = max(1, 2**20 // (columns * queries.shape[1]))
        for start in range(0, len(first), step):
            rows = slice(block.rows.start + start, min(block.rows.start + start + step, block.rows.stop))
            weights = first[start : start + step]
            repeated = np.broadcast_to(queries[rows, np.newaxis], (len(weights), columns, queries.shape[1]))
            turned = rope.rotate(repeated, back=True, start=block.columns.start)
            yield RowBlock(rows, block.columns, None), weights[..., np.newaxis] * turned


def _turn_back(rope: RoPE, matrices: Array, start: int) -> Array:
    """R_i^T A_i R_i for row-indexed matrices (rows, m, m), the first of them at token `start`."""
    right = rope.rotate(matrices.swapaxes(0, 1), back=True, start=start)  # (m, rows, m): A_i R_i
    both = rope.rotate(right.transpose(2, 1, 0), back=True, start=start)  # (m, rows, m): its transpose times R_i
    return both.transpose(1, 2, 0)


def _rope(data: Calibration) -> RoPE:
    rope = data.layer.rope
    assert rope is not None  # for the type checker: these functions are for layers with RoPE only
    return rope
