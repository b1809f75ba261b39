"""Heat maps of one instance: attention kept and pruned, their difference, the mask before and after rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.instance.problem import Instance
from attnprune_verify.model.functions import attention
from attnprune_verify.report.plots.style import heat, heat_around_0, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Matrices:
    """F(1), F(M), c = F(M) - F(1), M, M rounded to 0 and 1, and F there; of a batch the first sample's attention."""

    kept: Any
    pruned: Any
    difference: Any
    M: Any
    rounded: Any
    final: Any
    rho: float


def matrices(instance: Instance, M: Any, rho: float) -> Matrices:
    """Compute the matrices of the heat maps.

    Examples
    --------
    >>> found = matrices(Instance(np.eye(2), np.eye(2)), np.array([[1.0, 0.0], [0.0, 1.0]]), rho=0.5)
    >>> found.difference.shape, int(found.rounded.sum())
    ((2, 2), 2)
    """
    X = np.asarray(instance.samples[0], dtype=np.float64)
    W, M = np.asarray(instance.W, dtype=np.float64), np.asarray(M, dtype=np.float64)
    kept, pruned = attention(X, W, instance.mask), attention(X, M * W, instance.mask)
    rounded = binary_mask(M, rho)
    final = attention(X, rounded * W, instance.mask)
    return Matrices(kept, pruned, pruned - kept, M, rounded, final, rho)


def draw_heatmaps(found: Matrices) -> Figure:
    """Six panels; the three attentions share their colours.

    Examples
    --------
    >>> found = matrices(Instance(np.eye(2), np.eye(2)), np.eye(2), rho=0.5)
    >>> [panel.get_title() for panel in draw_heatmaps(found).axes[:3]]  # needs the extra `plot`
    ['F(1): attention, nothing pruned', 'F(M): attention, pruned', 'c = F(M) - F(1)']
    """
    figure = new_figure(13.5, 8.0)
    (n, _), (d, _) = found.kept.shape, found.M.shape
    figure.suptitle(f"Attention and mask before and after pruning: {n} positions, {d} features")
    panels = figure.subplots(2, 3).ravel()
    top = max(float(values.max()) for values in (found.kept, found.pruned, found.final))
    for panel, values, title in (
        (panels[0], found.kept, "F(1): attention, nothing pruned"),
        (panels[1], found.pruned, "F(M): attention, pruned"),
        (panels[5], found.final, "F at the rounded mask"),
    ):
        heat(figure, panel, values, "attention weight", vmin=0.0, vmax=top)
        panel.set_title(title, fontsize=11)
    heat_around_0(figure, panels[2], found.difference, "difference of attention weights")
    panels[2].set_title("c = F(M) - F(1)", fontsize=11)
    for panel in (*panels[:3], panels[5]):
        panel.set_xlabel("position attended to, j")
        panel.set_ylabel("position that attends, i")
    heat_around_0(figure, panels[3], found.M, "entry of M")
    panels[3].set_title("M, before rounding", fontsize=11)
    image = heat(figure, panels[4], found.rounded, "", vmin=0.0, vmax=1.0)
    image.colorbar.set_ticks([0, 1], labels=["pruned", "kept"])
    panels[4].set_title(f"M rounded, rho = {found.rho:g}", fontsize=11)
    for panel in panels[3:5]:
        panel.set_xlabel("feature of the key")
        panel.set_ylabel("feature of the query")
    return figure
