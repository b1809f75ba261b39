"""The right multiplier: the change of one side's weights that compensates the pruning of the other side.

If pruned queries q~ stand for q, the logits survive best under keys k T with q~ T^T close to q. T acts on the right
of W_K, so the pruned W_K is fitted to W_K T. Under RoPE, T must commute with every rotation: on each pair of features
it is a rotation times a factor.
"""

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher import centred_products, key_metric_size, query_metric_size
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.validate import Array

_NOISE = 1e-14  # a hundred times what rounding leaves of a difference, relative to what was subtracted


def key_target(data: Calibration, queries: Array, weights: Array, constant: Array, ridge: float) -> Array:
    """W_K T for pruned queries, rows weighted by t_i of `row_weights`; (kv_heads, d, m)."""
    weighted = (queries * weights[..., np.newaxis]).swapaxes(1, 2)
    own = data.per_group(data.per_head(weighted @ queries))
    cross = data.per_group(data.per_head(weighted @ data.queries))
    T = _multiplier(own, cross, data.layer.rope, ridge, key_metric_size(data, queries))
    target = data.W_K @ T
    if data.layer.b_K is not None and data.layer.rope is not None:  # without RoPE, softmax ignores b_K
        target += _bias_correction(data.layer.b_K, T, constant)
    return target


def query_target(data: Calibration, keys: Array, constant: Array, ridge: float) -> Array:
    """W_Q T for pruned keys, in the metric of the softmax; (heads, d, m)."""
    own, cross = centred_products(data, keys, keys), centred_products(data, keys, data.keys)
    T = _multiplier(own, cross, data.layer.rope, ridge, query_metric_size(data, keys))
    target = data.W_Q @ T
    if data.layer.b_Q is not None:
        target += _bias_correction(data.layer.b_Q, T, constant)
    return target


def _multiplier(own: Array, cross: Array, rope: RoPE | None, relative: float, subtracted: float) -> Array:
    """T with (own + r) T^T = cross + r, or the nearest such T that commutes with the rotations; (heads, m, m).

    r is `relative` times the mean diagonal: it holds T at the identity in directions the tokens hardly use. The size of
    rounding errors is added, so that it does so everywhere if `own` is nothing else.
    """
    m = own.shape[-1]
    held = relative * np.trace(own, axis1=1, axis2=2) / m + _NOISE * subtracted
    held = np.where(held > 0, held, 1.0)
    if rope is None:
        ridge = held[:, np.newaxis, np.newaxis] * np.eye(m)
        return np.linalg.solve(own + ridge, cross + ridge).swapaxes(1, 2)
    a, b = (np.arange(m)[part] for part in rope.pairs(m))
    size = own[:, a, a] + own[:, b, b]
    ridge = 2 * held[:, np.newaxis]
    straight = (cross[:, a, a] + cross[:, b, b] + ridge) / (size + ridge)
    turned = (cross[:, b, a] - cross[:, a, b]) / (size + ridge)
    T = np.zeros_like(own)
    T[:, a, a] = T[:, b, b] = straight
    T[:, a, b], T[:, b, a] = turned, -turned
    return T


def _bias_correction(bias: Array, T: Array, constant: Array) -> Array:
    """Return (b T - b): the bias is kept, so the tokens must add the change that T would make to it."""
    blocks = bias.reshape(len(T), 1, -1)
    change: Array = constant[:, np.newaxis] * (blocks @ T - blocks)
    return change
