"""Bounds of what other weights do to attention on any text at all: RMSNorm puts every token on one ellipsoid.

Behind RMSNorm with weight gamma a token is x = gamma * u with ||u||_2 <= sqrt(d), whatever the text. So with A_r =
W_Q R_r W_K^T the weight between two tokens r positions apart, R_r their rotation, and A~_r after the change,

    |z~_ij - z_ij| <= scale d ||diag(gamma) (A~_r - A_r) diag(gamma)||_2,    r = j - i,

and a row whose logits move by D has KL(f || f~) = log E_f exp(D) - E_f D <= (max D - min D)^2 / 8, Hoeffding's lemma,
and at most max D - min D (new:kl_for_every_text). A softcap moves logits no further; masks and ALiBi move none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.validate import Array, as_real
from attnprune_verify.theory.numbers.balls import normalised
from attnprune_verify.theory.numbers.spectral import dot_error, spectral_norm
from attnprune_verify.values import as_count

_MOST_FEATURES = 1024
"""Features of a token: one eigenvalue problem of that size for each distance takes a tenth of a second there."""
_UP = 1.0 + 2.0**-40  # 2^13 units in the last place, more than each expression loses


@dataclass(frozen=True)
class EveryText:
    """Bounds for every text of at most n tokens, one per head.

    Attributes
    ----------
    n : int
    logit : (heads,) array
        No logit moves by more.
    kl : (heads,) array
        In no row is KL(f || f~) larger, in nats.
    """

    n: int
    logit: Array
    kl: Array


def kl_of_range(width: ArrayLike) -> Array:
    """The largest KL(f || f~) of a row whose logits move by numbers that differ by at most `width`: min(w^2/8, w).

    Examples
    --------
    >>> kl_of_range([1.0, 10.0]).round(6).tolist()
    [0.125, 10.0]
    """
    w = np.asarray(width, dtype=np.float64)
    return np.asarray(np.minimum(w * w / 8, w) * _UP)


def bound_for_every_text(layer: AttentionLayer, changed: AttentionLayer, gamma: ArrayLike, n: int) -> EveryText:
    """Bound what changed weights do to the attention of each head on every text of at most n tokens.

    Parameters
    ----------
    layer : AttentionLayer
        As trained, whatever its mask.
    changed : AttentionLayer
        The same with other weights or biases: pruned, or rounded.
    gamma : (d,) array
        The weight of the RMSNorm that the tokens come from.
    n : int
        The longest text, in tokens. Without rotations any n has the same bound.

    Returns
    -------
    EveryText

    Raises
    ------
    InvalidInstance
        If sizes or anything but weights and biases differ, or d is above 1024.

    Examples
    --------
    >>> layer = AttentionLayer(np.eye(2), np.eye(2), scale=1.0)
    >>> found = bound_for_every_text(layer, layer.with_weights(0.9 * np.eye(2), np.eye(2)), np.ones(2), 16)
    >>> found.logit.round(6).tolist(), found.kl.round(6).tolist()  # d ||0.1 I||, and (2 * 0.2)^2 / 8
    ([0.2], [0.02])
    """
    _same_but_weights(as_layer(layer), as_layer(changed))
    g = np.abs(np.asarray(as_real("gamma", gamma), dtype=np.float64))
    longest = as_count("n", n, least=1)
    if g.shape != (layer.d,):
        raise InvalidInstance(f"gamma must have one entry per feature, shape ({layer.d},); got {g.shape}")
    if layer.d > _MOST_FEATURES:
        raise InvalidInstance(f"the bound is for d <= {_MOST_FEATURES}; got {layer.d}")
    offsets = [0] if layer.rope is None else list(range(0 if layer.mask == "causal" else 1 - longest, longest))
    norms = [
        max(_norm(*_sides(layer, g, head), *_sides(changed, g, head), layer.rope, offset) for offset in offsets)
        for head in range(layer.heads)
    ]
    biased = any(part is not None for part in (layer.b_Q, layer.b_K, changed.b_Q, changed.b_K))
    logit = np.array(norms) * layer.scale * (layer.d + biased) * _UP
    return EveryText(longest, logit, kl_of_range(2 * logit))


def _same_but_weights(layer: AttentionLayer, changed: AttentionLayer) -> None:
    if layer.scores or changed.scores:
        raise InvalidInstance("how far scores move a logit must be known; give layers without scores")
    same = ("heads", "kv_heads", "scale", "rope", "window", "softcap")
    differ = [name for name in same if getattr(layer, name) != getattr(changed, name)]
    if layer.W_Q.shape != changed.W_Q.shape or layer.W_K.shape != changed.W_K.shape:
        differ.append("the shapes of the weights")
    before, after = ([] if one.alibi is None else one.alibi.tolist() for one in (layer, changed))
    if before != after:
        differ.append("alibi")
    if differ:
        raise InvalidInstance(f"both layers must agree in all but weights and biases; they differ in {differ}")


def _sides(layer: AttentionLayer, gamma: Array, head: int) -> tuple[Array, Array]:
    """diag(gamma) W_Q and diag(gamma) W_K of a head, a bias as one more row."""
    m, group = layer.m, head // layer.group
    found = []
    for weight, bias, place in ((layer.W_Q, layer.b_Q, head), (layer.W_K, layer.b_K, group)):
        columns = slice(place * m, (place + 1) * m)
        rows = gamma[:, np.newaxis] * np.asarray(weight, dtype=np.float64)[:, columns]
        last = np.zeros(m) if bias is None else np.asarray(bias, dtype=np.float64)[columns]
        found.append(np.vstack([rows, last]))
    return found[0], found[1]


def _norm(Q: Array, K: Array, Q_changed: Array, K_changed: Array, rope: RoPE | None, offset: int) -> float:
    """||Q~ R K~^T - Q R K^T||_2 from above, its rounding and that of the angle included."""

    def turned(side: Array) -> Array:
        return side if rope is None else rope.turn(side, np.full(len(side), offset))

    here, there = turned(Q), turned(Q_changed)
    # Q~ R K~^T - Q R K^T = (Q~ - Q) R K~^T + Q R (K~ - K)^T: no large terms that cancel
    difference = (there - here) @ K_changed.T + here @ (K_changed - K).T
    sizes = sum(float(np.linalg.norm(one) * np.linalg.norm(other)) for one, other in ((Q, K), (Q_changed, K_changed)))
    # products of m terms, a turn by an angle that is off by at most 64 offset u, and gamma's product
    slip = 2 * dot_error(Q.shape[1] + 64 * (abs(offset) + 1)) * sizes
    scaled, exponent = normalised(difference)
    return float(np.ldexp(spectral_norm(scaled), exponent)) * _UP + slip
