"""Held-out and in-sample error against sparsity, one panel per layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attnprune_verify.experiments.figures import save
from attnprune_verify.experiments.layer.run import LayerResults
from attnprune_verify.experiments.layer.tables import by_layer
from attnprune_verify.extras import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette; marker and colour both tell the methods apart.
_STYLES = (
    ("#999999", "x"), ("#56B4E9", "D"), ("#E69F00", "s"), ("#009E73", "^"), ("#CC79A7", "v"), ("#D55E00", "o"),
    ("#0072B2", "P"), ("#332288", "*"), ("#000000", "+"),
)  # fmt: skip


def draw_layers(results: LayerResults, n: int) -> Figure:
    """One panel a layer: held-out error (solid) and the calibration texts' (dotted) over rho, logarithmic.

    Parameters
    ----------
    results : LayerResults
    n : int
        Length of the sequences, one of ``results.plan.ns``.

    Examples
    --------
    >>> from attnprune_verify.experiments.layer.plan import LayerPlan
    >>> rows = [{"method": "random", "rho": rho, "n": 128, "seed": 0, "layer": layer, "head": 0, "in_sample": rho,
    ...          "held_out": rho, "seconds": 1.0} for rho in (0.3, 0.5) for layer in (0, 1)]
    >>> plan = LayerPlan("model", methods=("random",), rhos=(0.3, 0.5))
    >>> [panel.get_title() for panel in draw_layers(LayerResults(plan, rows, []), 128).axes]  # needs the extra `plot`
    ['layer 0', 'layer 1']
    """
    need("drawing", "plot")
    from matplotlib.figure import Figure

    table = [row for row in by_layer(results) if row["n"] == n]
    layers = sorted({row["layer"] for row in table})
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure = Figure(figsize=(4.2 * columns, 0.8 + 3.1 * rows), layout="constrained")
    panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
    for panel, layer in zip(panels, layers, strict=False):
        for method, (colour, marker) in zip(results.plan.methods, _STYLES * 9, strict=False):
            points = sorted(
                (row["rho"], row["held_out"], row["in_sample"])
                for row in table
                if row["layer"] == layer and row["method"] == method
            )
            rhos, held_out, inside = zip(*points, strict=True)
            panel.plot(rhos, held_out, color=colour, marker=marker, label=method, lw=1.3)
            panel.plot(rhos, inside, color=colour, marker=marker, ms=3, ls=":", lw=0.8)
        panel.set_title(f"layer {layer}", fontsize=10)
        panel.set_yscale("log")
        panel.grid(alpha=0.25)
    for panel in panels[len(layers) :]:
        panel.set_visible(False)
    for panel in panels[max(len(layers) - columns, 0) : len(layers)]:  # below which there is none
        panel.set_xlabel("pruning ratio rho")
        panel.set_xticks(sorted(results.plan.rhos))
        panel.tick_params(labelbottom=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.supylabel("relative attention error", fontsize=10)
    figure.suptitle(f"held-out (solid) and calibration (dotted), n = {n}", fontsize=11)
    return figure


def write_plots(results: LayerResults, folder: Path) -> list[Path]:
    """One figure per length, as PNG and SVG."""
    return [path for n in results.plan.ns for path in save(draw_layers(results, n), folder, f"layer-n{n}")]
