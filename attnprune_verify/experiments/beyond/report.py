"""Comparison of each candidate's held-out error with the baselines', over seeds."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from attnprune_verify.experiments.beyond.run import BeyondPlan
from attnprune_verify.experiments.paired import LEVEL, UNTESTED, Doubts, all_of, is_below, verdicts
from attnprune_verify.experiments.synthetic.curves import curve

_TO_BEAT = ("wanda", "sparsegpt", "magnitude-fused")


def pays(rows: list[dict[str, Any]], candidate: str, rho: float, **regime: Any) -> Doubts:
    """Test whether the candidate's error on fresh samples is below that of Wanda, SparseGPT and fused magnitude."""
    ours, *others = (curve(rows, "rho", "out_mean", method=name, **regime) for name in (candidate, *_TO_BEAT))
    if ours is None:
        return UNTESTED
    return all_of(UNTESTED if other is None else is_below(ours.at(rho), other.at(rho)) for other in others)


def beyond_summary(plan: BeyondPlan, rows: list[dict[str, Any]]) -> str:
    """One table for each regime: in-sample and held-out error, and whether the candidate pays there."""
    return "\n".join(_tables(plan, rows))


def _tables(plan: BeyondPlan, rows: list[dict[str, Any]]) -> Iterator[str]:
    words = {True: "pays", False: "", None: "undecided"}
    settings = [*product(plan.weights, plan.ks, plan.scales, plan.rhos)]
    family = [*product(settings, plan.candidates)]
    truths = dict(zip(family, verdicts([_pays(rows, *one) for one in family]), strict=True))
    yield f"Paired t over seeds, Holm over {len(family)} comparisons: probability of any wrong verdict <= {LEVEL:g}"
    yield ""
    for setting in settings:
        weights, k, scale, rho = setting
        regime = {"weights": weights, "k": k, "scale": scale}
        yield f"{weights} weights, k = {k}, logits x {scale:g}, rho = {rho:g}, {plan.seeds} seeds"
        yield f"  {'':18} {'in-sample':>9} {'held-out':>9} {'sd':>6}"
        for name in (*_TO_BEAT, *plan.candidates):
            inside, outside = (curve(rows, "rho", column, method=name, **regime) for column in ("in_mean", "out_mean"))
            if inside is None or outside is None:
                continue
            at = outside.axis.index(rho)
            verdict = words[truths[setting, name]] if name in plan.candidates else ""
            numbers = f"{inside.mean[at]:9.3f} {outside.mean[at]:9.3f} {outside.spread[at]:6.3f}"
            yield f"  {name:18} {numbers}  {verdict}".rstrip()
        yield ""


def _pays(rows: list[dict[str, Any]], setting: tuple[Any, ...], candidate: str) -> Doubts:
    weights, k, scale, rho = setting
    return pays(rows, candidate, rho, weights=weights, k=k, scale=scale)
