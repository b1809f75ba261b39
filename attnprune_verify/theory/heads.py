"""A layer's heads as problems of the paper: one mask M on the fused weight W = scale W_Q^h (W_K^g)^T of each.

Biases append a column of ones to X and a row to both weights. Rotations and a softcap leave no fused weight; ALiBi
leaves one, but its logits are not X W X^T. K = ||Pi A|| needs only the logits' linear part, which rotations have too.
"""

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.softmax import score_block
from attnprune_verify.theory.numbers.balls import doubles
from attnprune_verify.theory.numbers.spectral import dot_error
from attnprune_verify.theory.quantities.attention_floor import AttentionFloor, lowest_log
from attnprune_verify.theory.quantities.measure import logit_norm, once_per_instance
from attnprune_verify.theory.quantities.operator_norm import NormBounds
from attnprune_verify.theory.quantities.rotated import rotated_norm


def obstacle(layer: AttentionLayer) -> str:
    """Return the reason that no head of the layer is a problem of the paper; empty where each is.

    Examples
    --------
    >>> obstacle(AttentionLayer(np.eye(2), np.eye(2))), obstacle(AttentionLayer(np.eye(2), np.eye(2), softcap=30.0))
    ('', 'the softcap bends the logits: there is no fused weight')
    """
    if layer.rope is not None:
        return "rotations turn the weight between two tokens by their distance: there is no fused weight"
    if layer.bending:
        return f"the {layer.bending} bends the logits: there is no fused weight"
    if layer.alibi is not None and layer.alibi.any():
        return "ALiBi adds a term to the logits X W X^T, which the paper does not have"
    return ""


def no_constant(layer: AttentionLayer) -> str:
    """Return the reason that the layer has no K = ||Pi A||; empty where it has, whatever is added to the logits."""
    return f"the {layer.bending} bends the logits: they are not linear in a mask" if layer.bending else ""


def tokens_of(instance: LayerInstance) -> Array:
    """(k, n, d) tokens, with a column of ones where the layer has biases."""
    (X,) = doubles(instance.samples)
    if instance.layer.b_Q is None and instance.layer.b_K is None:
        return X
    return np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2)


def head_weights(instance: LayerInstance) -> list[tuple[Array, Array]]:
    """For each head: scale times its query weight, and its key weight, with the biases as last row."""
    layer = instance.layer
    biased = not (layer.b_Q is None and layer.b_K is None)
    sides = []
    for weight, bias, heads in ((layer.W_Q, layer.b_Q, layer.heads), (layer.W_K, layer.b_K, layer.kv_heads)):
        (side,) = doubles(weight)
        if biased:
            side = np.vstack([side, *doubles(np.zeros(side.shape[1]) if bias is None else bias)])
        sides.append(np.split(side, heads, axis=1))
    queries, keys = sides
    return [(layer.scale * queries[h], keys[h // layer.group]) for h in range(layer.heads)]


@once_per_instance
def fused_heads(instance: LayerInstance) -> tuple[Instance, ...]:
    """The problem of each head at M = 1: its fused weight as rounded; none where there is an `obstacle`.

    Examples
    --------
    >>> layer = AttentionLayer(np.eye(2), np.eye(2))
    >>> fused_heads(LayerInstance(layer, np.eye(2)))[0].W.round(3).tolist()  # scale 1/sqrt(2)
    [[0.707, 0.0], [0.0, 0.707]]
    """
    if obstacle(instance.layer):
        return ()
    return _fused(instance)


def _fused(instance: LayerInstance) -> tuple[Instance, ...]:
    X = tokens_of(instance)
    X = X if instance.k is not None else X[0]
    weights = (U @ V.T for U, V in head_weights(instance))
    return tuple(Instance(X, W, mask=instance.layer.visible, lam=instance.lam) for W in weights)


@once_per_instance
def head_norms(instance: LayerInstance) -> tuple[NormBounds, ...]:
    """K of each head from both sides; empty where `no_constant` gives a reason.

    Examples
    --------
    >>> layer = AttentionLayer([[1.0, 0.0]], [[1.0, 0.0]], scale=3.0)
    >>> round(float(head_norms(LayerInstance(layer, [[1.0], [0.0]]))[0].upper), 9)  # K = w / sqrt(2)
    2.121320344
    """
    layer = instance.layer
    if no_constant(layer):
        return ()
    if layer.rope is None:
        return tuple(logit_norm(head) for head in _fused(instance))
    X, allowed = tokens_of(instance), layer.visible.allowed(instance.n)
    return tuple(rotated_norm(X, U, V, layer.rope, allowed) for U, V in head_weights(instance))


@once_per_instance
def head_floors(instance: LayerInstance) -> tuple[AttentionFloor, ...]:
    """delta of each head at the instance's masks: the smallest attention weight, on the layer's own logits.

    Examples
    --------
    >>> layer = AttentionLayer(np.zeros((2, 2)), np.eye(2))
    >>> round(float(head_floors(LayerInstance(layer, np.eye(2)))[0].allowed), 9)
    0.5
    """
    layer, masks = instance.layer, instance.masks_or_ones
    problem = Heads(layer, *doubles(instance.X))
    queries, keys = problem.sides([masks[0] * layer.W_Q, masks[1] * layer.W_K])
    allowed = layer.visible.allowed(instance.n)
    lowest, radius = np.zeros(layer.heads), np.zeros(layer.heads)
    for block in problem.blocks():
        logits, _ = score_block(queries, keys, block, True, None, layer.modifiers)
        inside = allowed[block.rows, block.columns]
        for place, rows in enumerate(logits):
            head = place % layer.heads
            lowest[head] = min(lowest[head], lowest_log(rows, inside))
    for head in range(layer.heads):
        radius[head] = _radius(instance, queries[head :: layer.heads], keys[head :: layer.heads])
    masked = not bool(allowed.all())
    return tuple(AttentionFloor(float(low), float(wide), masked) for low, wide in zip(lowest, radius, strict=True))


def _radius(instance: LayerInstance, queries: Array, keys: Array) -> float:
    """Bound of the error of every ln F: sums of d and m products, an angle of size n, a modifier; twice for the row."""
    layer = instance.layer
    size = float(np.linalg.norm(queries, axis=-1).max() * np.linalg.norm(keys, axis=-1).max())
    (X,) = doubles(instance.samples)
    # cancellation inside a projection: |x|^T |W|, times its partner, is what the roundings are relative to
    tokens = float(np.linalg.norm(X, axis=-1).max()) + 1.0
    spread = layer.scale * tokens**2 * float(np.linalg.norm(layer.W_Q) * np.linalg.norm(layer.W_K)) + size
    bend = float(np.abs(layer.alibi).max() * instance.n) if layer.alibi is not None else 0.0
    return 4 * dot_error(4 * instance.d + 2 * layer.m + 8 * instance.n + 64) * (spread + bend) + 4 * dot_error(
        instance.n
    )
