"""Plot of masks' divergence by pruning ratio: the lower bound of all masks, the best mask found, simple baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprune_verify.algorithms.gap.exchange import rounded
from attnprune_verify.algorithms.gap.mask_gap import certified_mask_gap
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.report.plots.style import SERIES, grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)  # those of the paper's Figure 2
_DRAWS = 5
"""Random masks of which the mean is taken: chosen."""


@dataclass(frozen=True)
class GapRow:
    """One pruning ratio: the bound, and the divergence of each method's mask, in nats."""

    rho: float
    bound: float
    divergences: Mapping[str, float]


def gap_rows(
    problem: Instance | AttentionLayer,
    X: Array | None = None,
    *,
    on: Any = "W",
    ratios: tuple[float, ...] = RATIOS,
    steps: int = 300,
) -> list[GapRow]:
    """The best mask found, the largest |w|, the largest |w| times its input's norm (Wanda's score), and random masks.

    Examples
    --------
    >>> (row,) = gap_rows(Instance(np.eye(3), np.diag([1.0, 2.0, 3.0])), ratios=(0.8,), steps=20)
    >>> row.bound <= row.divergences["best found"] <= row.divergences["random"]
    True
    """
    from attnprune_verify.algorithms.gap.problem import posed

    asked = posed(problem, X, None, on)
    function = asked.divergence()
    weight = np.abs(function.weight)
    norms = np.linalg.norm(function.problem.flat, axis=0)[:, np.newaxis]
    rng, rows = np.random.default_rng(0), []
    for rho in ratios:
        found = certified_mask_gap(problem, X, rho=rho, on=on, steps=steps)
        random = [function.value(rounded(rng.random(weight.shape), found.ones)) for _ in range(_DRAWS)]
        divergences = {
            "best found": found.best_kl,
            "|w| times norm of input": function.value(rounded(weight * norms, found.ones)),
            "|w|": function.value(rounded(weight, found.ones)),
            "random": float(np.mean(random)),
        }
        rows.append(GapRow(rho, found.bound, divergences))
    return rows


def draw_gaps(rows: list[GapRow]) -> Figure:
    """Divergence over pruning ratio, logarithmic; below the line of the bound there is no mask."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    rhos = [row.rho for row in rows]
    axes.plot(rhos, [row.bound for row in rows], label="no mask is below", **SERIES[0])
    for name, style in zip(rows[0].divergences, SERIES[1:], strict=False):
        axes.plot(rhos, [row.divergences[name] for row in rows], label=name, **style)
    axes.set_yscale("log")
    axes.set_xlabel("pruning ratio")
    axes.set_ylabel("mean over rows of KL(F(1) || F(M)), nats")
    axes.legend()
    grid(axes)
    return figure
