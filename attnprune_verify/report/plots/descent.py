"""Trajectories of the descent on the mask: loss and gradient, step by step, for several readings of the algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.algorithms.trace import Descent
from attnprune_verify.instance.problem import Instance
from attnprune_verify.report.plots.style import SERIES, grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READINGS = ("theorem", "theorem-sharp", "literal-tilde", "literal-norm")


def trajectories(
    instance: Instance, rho: float, readings: Sequence[str] = READINGS, **options: Any
) -> dict[str, Descent]:
    """One descent for each reading; options as of `prune_mask_gd`.

    Examples
    --------
    >>> found = trajectories(Instance(np.eye(3), np.eye(3) - 0.5, lam=0.04), 0.5, ("theorem",), steps=5)
    >>> found["theorem"].trace.loss.shape
    (6,)
    """
    data = (instance.X, instance.W, rho, instance.lam)
    return {name: prune_mask_gd(*data, mask=instance.mask, reading=name, **options) for name in readings}


def draw_descent(found: Mapping[str, Descent]) -> Figure:
    """Draw three panels over the steps: the loss of the reading, its gradient's norm, entries outside [0, 1].

    Examples
    --------
    >>> found = trajectories(Instance(np.eye(3), np.eye(3) - 0.5, lam=0.04), 0.5, ("theorem",), steps=5)
    >>> len(draw_descent(found).axes)  # needs the extra `plot`
    3
    """
    figure = new_figure(13.5, 4.4)
    figure.suptitle("The descent by reading of the algorithm")
    panels = figure.subplots(1, 3)
    for (name, result), style in zip(found.items(), SERIES * 4, strict=False):
        trace = result.trace
        steps = np.arange(len(trace.loss))
        every = max(1, len(steps) // 12)
        label = name if result.status == "completed" else f"{name} ({result.status})"
        share = trace.outside / result.M.size
        for panel, values in zip(panels, (trace.loss, trace.gradient_norm, share), strict=True):
            panel.plot(steps, values, lw=1.3, ms=4, markevery=every, label=label, **style)
    for panel, title in zip(
        panels, ("loss of the reading", "norm of its gradient", "share of M outside [0, 1]"), strict=True
    ):
        panel.set_xlabel("step of the descent")
        panel.set_title(title, fontsize=11)
        grid(panel)
    for panel in panels[:2]:
        if all((line.get_ydata() > 0).any() for line in panel.lines):
            panel.set_yscale("log")
    panels[2].set_ylim(-0.02, 1.02)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure
