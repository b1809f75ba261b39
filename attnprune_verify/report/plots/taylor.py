"""The Taylor remainder against the step: slope 2 where the gradient is right, 1 where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprune_verify.instance.problem import Instance
from attnprune_verify.model.functions import gradient
from attnprune_verify.oracle.taylor import SlopeVerdict, taylor_slope
from attnprune_verify.report.plots.style import SERIES, grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WRONG_BY = 0.01  # chosen: one per cent, which the eye would miss


@dataclass(frozen=True)
class Remainders:
    """The verdict along one direction on the gradient, and on one that is wrong by `WRONG_BY` of itself."""

    right: SlopeVerdict
    wrong: SlopeVerdict


def remainders(instance: Instance, M: Any, seed: int = 0) -> Remainders:
    """Compute the remainders along a random direction of signs, like the oracle `taylor-slope`.

    Examples
    --------
    >>> X, W = np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> found = remainders(Instance(X, W), np.zeros((2, 2)))
    >>> found.right.status, found.wrong.status
    ('passed', 'failed')
    """
    found = np.asarray(gradient(M, instance.X, instance.W, instance.lam, instance.mask), dtype=np.float64)
    direction = np.random.default_rng(seed).choice([-1.0, 1.0], size=found.shape)
    if float((direction * found).sum()) == 0.0:  # an error of a slope of 0 could not show
        direction = np.where(found >= 0, 1.0, -1.0)
    data = (M, found, direction, instance.X, instance.W, instance.lam, instance.mask)
    return Remainders(taylor_slope(*data), taylor_slope(M, (1 + WRONG_BY) * found, *data[2:]))


def draw_taylor(found: Remainders) -> Figure:
    """Draw both remainders and their rounding errors on logarithmic axes.

    Examples
    --------
    >>> found = remainders(Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])), np.zeros((2, 2)))
    >>> len(draw_taylor(found).axes[0].lines)  # needs the extra `plot`
    4
    """
    figure = new_figure(7.5, 5.2)
    axes = figure.subplots()
    for verdict, name, style in (
        (found.right, "the closed-form gradient", SERIES[0]),
        (found.wrong, f"a gradient that is {WRONG_BY:.0%} off", SERIES[1]),
    ):
        slope = "no slope" if np.isnan(verdict.slope) else f"slope {verdict.slope:.2f}"
        shown = verdict.remainders > 0
        label = f"{name}: {slope}, {verdict.status}"
        axes.loglog(verdict.steps[shown], verdict.remainders[shown], ms=4, lw=1.2, label=label, **style)
    right = found.right
    first = int(np.argmax(right.remainders > 0))
    guide = right.remainders[first] * (right.steps / right.steps[first]) ** 2
    axes.loglog(right.steps, guide, color="#777777", lw=0.9, ls=(0, (1, 3)), label="slope 2")
    axes.loglog(right.steps, right.floor, color="#000000", lw=1.0, ls=":", label="what rounding may explain")
    lowest = min(right.floor.min(), right.remainders[right.remainders > 0].min(initial=np.inf))
    axes.set_ylim(lowest / 10, None)
    axes.set_xlabel("step h (entries of M move by h)")
    axes.set_ylabel("|L(M + hD) - L(M) - h <g, D>|, in units of the loss")
    axes.legend(fontsize=9)
    grid(axes)
    return figure
