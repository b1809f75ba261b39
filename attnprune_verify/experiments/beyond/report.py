"""Whether a candidate pays: its held-out error against the baselines', over seeds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from attnprune_verify.experiments.beyond.run import BeyondPlan
from attnprune_verify.experiments.synthetic.curves import Truth, all_of, curve, is_below

__all__ = ["beyond_summary", "pays"]

_TO_BEAT = ("wanda", "sparsegpt", "magnitude-fused")


def pays(rows: list[dict[str, Any]], candidate: str, rho: float, **regime: Any) -> Truth:
    """Whether the candidate is below Wanda, SparseGPT and fused magnitude on fresh samples, beyond the spread."""
    ours, *others = (curve(rows, "rho", "out_mean", method=name, **regime) for name in (candidate, *_TO_BEAT))
    if ours is None:
        return None
    return all_of(None if other is None else is_below(ours.at(rho), other.at(rho)) for other in others)


def beyond_summary(plan: BeyondPlan, rows: list[dict[str, Any]]) -> str:
    """One table for each regime: in-sample and held-out error, and whether the candidate pays there."""
    return "\n".join(_tables(plan, rows))


def _tables(plan: BeyondPlan, rows: list[dict[str, Any]]) -> Iterator[str]:
    words = {True: "pays", False: "", None: "within the spread"}
    for weights, k, scale, rho in product(plan.weights, plan.ks, plan.scales, plan.rhos):
        regime = {"weights": weights, "k": k, "scale": scale}
        yield f"{weights} weights, k = {k}, logits x {scale:g}, rho = {rho:g}, {plan.seeds} seeds"
        yield f"  {'':18} {'in-sample':>9} {'held-out':>9} {'sd':>6}"
        for name in (*_TO_BEAT, *plan.candidates):
            inside, outside = (curve(rows, "rho", column, method=name, **regime) for column in ("in_mean", "out_mean"))
            if inside is None or outside is None:
                continue
            at = outside.axis.index(rho)
            verdict = words[pays(rows, name, rho, **regime)] if name in plan.candidates else ""
            numbers = f"{inside.mean[at]:9.3f} {outside.mean[at]:9.3f} {outside.spread[at]:6.3f}"
            yield f"  {name:18} {numbers}  {verdict}".rstrip()
        yield ""
