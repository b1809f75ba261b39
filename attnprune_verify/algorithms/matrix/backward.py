"""Gradients of attention at the outputs of its linear maps, in closed form, and the metrics they give.

A map y = W x changed by D moves a quantity z by J_i D x_i at token i (J_i = dz/dy_i, summed over everything z depends
on). The squared change, summed over z, is sum_ij x_i^T D^T J_i^T J_j D x_j; with its cross terms left out and D^T D's
two sides parted it is tr(G D H D^T) with H the inputs' second moments and

    G = sum_i |x_i|^2 J_i^T J_i.

One random z-vector r with E r r^T = I and one backward pass give g_i = J_i^T r, and E g_i g_i^T = J_i^T J_i: so
sum_i |x_i|^2 g_i g_i^T is G in expectation, whatever stands between y and z.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.softmax import bent_softmax, quiet


class AttentionGradients(NamedTuple):
    """Gradients at the outputs of the query, key and value maps of one sequence: (n, heads*m), two (n, kv_heads*m)."""

    queries: Array
    keys: Array
    values: Array | None


def attention_backward(layer: AttentionLayer, X: Array, values: Array, upstream: Array) -> AttentionGradients:
    """The transpose of the attention's derivative.

    ::

        o^h_i = sum_j F^h_ij v_j,    dF_ij = do_i . v_j,    dS = F * (dF - sum_j F dF),    dv_j = sum_i F_ij do_i

    and dS goes to queries and keys as for any product, through scale and rotations.

    Parameters
    ----------
    layer : AttentionLayer
    X : (n, d) array
        Tokens of one sequence.
    values : (n, kv_heads*v) array
        Outputs of the value map.
    upstream : (n, heads*v) array
        Gradient at the heads' mixtures: the inputs of the output map.
    """
    maps = Heads(layer, X)
    of_heads = _split(upstream.astype(maps.dtype, copy=False), layer.heads)
    v = np.repeat(_split(values.astype(maps.dtype, copy=False), layer.kv_heads), layer.group, axis=0)
    d_values = np.zeros_like(v)

    def logits(F: Array, block: RowBlock) -> Array:
        rows = of_heads[:, block.rows]
        d_values[:, block.columns] += F.swapaxes(1, 2) @ rows
        return softmax_backward(F, rows @ v[:, block.columns].swapaxes(1, 2))

    queries, keys = _through_logits(layer, maps, logits)
    return AttentionGradients(queries, keys, _merge(d_values.reshape(layer.kv_heads, layer.group, *v.shape[1:]).sum(1)))


def softmax_probe(layer: AttentionLayer, X: Array, rng: np.random.Generator) -> AttentionGradients:
    """Gradients from random logit changes z_i with E z_i z_i^T = diag(f_i) - f_i^T f_i, the Fisher metric of row i.

    ::

        z = sqrt(f) * e - f (sum sqrt(f) * e),    e random signs

    Then sum_i |x_i|^2 g_i g_i^T is in expectation the Fisher metric of `layer.fisher`, for queries and for keys.
    """
    maps = Heads(layer, X)

    def logits(F: Array, block: RowBlock) -> Array:
        noise: Array = np.sqrt(F) * random_signs(rng, F.shape, F.dtype)
        noise -= F * noise.sum(axis=-1, keepdims=True)
        return noise

    return AttentionGradients(*_through_logits(layer, maps, logits), None)


def softmax_backward(F: Array, d_F: Array) -> Array:
    """Gradient at the logits: F * (dF - sum_j F dF); overwrites d_F."""
    d_F -= np.einsum("...ij,...ij->...i", F, d_F)[..., np.newaxis]
    d_F *= F
    return d_F


def random_signs(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> Array:
    """+-1 with equal probability."""
    signs: Array = rng.integers(0, 2, shape, dtype=np.int8).astype(dtype)
    signs *= 2
    signs -= 1
    return signs


def _through_logits(
    layer: AttentionLayer, maps: Heads, logits: Callable[[Array, RowBlock], Array]
) -> tuple[Array, Array]:
    """Gradients at the outputs of the query and key maps, for dS given block by block."""
    q, k = maps.queries(layer.W_Q), maps.keys(layer.W_K)
    d_q, d_k = np.zeros_like(q), np.zeros_like(k)
    for block in maps.blocks():
        with quiet():
            F, bend = bent_softmax(q, k, block, modifiers=layer.modifiers)
        d_S = logits(F, block)
        if bend is not None:
            d_S *= bend.slope
        d_q[:, block.rows] = d_S @ k[:, block.columns]
        d_k[:, block.columns] += d_S.swapaxes(1, 2) @ q[:, block.rows]
    d_q *= maps.dtype.type(layer.scale)
    d_k = d_k.reshape(layer.kv_heads, layer.group, *d_k.shape[1:]).sum(axis=1)
    if layer.rope is not None:
        d_q, d_k = layer.rope.rotate(d_q, back=True), layer.rope.rotate(d_k, back=True)
    return _merge(d_q), _merge(d_k)


def _split(rows: Array, heads: int) -> Array:
    """(n, heads*m) -> (heads, n, m)."""
    return rows.reshape(len(rows), heads, -1).swapaxes(0, 1)


def _merge(of_heads: Array) -> Array:
    """(heads, n, m) -> (n, heads*m)."""
    return of_heads.swapaxes(0, 1).reshape(of_heads.shape[1], -1)
