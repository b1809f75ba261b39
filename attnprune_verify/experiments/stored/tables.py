"""Stored perplexity runs as Markdown tables, for the documentation."""

from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInput
from attnprune_verify.experiments.perplexity.tables import by_draws
from attnprune_verify.experiments.stored.record import read
from attnprune_verify.experiments.stored.whole_models import StoredPerplexity

_HEAD = "| W_Q, W_K | rest | zeros | k | draws | added perplexity | KL | KL to SparseGPT's, same rest | for every map |"


def markdown(path: Path) -> str:
    """One row per method and setting: means over the draws, ratios of KL with their 95 % intervals over the draws.

    Raises
    ------
    InvalidInput
        If the record is of another experiment.
    """
    record, rows = read(path)
    if record.experiment != "perplexity":
        raise InvalidInput(f"a table is made of perplexity runs; {path.name} holds {record.experiment} runs")
    results = StoredPerplexity(record.plan).results(rows)
    lines = [_HEAD, "|" + "---|" * _HEAD.count(" | ") + "---|"]
    return "\n".join([*lines, *map(_line, by_draws(results))]) + "\n"


def _line(row: dict[str, Any]) -> str:
    name = row["attention"] + ("" if row["budget"] == "matrix" else f", {row['budget']} budgets")
    zeros = row["pattern"] or f"{row['rho']:g}"
    cells = [name, row["rest"], zeros, row["k"], row["draws"], f"{row['added']:.2%}", f"{1000 * row['kl']:.3g}"]
    return "| " + " | ".join(map(str, [*cells, *(_ratio(row, name) for name in ("ratio", "ratio_all"))])) + " |"


def _ratio(row: dict[str, Any], name: str) -> str:
    if row[name] is None or row["attention"] == row["rest"] == "sparsegpt":
        return ""
    if row["attention"] == "sparsegpt" and name == "ratio" and row["budget"] == "matrix":
        return "1"
    ends = "" if row[f"{name}_low"] is None else f" [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
    return f"{row[name]:.3f}{ends}"
