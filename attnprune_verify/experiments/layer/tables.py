"""The layer experiment's numbers brought together: means with spread, and paired ratios against SparseGPT."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from attnprune_verify.experiments.layer.run import LayerResults
from attnprune_verify.experiments.runs import Row

REFERENCE = "sparsegpt"


def by_method(results: LayerResults) -> list[Row]:
    """One row per method, rho and n over all layers, heads and seeds.

    `ratio` is the geometric mean over (layer, head, seed) of the held-out error over SparseGPT's on the same head and
    texts, `ratio_low` and `ratio_high` its 5 % and 95 % points, `wins` the share below 1; None without SparseGPT.
    """
    groups = _groups(results.rows, "method", "rho", "n")
    wholes = _groups(results.whole, "method", "rho", "n")
    table = []
    for (method, rho, n), rows in groups.items():
        whole = [row["cosine_distance"] for row in wholes.get((method, rho, n), [])]
        per_seed = [_mean(of_seed) for of_seed in _groups(rows, "seed").values()]
        seconds = {(row["layer"], row["seed"]): row["seconds"] for row in rows if "seconds" in row}
        table.append(
            {
                "method": method,
                "rho": rho,
                "n": n,
                "in_sample": _mean(rows, "in_sample"),
                "held_out": _mean(rows),
                "held_out_sd": float(np.std(per_seed, ddof=1)) if len(per_seed) > 1 else None,
                **_spread(_paired(rows, groups.get((REFERENCE, rho, n), []))),
                "seconds": float(np.mean(list(seconds.values()))) if seconds else None,
                "cosine_distance": float(np.mean(whole)) if whole else None,
            }
        )
    return table


def by_layer(results: LayerResults) -> list[Row]:
    """One row per method, rho, n and layer: the mean over heads and seeds, and its ratio to SparseGPT's mean."""
    groups = _groups(results.rows, "method", "rho", "n", "layer")
    table = []
    for (method, rho, n, layer), rows in groups.items():
        reference = groups.get((REFERENCE, rho, n, layer))
        table.append(
            {
                "method": method,
                "rho": rho,
                "n": n,
                "layer": layer,
                "in_sample": _mean(rows, "in_sample"),
                "held_out": _mean(rows),
                "ratio": _mean(rows) / _mean(reference) if reference and _mean(reference) > 0 else None,
            }
        )
    return table


def ratio_of_means(results: LayerResults, method: str, reference: str = REFERENCE, **fixed: Any) -> float | None:
    """Mean held-out error of `method` over that of `reference` on the same heads and texts; None if not measured."""
    ours, theirs = (_select(results.rows, method=name, **fixed) for name in (method, reference))
    return _mean(ours) / _mean(theirs) if ours and theirs and _mean(theirs) > 0 else None


def _mean(rows: list[Row], name: str = "held_out") -> float:
    return float(np.mean([row[name] for row in rows]))


def _paired(rows: list[Row], reference: list[Row]) -> list[float]:
    known = {(row["layer"], row["head"], row["seed"]): row["held_out"] for row in reference}
    pairs = [(row["held_out"], known.get((row["layer"], row["head"], row["seed"]), 0.0)) for row in rows]
    return [ours / theirs for ours, theirs in pairs if theirs > 0]


def _spread(ratios: list[float]) -> dict[str, float | None]:
    if not ratios:
        return {"ratio": None, "ratio_low": None, "ratio_high": None, "wins": None}
    low, high = np.quantile(ratios, [0.05, 0.95])
    return {
        "ratio": float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-300))))),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "wins": float(np.mean(np.array(ratios) < 1)),
    }


def _select(rows: Iterable[Row], **fixed: Any) -> list[Row]:
    return [row for row in rows if fixed.items() <= row.items()]


def _groups(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found
