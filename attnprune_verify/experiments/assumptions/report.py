"""The assumptions on a real model as tables, text and a figure, beside the paper's numbers."""

from pathlib import Path

import numpy as np

from attnprune_verify.experiments.assumptions.measure import LAM, RealAssumptions
from attnprune_verify.experiments.figures import save
from attnprune_verify.extras import need
from attnprune_verify.files import dumps, table
from attnprune_verify.state.outputs import write_output

SCHEMA = "attnprune-verify/experiment-assumptions/1"
PAPER_BETA, PAPER_DELTA = 0.034, 0.0025  # as the paper reports them


def write_tables(results: RealAssumptions, folder: Path) -> list[Path]:
    """Write ``assumptions.csv`` (one row per head and sequence) and ``assumptions.json`` (medians)."""
    rows, document = folder / "assumptions.csv", folder / "assumptions.json"
    write_output(rows, table(results.rows, list(results.rows[0])))
    medians = {"schema": SCHEMA, "model": results.model, "k": results.k, "lam": LAM, "table": results.table()}
    write_output(document, dumps(medians).encode())
    return [rows, document]


def summary(results: RealAssumptions) -> str:
    """Return the medians as text, beside the paper's numbers and the trivial bound."""
    lines = [
        f"{results.model}: medians over {results.k} sequences and all heads; lam = {LAM}. The paper reports "
        f"beta ~ {PAPER_BETA}, delta ~ {PAPER_DELTA}.",
        "xi/2 bounds L_attn/n^2 by the theorem, 1/n bounds it trivially; T for eps = 0.02/n, eta = 1/L.",
        "",
        f"{'layer':>5} {'n':>5} {'beta':>9} {'delta':>9} {'(least .. most)':>20} {'min|W|':>9} {'mu':>9} {'xi/2':>9} "
        f"{'1/n':>7} {'T':>9}",
    ]
    for cell in results.table():
        extremes = f"{_power(cell['log10_delta_least'])} .. {_power(cell['log10_delta_most'])}"
        lines.append(
            f"{cell['layer']:5} {cell['n']:5} {cell['beta']:9.2g} {_power(cell['log10_delta']):>9} {extremes:>20} "
            f"{cell['min_W']:9.1e} {_power(cell['log10_mu']):>9} {_power(cell['log10_half_xi']):>9} "
            f"{cell['trivial_bound']:7.2g} {_power(cell['log10_T']):>9}"
        )
    vacuous = sum(cell["vacuous"] for cell in results.table())
    lines += [
        "",
        f"The guarantee says less than the trivial bound in every head of {vacuous} of {len(results.table())} rows.",
    ]
    return "\n".join(lines)


def draw_assumptions(results: RealAssumptions, folder: Path) -> list[Path]:
    """delta by head against layer, one panel per length, with the paper's value; PNG and SVG."""
    need("drawing", "plot")
    from matplotlib.figure import Figure

    ns = list(dict.fromkeys(row["n"] for row in results.rows))
    figure = Figure(figsize=(4.5 * len(ns), 3.4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(ns), sharey=True))
    for panel, n in zip(panels, ns, strict=True):
        rows = [row for row in results.rows if row["n"] == n]
        panel.scatter(
            [row["layer"] for row in rows], [row["log10_delta"] for row in rows], s=6, alpha=0.4, color="#0072B2"
        )
        panel.axhline(np.log10(PAPER_DELTA), color="#D55E00", lw=1, label="the paper's delta")
        panel.axhline(-np.log10(n), color="#000000", lw=0.8, ls="--", label="1/n, the largest possible")
        panel.set_title(f"n = {n}", fontsize=10)
        panel.set_xlabel("layer")
    panels[0].set_ylabel("log10 of the smallest attention weight")
    panels[0].legend(fontsize=8)
    return save(figure, folder, "assumptions")


def _power(exponent: float) -> str:
    """10^exponent as digits, whatever its size."""
    if not np.isfinite(exponent):
        return "inf" if exponent > 0 else "0"
    whole = int(np.floor(exponent))
    return f"{10 ** (exponent - whole):.1f}e{whole:+d}"
