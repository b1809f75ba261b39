"""What Table 1 says, and what our method achieves, against what the perplexity experiment measured.

Each finding is an inequality between two measured numbers; a reading names the setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from attnprune_verify.experiments.layer.sentences import Finding
from attnprune_verify.experiments.perplexity.run import PerplexityResults
from attnprune_verify.experiments.perplexity.tables import by_draws

__all__ = ["perplexity_statements"]

_PAPERS, _OURS = "paper-gd", "output-obs"


def perplexity_statements(results: PerplexityResults) -> list[dict[str, Any]]:
    """Every sentence that the measured methods allow to be judged: the fields of `Finding` each."""
    table = {_key(row): row for row in by_draws(results) if row["layer"] is None}
    found: list[Finding] = []
    for row in table.values():
        found += [*_papers_table(row, table), *_order_of_baselines(row, table), *_ours(row, table)]
    return [asdict(finding) for finding in found]


def _papers_table(row: dict[str, Any], table: dict[Any, dict[str, Any]]) -> Iterator[Finding]:
    """Table 1: "our Attention pruning methods always outperform Wanda Attention pruning and SparseGPT"."""
    if row["attention"] != _PAPERS:
        return
    for rival in ("wanda", "sparsegpt"):
        other = table.get(_key(row | {"attention": rival}))
        if other is not None:
            yield Finding(
                f"exp:table1_beats_{rival}",
                f"The paper's descent gives a lower perplexity than {rival} on W_Q and W_K.",
                f"perplexity {row['perplexity']:.4g} <= {other['perplexity']:.4g}",
                row["perplexity"],
                other["perplexity"],
                row["perplexity"] <= other["perplexity"],
                _reading(row),
            )


def _order_of_baselines(row: dict[str, Any], table: dict[Any, dict[str, Any]]) -> Iterator[Finding]:
    """Table 1 has SparseGPT everywhere worse than Wanda everywhere (36.6 > 30.4)."""
    if row["attention"] != row["rest"] or row["attention"] != "wanda":
        return
    other = table.get(_key(row | {"attention": "sparsegpt", "rest": "sparsegpt"}))
    if other is not None:
        yield Finding(
            "exp:table1_wanda_beats_sparsegpt",
            "Wanda for every map gives a lower perplexity than SparseGPT for every map, as Table 1 reports.",
            f"perplexity {row['perplexity']:.4g} <= {other['perplexity']:.4g}",
            row["perplexity"],
            other["perplexity"],
            row["perplexity"] <= other["perplexity"],
            _reading(row),
        )


def _ours(row: dict[str, Any], table: dict[Any, dict[str, Any]]) -> Iterator[Finding]:
    """The default method's KL against SparseGPT's with the same zeros, on unseen text."""
    if row["attention"] != _OURS or row["rest"] not in (_OURS, "dense"):
        return
    everything = row["rest"] == _OURS
    ratio = "ratio_all" if everything else "ratio"
    if row[ratio] is None:
        return
    maps = "every map" if everything else "W_Q and W_K, the rest dense"
    bound = row[f"{ratio}_high"] or row[ratio]
    interval = "" if row[f"{ratio}_high"] is None else f" [{row[f'{ratio}_low']:.3f}, {row[f'{ratio}_high']:.3f}]"
    yield Finding(
        "new:output-obs-everything" if everything else "new:output-obs-attention",
        f"output-obs on {maps} has a lower KL to the dense model on unseen text than SparseGPT with as many zeros.",
        f"ratio of KL {row[ratio]:.3f}{interval}, its upper end <= 1",
        bound,
        1.0,
        bound <= 1.0,
        _reading(row),
    )


def _reading(row: dict[str, Any]) -> str:
    zeros = f"pattern {row['pattern']}" if row["pattern"] else f"rho = {row['rho']:g}"
    budget = "" if row["budget"] == "matrix" else ", budgets measured"
    return f"rest {row['rest']}, {zeros}{budget}, k = {row['k']}, {row['draws']} draws"


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("rest", "attention", "budget", "rho", "pattern", "k"))
