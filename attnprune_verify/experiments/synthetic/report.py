"""The synthetic experiment as a table, as JSON and in words."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnprune_verify.experiments.synthetic.curves import Curve, curve
from attnprune_verify.experiments.synthetic.rivals import RIVALS
from attnprune_verify.experiments.synthetic.run import Results
from attnprune_verify.experiments.synthetic.sentences import figure2_statements
from attnprune_verify.files import dumps, table
from attnprune_verify.state.outputs import write_output

SCHEMA = "attnprune-verify/experiment-synthetic/1"
COLUMNS = (
    "method", "reading", "weights", "seed", "k", "n", "d", "rank", "scale", "rho", "lam",
    "in_mean", "out_mean", "in_pooled", "out_pooled",
    "steps", "momentum", "momentum_form", "project", "status", "ascents", "outside_box", "least", "greatest",
)  # fmt: skip
MEASURED = (
    "in_mean", "out_mean", "in_pooled", "out_pooled", "status", "ascents", "outside_box", "least", "greatest",
)  # fmt: skip


def as_document(results: Results) -> dict[str, Any]:
    """Return the results for JSON: the plan, the rows, the chaos diagnostic, and every statement's verdict."""
    return {
        "schema": SCHEMA,
        "plan": asdict(results.plan),
        "rows": results.rows,
        "chaos": results.chaos,
        "statements": figure2_statements(results),
    }


def write_tables(results: Results, folder: Path) -> list[Path]:
    """Write `results.csv` (one row per method, setting and rho) and `results.json`, each whole or not at all."""
    rows, document = folder / "results.csv", folder / "results.json"
    write_output(rows, table(results.rows, COLUMNS))
    write_output(document, dumps(as_document(results)).encode())
    return [rows, document]


def summary(results: Results) -> str:
    """Return the report: the paper's sentences one by one, then trivial rivals and fresh samples, then failed runs."""
    return "\n".join([*_statements(results), "", *_beside(results), "", *_fates(results)])


def _statements(results: Results) -> Iterator[str]:
    found = figure2_statements(results)
    yield "The prose of Section 6.1 against these measurements, under every reading that was measured"
    for name in dict.fromkeys(entry["id"] for entry in found):
        entries = [entry for entry in found if entry["id"] == name]
        yield ""
        yield f"{name}: {entries[0]['says']}"
        yield f"  Counted as agreeing when {entries[0]['criterion']}."
        for word in ("agrees", "disagrees", "undecided"):
            chosen = [entry for entry in entries if entry["verdict"] == word]
            if not chosen:
                continue
            yield f"  {word} in {len(chosen)} of {len(entries)} readings" + ("" if len(chosen) > 4 else ":")
            shown = chosen if len(chosen) <= 4 else chosen[:1]
            for entry in shown:
                yield f"    {'e.g. ' if len(chosen) > 4 else ''}{_reading(entry)}: {entry['numbers']}"


def _reading(entry: dict[str, Any]) -> str:
    method = f", {entry['reading']}" if entry["reading"] else ""
    lam = "" if entry["lam"] is None else f", lam = {entry['lam']:g}"
    seeds = "1 seed" if entry["seeds"] == 1 else f"{entry['seeds']} seeds"
    return f"{entry['weights']} weights, k = {entry['k']}{method}{lam}, {entry['measure']}, {seeds}"


def _beside(results: Results) -> Iterator[str]:
    """Yield lines on what the paper does not show: trivial rivals, and the same masks on fresh samples."""
    plan = results.plan
    yield f"Error at rho = {plan.fixed_rho:g}, n = {plan.fixed_n}: in-sample +- sd over seeds (held-out)"
    for weights in plan.weights:
        for k, seeds in plan.seeds:
            yield f"  {weights} weights, k = {k}, {seeds} seed{'s' if seeds > 1 else ''}"
            fixed = {"weights": weights, "k": k, "n": plan.fixed_n}
            for method, label in RIVALS.items():
                yield _line(results, label, plan.fixed_rho, method=method, **fixed)
            for reading in (*plan.readings, *plan.side_readings):
                for lam in plan.fixed_lams:
                    label = f"algorithm, {reading}, lam = {lam:g}"
                    choice = {"method": "descent", "reading": reading, "lam": lam}
                    yield _line(results, label, plan.fixed_rho, **choice, **fixed)


def _line(results: Results, label: str, rho: float, **fixed: Any) -> str:
    inside = curve(results.rows, "rho", "in_mean", **fixed)
    outside = curve(results.rows, "rho", "out_mean", **fixed)
    if inside is None or outside is None:
        return f"    {label:42} not measured"
    return f"    {label:42} {_at(inside, rho)}  ({_at(outside, rho).split()[0]})"


def _at(one: Curve, position: float) -> str:
    index = one.axis.index(position)
    return f"{one.mean[index]:.3f} +- {one.spread[index]:.3f}"


def _fates(results: Results) -> Iterator[str]:
    """Divergence, leaving the box, and chaos."""
    descents = [row for row in results.rows if row["method"] == "descent"]
    groups = {(row["weights"], row["k"], row["seed"], row["n"], row["reading"], row["lam"]): row for row in descents}
    diverged = Counter((row["reading"], row["lam"]) for row in groups.values() if row["status"] == "diverged")
    for (reading, lam), count in sorted(diverged.items()):
        yield f"Diverged: {reading} at lam = {lam:g}, {count} runs (their masks are those of the last finite iterate)."
    left = sum(row["outside_box"] > 0 for row in groups.values())
    yield f"{left} of {len(groups)} descents ended with entries of M outside [0, 1]."
    for row in results.chaos:
        errors = " / ".join(f"{error:.3f}" for error in row["errors"])
        yield (
            f"Chaos, {row['weights']} weights, k = {row['k']}, {row['reading']}, lam = {row['lam']:g}: a 1e-12 "
            f"perturbation of M flips {row['flipped']:.1%} of the mask, float32 {row['flipped_float32']:.1%} "
            f"(errors {errors})."
        )
