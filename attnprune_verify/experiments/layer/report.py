"""The layer experiment as tables, JSON and text."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnprune_verify.experiments.layer.plan import LayerPlan
from attnprune_verify.experiments.layer.run import LayerResults
from attnprune_verify.experiments.layer.sentences import layer_statements
from attnprune_verify.experiments.layer.tables import by_layer, by_method
from attnprune_verify.files import dumps, table
from attnprune_verify.state.outputs import write_output

SCHEMA = "attnprune-verify/experiment-layer/1"
COLUMNS = ("method", "rho", "n", "seed", "layer", "head", "in_sample", "held_out", "seconds")


def as_document(results: LayerResults) -> dict[str, Any]:
    """The plan, the tables and the statements, ready for JSON; the rows by head are in the CSV."""
    plan = asdict(results.plan) | {"model": Path(results.plan.model).name}
    for part in ("calibration", "held_out"):
        plan[part] = [Path(path).name for path in plan[part]] or "shipped"
    return {
        "schema": SCHEMA,
        "command": command_line(results.plan),
        "plan": plan,
        "methods": by_method(results),
        "layers": by_layer(results),
        "statements": layer_statements(results),
    }


def command_line(plan: LayerPlan) -> str:
    """The command that measures this plan, with FOLDER for the model's folder.

    Examples
    --------
    >>> command_line(LayerPlan("models/small", methods=("wanda",), seeds=2))
    'attnprune-verify experiment layer FOLDER --method wanda --rho 0.5 --n 128 --k 8 --seeds 2'
    """
    words = ["attnprune-verify", "experiment", "layer", "FOLDER"]
    for option, values in (
        ("--calibration", plan.calibration),
        ("--held-out", plan.held_out),
        ("--layer", plan.layers),
        ("--method", plan.methods),
        ("--rho", plan.rhos),
        ("--n", plan.ns),
        ("--held-out-n", () if plan.held_out_n is None else (plan.held_out_n,)),
        ("--k", (plan.k,)),
        ("--seeds", (plan.seeds,)),
    ):
        for value in values:
            words += [option, Path(str(value)).name if option in ("--calibration", "--held-out") else str(value)]
    return shlex.join(words)


def write_tables(results: LayerResults, folder: Path) -> list[Path]:
    """Write ``layer.csv`` (one row per head) and ``layer.json``, each whole or not at all."""
    rows, document = folder / "layer.csv", folder / "layer.json"
    write_output(rows, table(results.rows, COLUMNS))
    write_output(document, dumps(as_document(results)).encode())
    return [rows, document]


def summary(results: LayerResults) -> str:
    """Methods side by side, then layer by layer, then the statements."""
    lines = [
        "Relative attention error, mean over layers, heads and seeds; ratio: geometric mean of held-out error against",
        "SparseGPT's on the same head [5 %, 95 %]; e2e: 1 - cosine of mean-pooled outputs, all layers pruned.",
        "",
        f"{'method':32} {'rho':>5} {'n':>5} {'in-sample':>10} {'held-out':>9} {'ratio':>20} {'wins':>5} "
        f"{'s/layer':>8} {'e2e':>8}",
    ]
    for row in by_method(results):
        spread = "" if row["ratio"] is None else f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"
        wins = "" if row["wins"] is None else f"{row['wins']:.2f}"
        whole = "" if row["cosine_distance"] is None else f"{row['cosine_distance']:.4f}"
        lines.append(
            f"{row['method']:32.32} {row['rho']:5g} {row['n']:5} {row['in_sample']:10.4f} {row['held_out']:9.4f} "
            f"{spread:>20} {wins:>5} {row['seconds']:8.2f} {whole:>8}"
        )
    lines += ["", "Held-out error by layer (ratio of means to SparseGPT's)"]
    table = by_layer(results)
    for method, rho, n in dict.fromkeys((row["method"], row["rho"], row["n"]) for row in table):
        cells = [
            f"{row['layer']}: {row['held_out']:.4f}" + ("" if row["ratio"] is None else f" ({row['ratio']:.2f})")
            for row in table
            if (row["method"], row["rho"], row["n"]) == (method, rho, n)
        ]
        lines.append(f"  {method:28.28} rho {rho:g}, n {n}:  " + "  ".join(cells))
    lines += ["", "Statements"]
    for one in layer_statements(results):
        verdict = "holds" if one["holds"] else "does not hold"
        lines.append(f"  {one['id']}: {verdict} ({one['lhs']:.4g} against {one['rhs']:.4g}; {one['reading']})")
    return "\n".join(lines)
