"""The constants of an instance on one logarithmic axis: the paper's, ours, and the values measured on the instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprune_verify.instance.problem import Instance
from attnprune_verify.model.objective import Objective
from attnprune_verify.report.plots.style import SERIES, grid, new_figure
from attnprune_verify.theory.constants import Constants, constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POWER_STEPS, _DRAWS = 30, 4  # chosen: a picture's accuracy; nothing is decided by it


@dataclass(frozen=True)
class Compared:
    """One quantity: decimal logarithms of the paper's number, ours, and the one measured; None where there is none."""

    name: str
    better: str
    paper: float | None
    ours: float | None
    measured: float | None


def compared(instance: Instance, seed: int = 0) -> list[Compared]:
    """The rows of the picture.

    Measured is the largest curvature, and the least ratio of the PL inequality, found at a few masks: what any bound
    has to leave room for, no bound itself.

    Examples
    --------
    >>> rows = compared(Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), M=np.zeros((2, 2))))
    >>> [row.name for row in rows][:2]
    ['Lipschitz constant of the gradient', 'factor mu of the PL inequality']
    """
    found = constants(instance)
    curvature, ratio = most_curvature(instance, seed), least_pl_ratio(instance, seed)
    return [
        Compared(
            "Lipschitz constant of the gradient", "lower", *_logs(found, "L_paper", "L_sharp"), _log(curvature)
        ),
        Compared("factor mu of the PL inequality", "higher", *_logs(found, "mu_paper", "mu_corrected"), _log(ratio)),
        Compared("gap xi of the theorem", "lower", *_logs(found, "xi_paper", "xi_corrected"), None),
        Compared("steps T of the theorem", "lower", *_logs(found, "T_paper", "T_corrected"), None),
        Compared("step size eta", "higher", *_logs(found, "eta_paper", "eta_corrected"), _log(1 / curvature)),
    ]  # fmt: skip


def most_curvature(instance: Instance, seed: int = 0) -> float:
    """Return the largest |v^T H v| / |v|^2 of a power iteration over a few masks: a lower bound of L."""
    objective, rng, best = Objective(instance), np.random.default_rng(seed), 0.0
    for M in _masks(instance, rng):
        times = objective.hessian_operator(M)
        v = rng.standard_normal(M.shape)
        for _ in range(_POWER_STEPS):
            size = float(np.linalg.norm(v))
            if size == 0.0:
                break
            v = v / size
            image = np.asarray(times(v), dtype=np.float64)
            best = max(best, abs(float((v * image).sum())))
            v = image
    return best


def least_pl_ratio(instance: Instance, seed: int = 0) -> float | None:
    """The least ||grad L_attn||^2 / (||c||^2 / 2) over a few masks; None for a batch, to which mu does not belong."""
    if len(instance.samples) > 1:
        return None
    objective = Objective(instance.X, instance.W, 0.0, instance.mask)
    ratios = []
    for M in _masks(instance, np.random.default_rng(seed)):
        value, slope = objective.loss_and_gradient(M)
        if value > 1e-12:  # at M = 1 both sides are 0
            ratios.append(float((np.asarray(slope, dtype=np.float64) ** 2).sum()) / value)
    return min(ratios, default=None)


def _masks(instance: Instance, rng: np.random.Generator) -> Iterator[Any]:
    shape = np.shape(instance.W)
    yield np.asarray(instance.M_or_ones, dtype=np.float64)
    yield np.zeros(shape)
    for _ in range(_DRAWS):
        yield rng.uniform(0.0, 1.0, shape)


def _logs(found: Constants, paper: str, ours: str) -> tuple[float | None, float | None]:
    return found.log10.get(paper), found.log10.get(ours)


def _log(value: float | None) -> float | None:
    return float(np.log10(value)) if value is not None and np.isfinite(value) and value > 0 else None


def draw_constants(rows: list[Compared]) -> Figure:
    """One line per quantity; the axis is the exponent, so that numbers beyond the range of floats have a place, too.

    Examples
    --------
    >>> rows = [Compared("L", "lower", 5.0, 1.0, 0.0)]
    >>> draw_constants(rows).axes[0].get_yticklabels()[0].get_text()  # needs the extra `plot`
    'L\\n(lower is better)'
    """
    figure = new_figure(9.5, 1.6 + 0.75 * len(rows))
    axes = figure.subplots()
    for (kind, label), style in zip(
        (("paper", "the paper's"), ("ours", "repaired, sharp"), ("measured", "found on this instance")),
        (SERIES[1], SERIES[0], SERIES[3]),
        strict=True,
    ):
        points = [(getattr(row, kind), place) for place, row in enumerate(rows) if getattr(row, kind) is not None]
        if points:
            x, y = zip(*points, strict=True)
            look = {**style, "linestyle": ""}
            axes.plot(x, y, ms=9, label=label, zorder=3, **look)
    for place, row in enumerate(rows):
        known = [value for value in (row.paper, row.ours, row.measured) if value is not None]
        if known:
            axes.plot([min(known), max(known)], [place, place], color="#999999", lw=1.0, zorder=1)
        else:
            axes.text(
                0.5, place, "no positive value on this instance", transform=axes.get_yaxis_transform(), ha="center"
            )
    names = [f"{row.name}\n({row.better} is better)" for row in rows]
    axes.set_yticks(range(len(rows)), labels=names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.locator_params(axis="x", integer=True)
    axes.xaxis.set_major_formatter(lambda x, _: f"$10^{{{x:g}}}$")
    axes.set_xlabel("value, logarithmic")
    axes.margins(x=0.08)
    grid(axes)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
