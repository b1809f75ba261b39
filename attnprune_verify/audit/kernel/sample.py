"""One instance of softmax attention: what goes into a kernel, and what the judge has computed about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.precision import Precision

__all__ = ["Array", "Mask", "Sample"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:
    """Inputs exact in `precision`, held as float64.

    Attributes
    ----------
    q, k, v, do : (batch, heads, n, m), (batch, kv_heads, l, m), (batch, kv_heads, l, mv), (batch, heads, n, mv)
    mask : bool (n, l), True = may attend, or None
    scale : None means 1/sqrt(m)
    window, softcap, alibi : modifiers of the scores, None when absent
    layout : how the inputs lie in memory
    bottom_right : whether a causal mask ends at the last key, for a kernel that was seen to mean that
    seeded : the factor of the formula that fills the arrays, where they are filled by one (0: they are not)
    generic : random enough that roundings are independent, so that a typical error says something
    memo : what was computed for this sample
    """

    name: str
    precision: Precision
    q: Array
    k: Array
    v: Array
    do: Array
    causal: bool = False
    scale: float | None = None
    mask: Mask | None = None
    window: int | None = None
    softcap: float | None = None
    alibi: Array | None = None
    layout: str = "plain"
    bottom_right: bool = False
    seeded: float = 0.0
    generic: bool = True
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int, int, int, int, int, int]:
        """batch, heads, kv_heads, n, l, m, mv."""
        batch, heads, n, m = self.q.shape
        return batch, heads, self.k.shape[1], n, self.k.shape[2], m, self.v.shape[3]

    @property
    def group(self) -> int:
        return int(self.q.shape[1] // self.k.shape[1])

    @property
    def factor(self) -> float:
        """The scale of the logits."""
        return float(self.q.shape[3] ** -0.5 if self.scale is None else self.scale)

    @property
    def allowed(self) -> Mask:
        """Which positions a query may attend to, (n, l)."""
        n, length = self.q.shape[2], self.k.shape[2]
        aligned = length - n if self.bottom_right and self.causal else 0
        distance = np.arange(n)[:, None] + aligned - np.arange(length)
        found = np.ones((n, length), dtype=bool) if self.mask is None else self.mask.copy()
        if self.causal:
            found &= distance >= 0
        if self.window is not None:
            found &= (distance if self.causal else np.abs(distance)) < self.window
        return found

    @property
    def work(self) -> float:
        """Multiplications of a forward pass."""
        batch, heads, _, n, length, m, mv = self.shape
        return float(batch * heads * n * length * (m + mv))

    @property
    def longest(self) -> int:
        return max(self.shape[3:])

    @property
    def features(self) -> tuple[str, ...]:
        """What the sample asks for beyond the plain case; a subject may refuse any of it."""
        _, heads, kv_heads, n, length, m, mv = self.shape
        asked = {
            "causal": self.causal,
            "mask": self.mask is not None,
            "scale": self.scale is not None,
            "kv_heads < heads": kv_heads < heads,
            "l != n": n != length,
            "mv != m": m != mv,
            "window": self.window is not None,
            "softcap": self.softcap is not None,
            "alibi": self.alibi is not None,
            "strides": self.layout != "plain",
        }
        return tuple(name for name, present in asked.items() if present)

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments that are not at their default."""
        given: dict[str, Any] = {
            "causal": self.causal or None,
            "scale": self.scale,
            "mask": self.mask,
            "window": self.window,
        }
        given |= {"softcap": self.softcap, "alibi": self.alibi}
        return {name: value for name, value in given.items() if value is not None}

    def grouped(self, array: Array) -> Array:
        """Keys or values of every query head: head h reads key head h // group."""
        return np.repeat(array, self.group, axis=1)

    def per_key_head(self, array: Array) -> Array:
        """The sum over the query heads of each group, (batch, kv_heads, ...)."""
        batch, heads, *rest = array.shape
        total: Array = array.reshape(batch, heads // self.group, self.group, *rest).sum(axis=2)
        return total

    def changed(self, **changes: Any) -> Sample:
        """A sample like this one; what was computed for this one is not kept."""
        filled = {"seeded": 0.0} if {"q", "k", "v", "do"} & set(changes) else {}
        return replace(self, **{"memo": {}, **filled, **changes})

    def describe(self) -> str:
        batch, heads, kv_heads, n, length, m, mv = self.shape
        shape = f"batch={batch}, heads={heads}, kv_heads={kv_heads}, n={n}, l={length}, m={m}, mv={mv}"
        options = "".join(f", {name}" for name in ("causal", "mask") if name in self.features)
        values = "".join(
            f", {name}={getattr(self, name):g}"
            for name in ("scale", "window", "softcap")
            if getattr(self, name) is not None
        )
        others = "".join(
            said
            for said, is_so in (
                (", alibi", self.alibi is not None),
                (f", {self.layout} in memory", self.layout != "plain"),
                (", causal up to the last key", self.bottom_right),
            )
            if is_so
        )
        return f"{self.name} ({shape}{options}{values}{others}, {self.precision.name})"
