"""A real attention layer: heads, grouped keys, biases, scale, rotary positions, an attention mask (Section 6.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.frozen import Frozen
from attnprune_verify.instance.mask import Mask, MaskLike, Window, as_mask
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.scores import Alibi, ScoreModifier, Softcap
from attnprune_verify.instance.validate import Array, as_reals, check_shapes
from attnprune_verify.values import as_count, as_positive

_FORMS = {
    "W_Q": ("d", "heads*m"),
    "W_K": ("d", "kv_heads*m"),
    "b_Q": ("heads*m",),
    "b_K": ("kv_heads*m",),
}


class AttentionLayer(Frozen):
    """The query and key side of an attention layer.

    ::

        q_i = x_i W_Q^h + b_Q^h,   k_j = x_j W_K^g + b_K^g,   g = floor(h / (heads / kv_heads))
        S^h[i, j] = scale * (q_i R_i^T) . (k_j R_j^T) = scale * q_i R_{j-i} k_j^T
        S^h <- softcap tanh(S^h / softcap),  then  S^h[i, j] <- S^h[i, j] - alibi_h |i - j|       (where given)
        S^h <- u(S^h) for each u of `scores`, in their order
        F^h = softmax of each row of S^h over the allowed positions

    With one head, no bias, scale 1 and no RoPE this is the paper's attention with W = W_Q W_K^T.

    Parameters
    ----------
    W_Q : (d, heads*m) array
        Acts as ``X W_Q``: the transpose of a linear layer's stored weight. Head h owns columns h*m .. (h+1)*m - 1.
    W_K : (d, kv_heads*m) array
    b_Q, b_K : (heads*m,) and (kv_heads*m,) arrays, optional
    heads : int
        Number of query heads, >= 1.
    kv_heads : int, optional
        Number of key heads, a divisor of `heads` (grouped-query attention); default `heads`.
    scale : float, optional
        Factor of the logits, > 0; default 1/sqrt(m).
    rope : RoPE, optional
    mask : None, "causal", (n, n) array of 0 and 1, or Mask
        A given array fixes n.
    window : int, optional
        At least 1: only tokens less than `window` away are seen, |i - j| < window (with a causal mask i - j < window).
    softcap : float, optional
        > 0.
    alibi : (heads,) array, optional
        Slopes.
    scores : sequence of ScoreModifier
        Further functions of the logits. An oracle without a formula of one declines, and no file stores them.

    Attributes
    ----------
    visible : Mask
        The allowed positions: `mask` and `window` together.
    modifiers : tuple of ScoreModifier
        `softcap`, `alibi` and `scores` in the order in which they apply.

    Raises
    ------
    InvalidInstance
        If an array is empty, not finite or not real, or sizes contradict each other (all shape problems at once).

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer(np.ones((6, 8)), np.ones((6, 4)), heads=4, kv_heads=2, mask="causal")
    >>> layer
    AttentionLayer(d=6, heads=4, kv_heads=2, m=2, scale=0.707107, biases=False, rope=None, mask='causal')
    """

    W_Q: Array
    W_K: Array
    b_Q: Array | None
    b_K: Array | None
    heads: int
    kv_heads: int
    scale: float
    rope: RoPE | None
    mask: Any
    window: int | None
    softcap: float | None
    alibi: Array | None
    scores: tuple[ScoreModifier, ...]
    visible: Mask
    modifiers: tuple[ScoreModifier, ...]

    def __init__(
        self,
        W_Q: ArrayLike,
        W_K: ArrayLike,
        b_Q: ArrayLike | None = None,
        b_K: ArrayLike | None = None,
        *,
        heads: int = 1,
        kv_heads: int | None = None,
        scale: float | None = None,
        rope: RoPE | None = None,
        mask: MaskLike = None,
        window: int | None = None,
        softcap: float | None = None,
        alibi: ArrayLike | None = None,
        scores: Sequence[ScoreModifier] = (),
    ) -> None:
        heads = as_count("heads", heads, least=1)
        kv_heads = heads if kv_heads is None else as_count("kv_heads", kv_heads, least=1)
        named = {"W_Q": W_Q, "W_K": W_K, "b_Q": b_Q, "b_K": b_K}
        given = {name: value for name, value in named.items() if value is not None or name in ("W_Q", "W_K")}
        arrays = dict(zip(given, as_reals(**given), strict=True))
        _check_sizes(arrays, heads, kv_heads)
        if rope is not None and not isinstance(rope, RoPE):
            raise InvalidInstance(f"rope must be None or a RoPE; got {rope!r:.80}")
        m = arrays["W_Q"].shape[1] // heads
        if rope is not None:
            rope.frequencies(m)  # refuses an odd m
        stated = as_mask(mask)
        near = None if window is None else Window(window)
        capped = None if softcap is None else Softcap(softcap)
        falling = None if alibi is None else Alibi(alibi, heads)
        if not (isinstance(scores, Sequence) and all(isinstance(modifier, ScoreModifier) for modifier in scores)):
            raise InvalidInstance(f"scores must be a sequence of ScoreModifier; got {scores!r:.80}")
        self._keep(**{name: arrays.get(name) for name in named}, heads=heads, kv_heads=kv_heads)
        self._keep(scale=1 / math.sqrt(m) if scale is None else as_positive("scale", scale), rope=rope)
        self._keep(mask=stated.stated, window=near and near.width, visible=stated if near is None else stated & near)
        self._keep(softcap=capped and capped.cap, alibi=falling and falling.slopes)
        self._keep(scores=tuple(scores), modifiers=tuple(filter(None, (capped, falling, *scores))))

    @classmethod
    def of_pair(cls, W_Q: Array, W_K: Array, visible: Mask) -> AttentionLayer:
        """The paper's factored weight, one head with scale 1, from data that are validated."""
        absent = dict.fromkeys(("b_Q", "b_K", "rope", "window", "softcap", "alibi"))
        layer = cls.__new__(cls)._keep(W_Q=W_Q, W_K=W_K, heads=1, kv_heads=1, scale=1.0, **absent)
        return layer._keep(visible=visible, mask=visible.stated, scores=(), modifiers=())

    @property
    def d(self) -> int:
        """Number of input features."""
        return int(self.W_Q.shape[0])

    @property
    def m(self) -> int:
        """Number of features of one head."""
        return int(self.W_Q.shape[1]) // self.heads

    @property
    def group(self) -> int:
        """Number of query heads that share one key head."""
        return self.heads // self.kv_heads

    @property
    def bending(self) -> str:
        """Name of the first modifier that bends the logits; "" where they are linear in each mask."""
        return "softcap" if self.softcap is not None else next((type(score).__name__ for score in self.scores), "")

    def with_weights(self, W_Q: ArrayLike, W_K: ArrayLike) -> AttentionLayer:
        """Return the layer with other weights."""
        options = ("heads", "kv_heads", "scale", "rope", "mask", "window", "softcap", "alibi", "scores")
        return AttentionLayer(W_Q, W_K, self.b_Q, self.b_K, **{name: getattr(self, name) for name in options})

    def __repr__(self) -> str:
        mask = self.visible.kind if self.window is None else as_mask(self.mask).kind
        biases = self.b_Q is not None or self.b_K is not None
        return (
            f"AttentionLayer(d={self.d}, heads={self.heads}, kv_heads={self.kv_heads}, m={self.m}, "
            f"scale={self.scale:.6g}, biases={biases}, rope={self.rope}, mask={mask!r}{self._more()})"
        )

    def _more(self) -> str:
        """Return the optional features that are in use, for the layer's repr."""
        alibi = None if self.alibi is None else self.alibi.tolist()
        more = {"window": self.window, "softcap": self.softcap, "alibi": alibi, "scores": self.scores or None}
        return "".join(f", {name}={value}" for name, value in more.items() if value is not None)


