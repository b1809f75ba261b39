"""The gap of every head's query map, as `check --rho` and `prune_layer(certify=True)` report it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprune_verify.algorithms.gap.mask_gap import MaskGap, certified_mask_gap
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.validate import Array

_STEPS = 300
"""The default of `certified_mask_gap`."""
_PER_OPERATION, _PER_LOGIT = 1.2e-10, 3e-5
"""Nominal seconds: of an operation of the search, and of an allowed logit in three evaluations in balls. Measured on
the small Llama's heads, which take 3 s, of which balls 0.2 s (docs/certified_gaps.md)."""


@dataclass(frozen=True)
class HeadGap:
    """A map, and its gap; or why there is none."""

    map: str
    head: int | None
    gap: MaskGap | None
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Return the row of JSON reports; numbers are missing where there is no gap."""
        found = {} if self.gap is None else self.gap.as_dict()
        return {"map": self.map, "head": self.head, **found, "note": self.note}


def gap_cost(n: int, d: int, m: int, samples: int = 1) -> float:
    """Nominal seconds of `certified_mask_gap` on one head, or on a fused weight with m = d.

    Examples
    --------
    >>> round(gap_cost(n=128, d=64, m=16), 1)
    4.3
    """
    products = 51 * _STEPS * (4.0 * samples * n * d * m + 6.0 * samples * n * n * m)
    return min(products, 1e12) * _PER_OPERATION + _PER_LOGIT * min(samples * n * n, 800_000)


def gaps_by_head(instance: Instance | LayerInstance, rho: float, effort: float) -> tuple[HeadGap, ...]:
    """The best masks with a share rho of zeros: of W, or of W_Q head by head with the keys dense, while effort lasts.

    Examples
    --------
    >>> (found,) = gaps_by_head(Instance(np.eye(3), np.diag([1.0, 2.0, 3.0])), 0.5, 10.0)
    >>> found.map, found.gap.bound <= found.gap.kl
    ('W', True)
    """
    samples = instance.k or 1
    if isinstance(instance, Instance):
        cost = gap_cost(instance.n, instance.d, instance.d, samples)
        return (_judged(instance.with_M(np.ones_like(instance.W)), None, rho, cost, effort),)
    layer, left, found = instance.layer, effort, []
    if layer.bending:
        return (HeadGap("W_Q", None, None, f"the {layer.bending} bends the logits: they are not linear in a mask"),)
    for head in range(layer.heads):
        cost = gap_cost(instance.n, instance.d, layer.m, samples)
        found.append(_judged(LayerInstance(layer, instance.X), head, rho, cost, left))
        left -= cost
    return tuple(found)


def _judged(instance: Instance | LayerInstance, head: int | None, rho: float, cost: float, left: float) -> HeadGap:
    name = "W" if head is None else "W_Q"
    if cost > left:
        enough = cost * (1 if head is None else head + 1)
        return HeadGap(name, head, None, f"not run: an effort of {enough:.2g} is enough")
    gap = certified_mask_gap(instance, rho=rho, on="W" if head is None else ("Q", head), steps=_STEPS)
    return HeadGap(name, head, gap, "")


def both_sides(layer: AttentionLayer, X: Array, mask_Q: Array, mask_K: Array) -> dict[str, list[dict[str, Any]]]:
    """The gap of each head's mask on W_Q with the keys dense, and of each on W_K with the queries dense."""
    ones = np.ones(layer.W_Q.shape), np.ones(layer.W_K.shape)
    sides = {"Q": (layer.heads, (mask_Q, ones[1])), "K": (layer.kv_heads, (ones[0], mask_K))}
    return {
        side: [certified_mask_gap(layer, X, masks=masks, on=(side, head)).as_dict() for head in range(heads)]
        for side, (heads, masks) in sides.items()
    }
