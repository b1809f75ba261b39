"""Figure 2 as measured: error over lam, n and rho, for each k, one figure per reading of the weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprune_verify.experiments.figures import save
from attnprune_verify.experiments.synthetic.curves import Curve, curve
from attnprune_verify.experiments.synthetic.run import Results
from attnprune_verify.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, indigo for its yellow; marker and colour both tell the methods apart.
_RIVALS = {
    "wanda": ("Wanda, pair", "#E69F00", "s"),
    "sparsegpt": ("SparseGPT, pair", "#009E73", "^"),
    "magnitude-fused": ("magnitude, fused W", "#56B4E9", "D"),
    "random-fused": ("random, fused W", "#999999", "x"),
    "everything": ("everything pruned", "#000000", ""),
}
_METHODS = (("#D55E00", "o"), ("#CC79A7", "v"), ("#0072B2", "P"), ("#332288", "*"))
_AXES = {"lam": "regularisation lambda", "n": "sequence length n", "rho": "pruning ratio rho"}


def draw_figure2(results: Results, weights: str) -> Figure:
    """Rows: k. Columns: lam, n, rho. Solid: in-sample mean with a band of one sd; dashed: held-out mean.

    Examples
    --------
    >>> from attnprune_verify.experiments.stored.findings import stored_results
    >>> len(draw_figure2(stored_results(), "shared").axes)  # needs the extra `plot`
    6
    """
    need("drawing", "plot")
    from matplotlib.figure import Figure

    plan = results.plan
    rows = len(plan.seeds)
    figure = Figure(figsize=(13, 0.9 + 3.6 * rows), layout="constrained")
    panels = figure.subplots(rows, 3, squeeze=False, sharey=True)
    for row, (k, seeds) in enumerate(plan.seeds):
        for panel, axis in zip(panels[row], _AXES, strict=True):
            _draw_panel(panel, results, weights, k, axis)
            panel.set_xlabel(_AXES[axis])
        panels[row, 0].set_ylabel(f"relative error (k = {k}, {seeds} seed{'s' if seeds > 1 else ''})")
    highest = max(row[measure] for row in results.rows for measure in ("in_mean", "out_mean"))
    panels[0, 0].set_ylim(0, 1.05 * highest)
    handles, labels = panels[0, 2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(
        f"{weights} weights: error on the calibration samples (solid, band = 1 sd over seeds) "
        "and on fresh ones (dashed)"
    )
    return figure


def _draw_panel(panel: Axes, results: Results, weights: str, k: int, axis: str) -> None:
    plan = results.plan
    fixed: dict[str, Any] = {"weights": weights, "k": k}
    fixed |= {"n": plan.fixed_n} if axis != "n" else {}
    fixed |= {"rho": plan.fixed_rho} if axis != "rho" else {}
    for method, (label, colour, marker) in _RIVALS.items():
        other = "n" if axis == "lam" else axis  # the rivals do not know lam: one point, drawn across
        both = _both(results, other, method=method, **fixed)
        if both is None:
            continue
        if axis == "lam":
            panel.axhline(both[0].mean[0], color=colour, lw=1.2, label=label)
            panel.axhline(both[1].mean[0], color=colour, lw=0.9, ls="--")
        else:
            _line(panel, both, colour, marker, label)
    readings = plan.readings if axis != "rho" else (*plan.readings, *plan.side_readings)
    lams: tuple[float | None, ...] = (None,) if axis == "lam" else plan.fixed_lams
    choices = [(reading, lam) for reading in readings for lam in lams]
    for index, (reading, lam) in enumerate(choices):
        colour, marker = _METHODS[index % len(_METHODS)]
        one = {} if lam is None else {"lam": lam}
        both = _both(results, axis, method="descent", reading=reading, **fixed, **one)
        if both is not None:
            label = f"algorithm, {reading}" + ("" if lam is None else f", lam = {lam:g}")
            _line(panel, both, colour, marker, label)
    if axis != "rho":
        panel.set_xscale("log", base=2)
    panel.grid(alpha=0.25)


def _both(results: Results, axis: str, **fixed: Any) -> tuple[Curve, Curve] | None:
    inside, outside = (curve(results.rows, axis, measure, **fixed) for measure in ("in_mean", "out_mean"))
    return None if inside is None or outside is None else (inside, outside)


def _line(panel: Axes, both: tuple[Curve, Curve], colour: str, marker: str, label: str) -> None:
    inside, outside = both
    panel.plot(inside.axis, inside.mean, color=colour, marker=marker or None, ms=4, lw=1.4, label=label)
    panel.fill_between(
        inside.axis, inside.mean - inside.spread, inside.mean + inside.spread, color=colour, alpha=0.18, lw=0
    )
    panel.plot(outside.axis, outside.mean, color=colour, lw=0.9, ls="--")


def write_plots(results: Results, folder: Path) -> list[Path]:
    """Write `figure2_<weights>.png` and `.svg`, each whole or not at all."""
    drawn = {f"figure2_{weights}": draw_figure2(results, weights) for weights in results.plan.weights}
    return [path for name, figure in drawn.items() for path in save(figure, folder, name)]
