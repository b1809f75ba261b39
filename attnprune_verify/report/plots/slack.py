"""Plot of each bound's slack by family of instances, the paper's bounds beside the repaired ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnprune_verify.claims import registry
from attnprune_verify.claims.judging.trial import try_case
from attnprune_verify.report.plots.style import SERIES, grid, new_figure
from attnprune_verify.theory.numbers.arithmetic import FLOAT, working_precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUNDS = ("thm:lip_grad_l", "fix:lip_grad_l", "lem:PL_ineq", "fix:PL_ineq")
_ROUNDING = 1e-9  # chosen: the picture counts nothing below it as violated


class SlackPoint(NamedTuple):
    """One instance: the bound with its reading, the family, and the slack in float64."""

    bound: str
    family: str
    slack: float


def slacks(ids: Sequence[str] = BOUNDS, seed: int = 0) -> list[SlackPoint]:
    """Every family's instances that meet the hypotheses, under each reading of each bound.

    Raises
    ------
    InvalidInstance
        If an id names no statement.

    Examples
    --------
    >>> points = slacks(["fix:PL_ineq"])
    >>> {point.bound for point in points}, min(point.slack for point in points) > -1e-9
    ({'fix:PL_ineq-any'}, True)
    """
    found = []
    wanted = registry.named(ids)
    for claim in (one for one in registry.claims() if one.id in wanted):
        for case in claim.supply.families(np.random.default_rng(seed)):
            with working_precision():
                trial = try_case(claim, case, FLOAT)
            if trial.failed is None and not trial.problem and np.isfinite(trial.slack):
                found.append(SlackPoint(claim.test_id, _family(case.origin), trial.slack))
    return found


def _family(origin: str) -> str:
    """The family's name out of where a case came from."""
    name = origin.split(",")[0].split(" n=")[0]
    return name.removeprefix("family ").replace("_", " ") if name.startswith("family ") else name


def draw_slack(points: Sequence[SlackPoint]) -> Figure:
    """A row per family; left of 0 the bound is violated, at 0 it is met, at 1 it is far from mattering.

    Examples
    --------
    >>> points = [SlackPoint("lem:PL_ineq-full", "benign", -0.5), SlackPoint("fix:PL_ineq-any", "benign", 0.5)]
    >>> figure = draw_slack(points)
    >>> len(figure.axes[0].collections)  # needs the extra `plot`
    2
    """
    families = list(dict.fromkeys(point.family for point in points))
    bounds = list(dict.fromkeys(point.bound for point in points))
    figure = new_figure(9.5, 1.8 + 0.42 * max(len(families), 1))
    axes = figure.subplots()
    axes.axvspan(-1.08, -_ROUNDING, color="#dddddd", zorder=0, label="violated")
    axes.axvline(0.0, color="#000000", lw=1.0)
    for number, (bound, style) in enumerate(zip(bounds, SERIES * 4, strict=False)):
        shift = 0.6 * ((number + 0.5) / len(bounds) - 0.5)
        chosen = [point for point in points if point.bound == bound]
        look = {"facecolors": "none"} if style["marker"] != "x" else {}
        axes.scatter(
            [point.slack for point in chosen],
            [families.index(point.family) + shift for point in chosen],
            s=34, marker=style["marker"], linewidths=1.3, label=bound,
            **({"edgecolors": style["color"], **look} if look else {"color": style["color"]}),
        )  # fmt: skip
    axes.set_yticks(range(len(families)), labels=families)
    axes.set_ylim(len(families) - 0.5, -0.5)
    axes.set_xlim(-1.08, 1.08)
    axes.set_xlabel("slack: (large side - small side) / sum of both; 0 where the bound is met")
    axes.set_ylabel("family of instances")
    grid(axes)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
