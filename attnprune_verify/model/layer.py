"""A real attention layer: heads, grouped keys, biases, scale, rotary positions, an attention mask (Section 6.2)."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, Mask, MaskLike, as_mask, as_real, as_reals, check_shapes
from attnprune_verify.model.rope import RoPE

__all__ = ["AttentionLayer", "as_layer"]

_T = TypeVar("_T", bound=np.generic)

_FORMS = {
    "W_Q": ("d", "heads*m"),
    "W_K": ("d", "kv_heads*m"),
    "b_Q": ("heads*m",),
    "b_K": ("kv_heads*m",),
}


class AttentionLayer:
    """The query and key side of an attention layer.

    ::

        q_i = x_i W_Q^h + b_Q^h,   k_j = x_j W_K^g + b_K^g,   g = floor(h / (heads / kv_heads))
        S^h[i, j] = scale * (q_i R_i^T) . (k_j R_j^T) = scale * q_i R_{j-i} k_j^T
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
    mask : None, "causal" or (n, n) array of 0 and 1
        A given array fixes n.

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
    mask: Mask

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
    ) -> None:
        heads = _as_count("heads", heads)
        kv_heads = heads if kv_heads is None else _as_count("kv_heads", kv_heads)
        given = {"W_Q": W_Q, "W_K": W_K, "b_Q": b_Q, "b_K": b_K}
        given = {name: value for name, value in given.items() if value is not None}
        arrays = dict(zip(given, as_reals(**given), strict=True))
        _check_sizes(arrays, heads, kv_heads)
        if rope is not None and not isinstance(rope, RoPE):
            raise InvalidInstance(f"rope must be None or a RoPE; got {rope!r:.80}")
        m = arrays["W_Q"].shape[1] // heads
        if rope is not None:
            rope.frequencies(m)  # refuses an odd m
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            self._set(name, _frozen(arrays[name]) if name in arrays else None)
        self._set("heads", heads)
        self._set("kv_heads", kv_heads)
        self._set("scale", 1 / np.sqrt(m).item() if scale is None else _as_scale(scale))
        self._set("rope", rope)
        self._set("mask", _as_layer_mask(mask))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an AttentionLayer does not change after its validation; make a new one to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an AttentionLayer does not change after its validation; it keeps {name!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles carry arrays that can be written to: they become read-only again."""
        for name, value in state.items():
            self._set(name, _frozen(value) if isinstance(value, np.ndarray) else value)

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

    def with_weights(self, W_Q: ArrayLike, W_K: ArrayLike) -> AttentionLayer:
        """The same layer with other weights."""
        return AttentionLayer(
            W_Q,
            W_K,
            self.b_Q,
            self.b_K,
            heads=self.heads,
            kv_heads=self.kv_heads,
            scale=self.scale,
            rope=self.rope,
            mask=self.mask,
        )

    def __repr__(self) -> str:
        mask = self.mask if self.mask is None or isinstance(self.mask, str) else "given"
        biases = self.b_Q is not None or self.b_K is not None
        return (
            f"AttentionLayer(d={self.d}, heads={self.heads}, kv_heads={self.kv_heads}, m={self.m}, "
            f"scale={self.scale:.6g}, biases={biases}, rope={self.rope}, mask={mask!r})"
        )


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


def _as_count(name: str, value: object) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything that knows how to be an index
    except TypeError as error:
        raise InvalidInstance(f"{name} must be an integer >= 1; got {value!r:.60}") from error
    if number < 1:
        raise InvalidInstance(f"{name} must be an integer >= 1; got {number}")
    return number


def _as_scale(scale: object) -> float:
    value = as_real("scale", scale)
    if value.size != 1 or not value.item() > 0:
        raise InvalidInstance(f"scale must be one number > 0; got {scale!r:.60}")
    return float(value.item())


def _as_layer_mask(mask: MaskLike) -> Mask:
    if mask is None or isinstance(mask, str):
        return as_mask(mask, 1)
    array = as_real("mask", mask)
    if array.ndim != 2:
        raise InvalidInstance(f'mask must be None, "causal" or an (n, n) array; got shape {array.shape}')
    checked = as_mask(array, len(array))
    return _frozen(checked) if isinstance(checked, np.ndarray) else checked


def _frozen(array: NDArray[_T]) -> NDArray[_T]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
