"""The perplexity experiment's rows brought together: means over the draws, and paired ratios of KL with intervals."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from attnprune_verify.experiments.perplexity.run import PerplexityResults
from attnprune_verify.experiments.runs import Row

REFERENCE = "sparsegpt"
_SETTING = ("rho", "pattern", "k", "layer")


def by_draws(results: PerplexityResults) -> list[Row]:
    """One row per method and setting, over all draws of calibration windows.

    `added` is the relative increase of perplexity over the dense model; `ratio` the geometric mean over the draws of
    KL over that of SparseGPT on the same draw, setting and rest, `ratio_all` over SparseGPT for every map, each with
    the ends of a 95 % interval of Student's t for the logarithms; None where it was not measured, or on one draw.
    """
    table = []
    names = ("rest", "attention", "budget", *_SETTING)
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in results.rows):
        fixed = dict(zip(names, key, strict=True))
        rows = _select(results.rows, fixed)
        beside = {"rest": fixed["rest"], "attention": REFERENCE, "budget": "matrix"}
        table.append(
            {
                **fixed,
                "draws": len(rows),
                **{
                    name: float(np.mean([row[name] for row in rows])) for name in ("perplexity", "nll", "kl", "seconds")
                },
                "kl_sd": float(np.std([row["kl"] for row in rows], ddof=1)) if len(rows) > 1 else None,
                "added": math.exp(float(np.mean([row["nll"] for row in rows])) - results.dense["nll"]) - 1,
                **_named("ratio", paired_ratio(results, fixed, beside)),
                **_named("ratio_all", paired_ratio(results, fixed, beside | {"rest": REFERENCE})),
            }
        )
    return table


def paired_ratio(
    results: PerplexityResults, ours: Row, reference: Row
) -> tuple[float, float | None, float | None] | None:
    """Geometric mean over the draws of KL over the reference's on the same draw, with its 95 % interval.

    `reference` says in what the reference differs from `ours`; settings that it does not name are the same.
    """
    other = {**ours, **reference}
    kls = {row["seed"]: row["kl"] for row in _select(results.rows, other)}
    pairs = [(row["kl"], kls[row["seed"]]) for row in _select(results.rows, ours) if row["seed"] in kls]
    if not pairs or any(min(pair) <= 0 for pair in pairs):
        return None
    logs = np.log([mine / theirs for mine, theirs in pairs])
    centre = float(logs.mean())
    if len(logs) < 2:
        return math.exp(centre), None, None
    reach = float(stdtrit(len(logs) - 1, 0.975) * logs.std(ddof=1) / math.sqrt(len(logs)))
    return math.exp(centre), math.exp(centre - reach), math.exp(centre + reach)


def _select(rows: Sequence[Row], fixed: Row) -> list[Row]:
    return [row for row in rows if fixed.items() <= row.items()]


def _named(name: str, ratio: tuple[float, float | None, float | None] | None) -> dict[str, float | None]:
    middle, low, high = ratio or (None, None, None)
    return {name: middle, f"{name}_low": low, f"{name}_high": high}
