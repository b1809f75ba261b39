"""The layer experiment's numbers brought together: means with spread, and paired ratios against SparseGPT."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from attnprune_verify.experiments.layer import LayerResults

__all__ = ["REFERENCE", "by_layer", "by_method", "ratio_of_means"]

REFERENCE = "sparsegpt"


def by_method(results: LayerResults) -> list[dict[str, Any]]:
    """One row per method, rho and n over all layers, heads and seeds.

    `ratio` is the geometric mean over (layer, head, seed) of the held-out error over SparseGPT's on the same head and
    texts, `ratio_low` and `ratio_high` its 5 % and 95 % points, `wins` the share below 1; None without SparseGPT.
    """
    table = []
    for method, rho, n in _groups(results.rows, "method", "rho", "n"):
        rows = _select(results.rows, method=method, rho=rho, n=n)
        ratios = _paired(rows, _select(results.rows, method=REFERENCE, rho=rho, n=n))
        whole = [row["cosine_distance"] for row in _select(results.whole, method=method, rho=rho, n=n)]
        per_seed = [np.mean([row["held_out"] for row in _select(rows, seed=seed)]) for (seed,) in _groups(rows, "seed")]
        seconds = {(row["layer"], row["seed"]): row["seconds"] for row in rows}
        table.append(
            {
                "method": method,
                "rho": rho,
                "n": n,
                "in_sample": float(np.mean([row["in_sample"] for row in rows])),
                "held_out": float(np.mean([row["held_out"] for row in rows])),
                "held_out_sd": float(np.std(per_seed, ddof=1)) if len(per_seed) > 1 else None,
                **_spread(ratios),
                "seconds": float(np.mean(list(seconds.values()))),
                "cosine_distance": float(np.mean(whole)) if whole else None,
            }
        )
    return table


def by_layer(results: LayerResults) -> list[dict[str, Any]]:
    """One row per method, rho, n and layer: the mean over heads and seeds, and its ratio to SparseGPT's mean."""
    table = []
    for method, rho, n, layer in _groups(results.rows, "method", "rho", "n", "layer"):
        rows = _select(results.rows, method=method, rho=rho, n=n, layer=layer)
        held_out = float(np.mean([row["held_out"] for row in rows]))
        table.append(
            {
                "method": method,
                "rho": rho,
                "n": n,
                "layer": layer,
                "in_sample": float(np.mean([row["in_sample"] for row in rows])),
                "held_out": held_out,
                "ratio": ratio_of_means(results, method, rho=rho, n=n, layer=layer),
            }
        )
    return table


def ratio_of_means(results: LayerResults, method: str, reference: str = REFERENCE, **fixed: Any) -> float | None:
    """Mean held-out error of `method` over that of `reference` on the same heads and texts; None if not measured."""
    ours = [row["held_out"] for row in _select(results.rows, method=method, **fixed)]
    theirs = [row["held_out"] for row in _select(results.rows, method=reference, **fixed)]
    return float(np.mean(ours) / np.mean(theirs)) if ours and theirs and np.mean(theirs) > 0 else None


def _paired(rows: list[dict[str, Any]], reference: list[dict[str, Any]]) -> list[float]:
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


def _select(rows: Iterable[dict[str, Any]], **fixed: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in fixed.items())]


def _groups(rows: Iterable[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))