def as_layer(layer: object) -> AttentionLayer:
    """`layer` itself, if it is one."""
    if not isinstance(layer, AttentionLayer):
        raise InvalidInstance(f"layer must be an AttentionLayer; got {type(layer).__name__}")
    return layer


def _check_sizes(arrays: dict[str, Array], heads: int, kv_heads: int) -> None:
    problems: list[str] = []
    try:
        check_shapes(_FORMS, arrays)
    except InvalidInstance as error:
        problems.append(str(error))
    if heads % kv_heads:
        problems.append(f"kv_heads must divide heads; got heads = {heads} and kv_heads = {kv_heads}")
    if arrays["W_Q"].ndim == arrays["W_K"].ndim == 2:
        columns = {"W_Q": (arrays["W_Q"].shape[1], heads), "W_K": (arrays["W_K"].shape[1], kv_heads)}
        uneven = [f"{name} has {size} columns for {count}" for name, (size, count) in columns.items() if size % count]
        if uneven:
            problems.append(f"columns must divide into heads; got {' and '.join(uneven)}")
        else:
            m_Q, m_K = (size // count for size, count in columns.values())
            if m_Q != m_K:
                problems.append(f"query and key heads must have one size m; got {m_Q} (W_Q) and {m_K} (W_K)")
    if problems:
        raise InvalidInstance("; ".join(problems))
