"""One instance of an attention layer, and how it is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.functions.truth.sample import MaskMaker, Real, Sample
from attnprune_verify.audit.naming.shrink import fewer
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE

# The functions of the contract that take a layer.
LAYERED = ("layer_attention", "layer_loss", "layer_gradient", "layer_relative_error")

# A subject may refuse these with an exception: it is then not asked for them, which is said once.
REFUSABLE = (
    "given-mask", "groups", "biases", "scale", "rope-half", "rope-interleaved", "rope-scaling", "window", "softcap",
    "alibi",
)  # fmt: skip

_BARE: dict[str, dict[str, Any]] = {
    "biases": {"b_Q": None, "b_K": None},
    "scale": {"scale": None},
    "rope-half": {"rope": None},
    "rope-interleaved": {"rope": None},
    "window": {"window": None},
    "softcap": {"softcap": None},
    "alibi": {"alibi": None},
    "given-mask": {"mask": None},
    "causal": {"causal": False},
    "mask": {"mask": None, "causal": False},
}
"""What a layer is given instead of each of its features."""


@dataclass(frozen=True, eq=False)
class LayerSample(Sample):
    """A layer with pruning masks, tokens and a regulariser. Of a `Sample`'s arrays it has no fused weight (zeros)."""

    MASKS: ClassVar[tuple[str, ...]] = ("M_Q", "M_K")

    @property
    def factor(self) -> float:
        """The scale, given or not."""
        return self.m**-0.5 if self.scale is None else self.scale

    @property
    def work(self) -> float:
        batch = self.X.shape[0] if self.X.ndim == 3 else 1
        return float(batch * self.n * self.heads * self.m * (self.n + 2 * self.d))

    @property
    def layer(self) -> AttentionLayer:
        """The layer, nothing pruned."""
        if "layer" not in self.memo:
            self.memo["layer"] = AttentionLayer(
                self.W_Q, self.W_K, self.b_Q, self.b_K, heads=self.heads, kv_heads=self.kv_heads, scale=self.scale,
                rope=self.rope, mask="causal" if self.causal else self.mask, window=self.window, softcap=self.softcap,
                alibi=self.alibi,
            )  # fmt: skip
        found: AttentionLayer = self.memo["layer"]
        return found

    dense = layer

    @property
    def pruned(self) -> AttentionLayer:
        """The layer with the weights times their masks, rounded to the precision."""
        if "pruned" not in self.memo:
            weights = (self.precision.exact(M * W) for M, W in ((self.M_Q, self.W_Q), (self.M_K, self.W_K)))
            self.memo["pruned"] = self.layer.with_weights(*weights)
        found: AttentionLayer = self.memo["pruned"]
        return found

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """The positions that may attend to each other, (n, n), from what is stated."""
        given = np.ones((self.n, self.n), dtype=bool) if self.mask is None else self.mask == 1
        if self.causal:
            given = np.tri(self.n, dtype=bool)
        near = np.abs(np.subtract.outer(np.arange(self.n), np.arange(self.n)))
        return given if self.window is None else given & (near < self.window)

    @property
    def positional(self) -> bool:
        """True where the order of the tokens matters."""
        return self.causal or self.rope is not None or self.window is not None or self.alibi is not None

    @property
    def features(self) -> frozenset[str]:
        """The names of `REFUSABLE` that it has."""
        has = {
            "given-mask": self.mask is not None,
            "groups": self.kv_heads < self.heads,
            "biases": self.b_Q is not None or self.b_K is not None,
            "scale": self.scale is not None,
            "rope-half": self.rope is not None and self.rope.layout == "half",
            "rope-interleaved": self.rope is not None and self.rope.layout == "interleaved",
            "rope-scaling": self.rope is not None and self.rope.scaling is not None,
            "window": self.window is not None,
            "softcap": self.softcap is not None,
            "alibi": self.alibi is not None,
        }
        return frozenset(name for name, there in has.items() if there)

    @property
    def extras(self) -> frozenset[str]:
        plain = super().extras - {"mask"}
        return plain | (self.features - {"rope-scaling"}) | ({"causal"} if self.causal else set())

    def without(self, extra: str) -> Self:
        """The layer without one of its features; of a batch the first sample, of a group the first head."""
        if extra == "groups":
            return self._with_heads(slice(None, None, self.heads // self.kv_heads), slice(None))
        return self.changed(**_BARE[extra]) if extra in _BARE else super().without(extra)

    def cuts(self, names: tuple[str, ...]) -> Iterator[Self]:
        return super().cuts(("X", "W_Q", "W_K", "M_Q", "M_K"))

    def _plainer(self) -> Iterator[Self]:
        for side in ("b_Q", "b_K"):
            if getattr(self, side) is not None:
                yield self.changed(**{side: None})
        given = self.extras
        yield from (self.without(extra) for extra in _BARE if extra in given - {"biases", "given-mask"})
        if "groups" in given:
            yield self.without("groups")
        group = self.heads // self.kv_heads
        yield from (self._with_heads(slice(count * group), slice(count)) for count in fewer(self.kv_heads))

    def _narrower(self) -> Iterator[Self]:
        """Fewer features of every head; with rotations an even number."""
        for m in fewer(self.m):
            if self.rope is None or m % 2 == 0:
                yield self._with_heads(slice(None), slice(None), m)

    def _with_heads(self, queries: slice, keys: slice, m: int | None = None) -> Self:
        """The layer with some of its heads, and of each the first m features."""

        def cut(array: Any, heads: slice) -> Any:
            if array is None:
                return None
            parts = array.reshape(*array.shape[:-1], -1, self.m)[..., heads, :m]
            return np.ascontiguousarray(parts.reshape(*array.shape[:-1], -1))

        arrays = {
            f"{kind}_{side}": cut(getattr(self, f"{kind}_{side}"), heads)
            for side, heads in (("Q", queries), ("K", keys))
            for kind in "WMb"
        }
        heads, kv_heads = len(range(self.heads)[queries]), len(range(self.kv_heads)[keys])
        slopes = None if self.alibi is None else self.alibi[queries]
        return self.changed(heads=heads, kv_heads=kv_heads, alibi=slopes, **arrays)

    def corner(self) -> Self:
        return self

    def exact(self) -> Self:
        rounded = super().exact()
        more = {name: getattr(self, name) for name in ("b_Q", "b_K", "alibi")}
        return rounded.changed(**{name: None if v is None else self.precision.exact(v) for name, v in more.items()})

    def recast(self, dtype: Any) -> Self:
        """Return the numbers in arrays of another dtype."""
        names = ("X", "W_Q", "W_K", "M_Q", "M_K", "b_Q", "b_K", "alibi")
        given = {name: getattr(self, name) for name in names}
        return self.changed(**{name: None if v is None else v.astype(dtype) for name, v in given.items()})

    @property
    def largest(self) -> tuple[float, ...]:
        queries, keys = (
            np.abs(self.X.astype(float)) @ np.abs(W.astype(float)) + (0.0 if b is None else np.abs(b).max())
            for W, b in ((self.W_Q, self.b_Q), (self.W_K, self.b_K))
        )
        logits = max(1.0, self.factor) * float(queries.max() * keys.max()) * self.m
        sizes = [float(np.abs(getattr(self, name)).max(initial=0.0)) for name in ("X", "W_Q", "W_K", "M_Q", "M_K")]
        return (*sizes, self.lam * self.W_Q.size, logits)

    def describe(self) -> str:
        k = f"k={self.X.shape[0]}, " if self.X.ndim == 3 else ""
        heads = f"{self.heads} heads" if self.heads > 1 else "1 head"
        groups = f" on {self.kv_heads}" if self.kv_heads < self.heads else ""
        kind = "causal" if self.causal else ("no mask" if self.mask is None else "mask")
        more = "".join(f", {name}" for name in sorted(self.features - {"given-mask", "groups"}))
        return (
            f"{self.name} ({k}n={self.n}, d={self.d}, {heads}{groups} of {self.m}, {kind}{more}, lam={self.lam:g}, "
            f"{self.precision.name})"
        )


def make_layer_sample(
    name: str,
    seed: int,
    n: int,
    d: int,
    m: int,
    heads: int = 1,
    kv_heads: int | None = None,
    *,
    largest: float = 2.0,
    biases: str = "",
    scale: float | None = None,
    rope: RoPE | None = None,
    mask: MaskMaker | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    alibi: bool = False,
    pruning: tuple[float, float] = (0.1, 0.9),
    lam: float = 0.3,
    k: int | None = None,
    precision: Precision = FLOAT64,
) -> LayerSample:
    """Gaussian tokens and weights, scaled so that the largest logit at M = 1 is `largest`; masks uniform in `pruning`.

    `biases` names the sides that have one ("Q", "K", "QK").
    """
    rng = np.random.default_rng([seed, *name.encode()])
    kv_heads = heads if kv_heads is None else kv_heads
    X = rng.standard_normal((n, d) if k is None else (k, n, d))
    widths = {"Q": heads * m, "K": kv_heads * m}
    weights = {side: rng.standard_normal((d, width)) for side, width in widths.items()}
    drawn = {side: 0.7 * rng.standard_normal(width) for side, width in widths.items()}
    chosen = {side: drawn[side] if side in biases else None for side in widths}
    pruned = {side: rng.uniform(*pruning, weight.shape) for side, weight in weights.items()}
    slopes = rng.uniform(0.1, 0.8, heads)
    factor = m**-0.5 if scale is None else scale
    size = largest / max(_largest_logit(X, weights, chosen, heads, factor), 1e-300)
    weights["Q"] *= size
    zeros = np.zeros((d, d))
    sample = LayerSample(
        name, X, zeros, zeros, zeros, weights["Q"], weights["K"], pruned["Q"], pruned["K"], lam,
        None if mask is None else mask(rng, n), seed, precision,
        heads=heads, kv_heads=kv_heads,
        b_Q=None if chosen["Q"] is None else chosen["Q"] * size, b_K=chosen["K"],
        scale=scale, rope=rope, causal=causal, window=window, softcap=softcap, alibi=slopes if alibi else None,
    )  # fmt: skip
    return sample


def _largest_logit(X: Real, weights: dict[str, Any], biases: dict[str, Any], heads: int, factor: float) -> float:
    queries, keys = (X @ weights[s] + (0.0 if biases[s] is None else biases[s]) for s in ("Q", "K"))
    m = queries.shape[-1] // heads
    group = queries.shape[-1] // keys.shape[-1]
    sizes = [
        np.abs(queries[..., h * m : (h + 1) * m] @ np.swapaxes(keys[..., g * m : (g + 1) * m], -1, -2)).max()
        for h, g in ((h, h // group) for h in range(heads))
    ]
    return factor * float(max(sizes))
