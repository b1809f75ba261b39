"""The paper's fused weight W = W_Q W_K^T in a real layer, and when a mask on W cannot be deployed (ours).

The attention of a head depends on W_Q and W_K only through the fused weight, one for every offset r = j - i::

    S_ij = x_i W(j - i) x_j^T,   W(r) = scale W_Q^h R_r (W_K^g)^T = sum_a cos(w_a r) C_a + sin(w_a r) S_a

with C_a and S_a of rank at most 2, one pair per frequency. Without RoPE there is one W, of rank at most m. The layer
computes with W_Q and W_K, so a masked W can be deployed only if it factors into such a pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import Array, as_real
from attnprune_verify.model.layer_functions import layer_attention


class FusedRanks(NamedTuple):
    """Numerical ranks of the masked fused weight, and the largest that W_Q, W_K of the layer's shapes can give.

    `deployable` is a necessary condition: no rank exceeds `largest`.
    """

    ranks: tuple[int, ...]
    largest: int
    kept: int
    pair_size: int

    @property
    def deployable(self) -> bool:
        return max(self.ranks) <= self.largest


class HeadSum(NamedTuple):
    """Relative distances of the unheaded formula's logits and attention from the layer's."""

    logits_to_sum_of_heads: float
    attention_to_nearest_head: float


def fused_weight(layer: AttentionLayer, head: int, offset: int = 0) -> Array:
    """W(offset) = scale W_Q^h R_offset (W_K^g)^T, so that S_ij = x_i W(j - i) x_j^T where there are no biases.

    Parameters
    ----------
    layer : AttentionLayer
    head : int
    offset : int
        j - i; matters only with RoPE.

    Returns
    -------
    (d, d) array

    Raises
    ------
    InvalidInstance
        If there is no such head.

    Examples
    --------
    >>> fused_weight(AttentionLayer([[1.0], [2.0]], [[3.0], [0.0]]), 0)
    array([[3., 0.],
           [6., 0.]])
    """
    if not 0 <= head < layer.heads:
        raise InvalidInstance(f"head must be in 0..{layer.heads - 1}; got {head}")
    m, group = layer.m, head // layer.group
    W_Q, W_K = layer.W_Q[:, head * m : (head + 1) * m], layer.W_K[:, group * m : (group + 1) * m]
    if layer.rope is not None:  # w_Q R_r: rows of W_Q turned back by r positions
        W_Q = layer.rope.rotate(W_Q[:, np.newaxis, :], back=True, start=offset)[:, 0]
    fused: Array = layer.scale * (W_Q @ W_K.T)
    return fused


def fused_mask_ranks(layer: AttentionLayer, head: int, M: ArrayLike) -> FusedRanks:
    """Return the ranks that decide whether M * W is the fused weight of some W_Q, W_K of the layer's shapes.

    Without RoPE M * W must have rank at most m. With RoPE one mask acts on every W(r), so every M * C_a and M * S_a
    must have rank at most 2: `ranks` lists them all.

    Parameters
    ----------
    layer : AttentionLayer
    head : int
    M : (d, d) array

    Returns
    -------
    FusedRanks
        Besides the ranks: `kept`, the entries M keeps, and `pair_size` = 2 d m, those of the dense W_Q and W_K.

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer(np.ones((3, 1)), np.ones((3, 1)))
    >>> fused_mask_ranks(layer, 0, np.ones((3, 3))).deployable, fused_mask_ranks(layer, 0, np.eye(3))
    (True, FusedRanks(ranks=(3,), largest=1, kept=3, pair_size=6))
    """
    mask = as_real("M", M)
    if mask.shape != (layer.d, layer.d):
        raise InvalidInstance(f"M must be (d, d) = ({layer.d}, {layer.d}); got {mask.shape}")
    fused = fused_weight(layer, head)
    m, group = layer.m, head // layer.group
    parts, largest = [fused], m
    if layer.rope is not None:
        W_Q, W_K = layer.W_Q[:, head * m : (head + 1) * m], layer.W_K[:, group * m : (group + 1) * m]
        first, second = (np.arange(m)[part] for part in layer.rope.pairs(m))
        parts, largest = [], 2
        for a, b in zip(first, second, strict=True):
            parts.append(np.outer(W_Q[:, a], W_K[:, a]) + np.outer(W_Q[:, b], W_K[:, b]))
            parts.append(np.outer(W_Q[:, b], W_K[:, a]) - np.outer(W_Q[:, a], W_K[:, b]))
    ranks = tuple(int(np.linalg.matrix_rank(mask * part)) for part in parts)
    return FusedRanks(ranks, largest, int(np.count_nonzero(mask)), 2 * layer.d * m)


def sum_of_heads(layer: AttentionLayer, X: ArrayLike) -> HeadSum:
    """Compare X W_Q (W_K repeated for the groups)^T X^T with the heads: it is the sum of their logits, not attention.

    Parameters
    ----------
    layer : AttentionLayer
        Without `rope`, `softcap` and `alibi`, which the unheaded formula has no place for.
    X : (n, d) array

    Returns
    -------
    HeadSum
        ``||unheaded - sum_h S^h|| / ||sum_h S^h||`` (rounding), and the least over heads of
        ``||softmax(unheaded) - F^h|| / ||F^h||``.

    Raises
    ------
    InvalidInstance
        If the layer has one of these, or X is not one sample of its width.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> layer = AttentionLayer(rng.normal(size=(6, 8)), rng.normal(size=(6, 4)), heads=4, kv_heads=2)
    >>> gap = sum_of_heads(layer, rng.normal(size=(5, 6)))
    >>> gap.logits_to_sum_of_heads < 1e-14, gap.attention_to_nearest_head > 0.1
    (True, True)
    """
    for name in ("rope", "softcap", "alibi", "scores"):
        if not (getattr(layer, name) is None or name == "scores" and not layer.scores):
            raise InvalidInstance(f"the unheaded formula has no place for {name}; give a layer without it")
    attention = layer_attention(layer, X)
    if attention.ndim != 3:
        raise InvalidInstance(f"X must be one sample (n, d); got {np.shape(X)}")
    tokens = np.asarray(X, dtype=np.float64)
    m = layer.m
    repeated = layer.W_K.reshape(layer.d, layer.kv_heads, m).repeat(layer.group, axis=1).reshape(layer.d, -1)
    queries, keys = tokens @ layer.W_Q, tokens @ repeated
    if layer.b_Q is not None:
        queries = queries + layer.b_Q
    if layer.b_K is not None:
        keys = keys + layer.b_K.reshape(layer.kv_heads, m).repeat(layer.group, axis=0).ravel()
    unheaded = layer.scale * (queries @ keys.T)
    one = AttentionLayer(queries, keys, scale=layer.scale, mask=layer.mask, window=layer.window)  # X = I
    total = np.zeros_like(unheaded)
    for h in range(layer.heads):  # by the columns of its own key head, not by what was repeated
        group = slice(h // layer.group * m, (h // layer.group + 1) * m)
        shared = tokens @ layer.W_K[:, group] + (0.0 if layer.b_K is None else layer.b_K[group])
        total += layer.scale * (queries[:, h * m : (h + 1) * m] @ shared.T)
    fused = layer_attention(one, np.eye(len(tokens)))[0]
    distances = [np.linalg.norm(fused - F) / np.linalg.norm(F) for F in attention]
    return HeadSum(float(np.linalg.norm(unheaded - total) / np.linalg.norm(total)), float(min(distances)))
