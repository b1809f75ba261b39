"""The perplexity experiment as tables, JSON and text."""

import shlex
from pathlib import Path
from typing import Any

from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
from attnprune_verify.experiments.perplexity.run import PerplexityResults
from attnprune_verify.experiments.perplexity.sentences import perplexity_statements
from attnprune_verify.experiments.perplexity.tables import by_draws
from attnprune_verify.files import dumps, table
from attnprune_verify.state.outputs import write_output

SCHEMA = "attnprune-verify/perplexity/1"
_CHOICES = ("rest", "attention", "budget", "rho", "pattern", "k", "seed", "layer")
_MEASURED = ("perplexity", "nll", "kl")


def as_document(results: PerplexityResults, *, times: bool = True) -> dict[str, Any]:
    """Return the results for JSON; with `times` including fields that differ between machines."""
    left_out = set() if times else {"seconds"}
    return {
        "schema": SCHEMA,
        "command": command_line(results.plan),
        "fingerprint": results.fingerprint,
        "plan": results.plan.document(),
        "dense": results.dense,
        "rows": [_without(row, left_out) for row in results.rows],
        "methods": [_without(row, left_out) for row in by_draws(results)],
        "statements": perplexity_statements(results),
    }


def command_line(plan: PerplexityPlan, folder: str | None = None) -> str:
    """The command that measures this plan, with FOLDER for the model's folder; or with `folder`, texts lying in it.

    Examples
    --------
    >>> command_line(PerplexityPlan("models/small", attention=("wanda",), seeds=2))
    'attnprune-verify experiment perplexity FOLDER --attention wanda --rest dense --rho 0.5 --k 8 --seeds 2'
    """
    words = ["attnprune-verify", "experiment", "perplexity", folder or "FOLDER"]
    for option, values in (
        ("--calibration", [_text(path, folder) for path in plan.calibration]),
        ("--held-out", [_text(path, folder) for path in plan.held_out]),
        ("--attention", plan.attention),
        ("--rest", plan.rest),
        ("--rho", plan.rhos),
        ("--pattern", plan.patterns),
        ("--budget", () if plan.budgets == ("matrix",) else plan.budgets),
        ("--hold", plan.hold),
        ("--k", plan.ks),
        ("--n", () if plan.n is None else (plan.n,)),
        ("--seeds", (plan.seeds,)),
        ("--windows", () if plan.windows is None else (plan.windows,)),
    ):
        for value in values:
            words += [option, str(value)]
    return shlex.join(words + ["--by-layer"] * plan.by_layer)


def _text(path: str, folder: str | None) -> str:
    return Path(path).name if folder is None else (Path(folder) / path).as_posix()


def write_tables(results: PerplexityResults, folder: Path) -> list[Path]:
    """Write ``perplexity.csv`` and ``perplexity.json`` without times, and ``times.csv`` beside them."""
    rows, document, times = (folder / name for name in ("perplexity.csv", "perplexity.json", "times.csv"))
    write_output(rows, table(results.rows, (*_CHOICES, *_MEASURED)))
    write_output(times, table(results.rows, (*_CHOICES, "seconds")))
    write_output(document, dumps(as_document(results, times=False)).encode())
    return [rows, document, times]


def summary(results: PerplexityResults) -> str:
    """The methods side by side, then the sentences."""
    dense = results.dense
    lines = [
        f"Dense: perplexity {dense['perplexity']:.3f} on {dense['tokens']} held-out tokens. KL in 1e-3 nats per token;",
        "ratio: of KL to SparseGPT's on the same draws, same rest [95 % over draws]; all: to SparseGPT for every map.",
        "",
        f"{'W_Q, W_K':22} {'rest':12} {'zeros':>6} {'k':>4} {'perplexity':>10} {'added':>8} {'KL':>9} "
        f"{'ratio':>20} {'all':>6} {'s':>6}",
    ]
    for row in by_draws(results):
        if row["layer"] is None:
            lines.append(_line(row))
    lines += [""] if any(row["layer"] is not None for row in results.rows) else []
    for row in by_draws(results):
        if row["layer"] is not None:
            lines.append(f"only block {row['layer']:3d}: {_line(row)}")
    statements = perplexity_statements(results)
    lines += [""] if statements else []
    for statement in statements:
        lines.append(f"{statement['says']} ({statement['reading']}): {statement['verdict']}, {statement['numbers']}")
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    name = row["attention"] + (f" ({row['budget']})" if row["budget"] != "matrix" else "")
    zeros = row["pattern"] or f"{row['rho']:g}"
    spread = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
    if row["ratio_low"] is not None:
        spread += f" [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"
    everywhere = "" if row["ratio_all"] is None else f"{row['ratio_all']:.3f}"
    return (
        f"{name:22} {row['rest']:12} {zeros:>6} {row['k']:4d} {row['perplexity']:10.3f} {row['added']:8.2%} "
        f"{1000 * row['kl']:9.3f} {spread:>20} {everywhere:>6} {row['seconds']:6.1f}"
    )


def _without(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
