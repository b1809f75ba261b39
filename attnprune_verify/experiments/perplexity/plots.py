"""Damage against sparsity, against calibration size, and by layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprune_verify.experiments.figures import save
from attnprune_verify.experiments.perplexity.run import PerplexityResults
from attnprune_verify.experiments.perplexity.tables import by_draws
from attnprune_verify.extras import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette; marker and colour both tell the methods apart.
_STYLES = (
    ("#56B4E9", "D"), ("#E69F00", "s"), ("#009E73", "^"), ("#D55E00", "o"), ("#0072B2", "P"), ("#CC79A7", "v"),
    ("#999999", "x"), ("#332288", "*"), ("#000000", "+"),
)  # fmt: skip
_AXES = {"rho": "pruning ratio rho", "k": "calibration windows k", "layer": "the block that is pruned"}


def draw_damage(results: PerplexityResults, over: str) -> Figure:
    """KL to the dense model over "rho", "k" or "layer", a panel for every choice of the rest, logarithmic.

    Parameters
    ----------
    results : PerplexityResults
    over : "rho", "k" or "layer"
        The horizontal axis.

    Examples
    --------
    >>> from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
    >>> row = {"rest": "dense", "attention": "wanda", "budget": "matrix", "pattern": None, "k": 8, "layer": None,
    ...        "seed": 0, "perplexity": 20.0, "nll": 3.0, "kl": 0.1, "seconds": 1.0}
    >>> dense = {"perplexity": 19.0, "nll": 2.94, "tokens": 9}
    >>> results = PerplexityResults(PerplexityPlan("m"), {}, dense, [row | {"rho": rho} for rho in (0.5, 0.7)])
    >>> [panel.get_title() for panel in draw_damage(results, "rho").axes]  # needs the extra `plot`
    ['rest: dense']
    """
    need("drawing", "plot")
    from matplotlib.figure import Figure

    table = _rows(by_draws(results), over)
    rests = list(dict.fromkeys(row["rest"] for row in table))
    figure = Figure(figsize=(1.0 + 4.2 * len(rests), 4.0), layout="constrained")
    panels = figure.subplots(1, len(rests), sharey=True, squeeze=False)[0]
    for panel, rest in zip(panels, rests, strict=True):
        for (name, points), (colour, marker) in zip(_lines(table, rest, over).items(), _STYLES * 9, strict=False):
            places, kls = zip(*sorted(points), strict=True)
            panel.plot(places, kls, color=colour, marker=marker, label=name, lw=1.3)
        panel.set_title(f"rest: {rest}", fontsize=10)
        panel.set_yscale("log")
        panel.set_xscale("log" if over == "k" else "linear")
        panel.set_xticks(
            sorted({row[over] for row in table}), labels=[f"{x:g}" for x in sorted({r[over] for r in table})]
        )
        panel.minorticks_off()
        panel.set_xlabel(_AXES[over])
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("KL to the dense model, nats per token")
    handles: dict[str, Any] = {}
    for panel in panels:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def write_plots(results: PerplexityResults, folder: Path) -> list[Path]:
    """One figure, as PNG and SVG, for every quantity that takes several values."""
    table = by_draws(results)
    return [
        path
        for over in _AXES
        if len({row[over] for row in _rows(table, over)}) > 1
        for path in save(draw_damage(results, over), folder, f"perplexity-{over}")
    ]


def _rows(table: Sequence[dict[str, Any]], over: str) -> list[dict[str, Any]]:
    """The rows in which only `over` varies beside the methods: the first value of every other setting."""
    rows = [row for row in table if (row["layer"] is not None) == (over == "layer") and row[over] is not None]
    for name in {"rho", "pattern", "k"} - {over}:
        if over == "rho" and name == "pattern":
            continue
        first = rows[0][name] if rows else None
        rows = [row for row in rows if row[name] == first]
    return rows


def _lines(table: Sequence[dict[str, Any]], rest: str, over: str) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in table:
        if row["rest"] == rest:
            name = row["attention"] + ("" if row["budget"] == "matrix" else f", {row['budget']} budgets")
            lines.setdefault(name, []).append((row[over], row["kl"]))
    return lines
