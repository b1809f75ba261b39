"""The output metrics of the squared attention error, for comparison: J_i^2 in place of J_i, without RoPE.

1/2 ||F~ - F||_F^2 = 1/2 sum_i dS_i J_i^2 dS_i^T to second order, and J_i z = f_i * (z - <f_i, z>).
"""

from __future__ import annotations

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.instance.validate import Array

__all__ = ["squared_query_metric", "squared_row_weights"]


def squared_query_metric(data: Calibration, keys: Array) -> Array:
    """scale^2 sum_i |x_i|^2 K^T J_i^2 K; (heads, m, m)."""
    size = data.for_heads(data.size)
    total = np.zeros((len(keys), keys.shape[2], keys.shape[2]))
    for block, F, first, _ in data.attention():
        weight = size[:, block.rows, np.newaxis]
        seen = keys[:, block.columns]
        means, other = first @ seen, (F * first) @ seen
        total += (seen * (weight * first**2).sum(axis=1)[..., np.newaxis]).swapaxes(1, 2) @ seen
        mixed = (weight * means).swapaxes(1, 2) @ other
        total -= mixed + mixed.swapaxes(1, 2)
        total += (weight * (F**2).sum(axis=2, keepdims=True) * means).swapaxes(1, 2) @ means
    return data.layer.scale**2 * data.per_head(total)


def squared_row_weights(data: Calibration) -> Array:
    """tr(X^T J_i^2 X) = sum_j f_ij^2 |x_j - sum_l f_il x_l|^2; (k*heads, n)."""
    weights = np.empty((data.k * data.layer.heads, data.n))
    tokens = data.for_heads(data.X)
    for block, F, first, _ in data.attention():
        seen = tokens[:, block.columns]
        means, other = first @ seen, (F * first) @ seen
        squares = np.einsum("bij,bj->bi", first**2, np.einsum("bja,bja->bj", seen, seen))
        cross = np.einsum("bia,bia->bi", means, other)
        last = np.einsum("bia,bia->bi", means, means) * (F**2).sum(axis=2)
        weights[:, block.rows] = squares - 2 * cross + last
    return np.maximum(weights, 0.0)
