"""Errors as functions of lam, n or rho, over seeds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.experiments.paired import UNTESTED, Doubts, all_of


@dataclass(frozen=True)
class Curve:
    """Errors over an axis.

    Attributes
    ----------
    axis : tuple of float
        Ascending.
    values : (len(axis), seeds) array
    """

    axis: tuple[float, ...]
    values: NDArray[np.float64]

    def at(self, position: float) -> NDArray[np.float64]:
        """The errors of all seeds at one point of the axis."""
        return np.asarray(self.values[self.axis.index(position)])

    @property
    def mean(self) -> NDArray[np.float64]:
        return np.asarray(self.values.mean(axis=1))

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation over seeds; 0 for a single one."""
        return np.asarray(self.values.std(axis=1, ddof=1 if self.values.shape[1] > 1 else 0))

    def text(self, only: float | None = None) -> str:
        """Return the means as text; the one at a position, where it is given."""
        points = [point for point in zip(self.axis, self.mean, strict=True) if only in (None, point[0])]
        return ", ".join(f"{position:g}: {value:.3f}" for position, value in points)


def curve(rows: Iterable[Mapping[str, Any]], axis: str, measure: str = "in_mean", **fixed: Any) -> Curve | None:
    """`measure` over `axis` for the rows whose entries are `fixed`; points that some seed lacks are left out."""
    found: dict[float, dict[int, float]] = {}
    wanted = fixed.items()
    for row in rows:
        if wanted <= row.items():
            found.setdefault(row[axis], {})[row["seed"]] = row[measure]
    seeds = sorted(set().union(*found.values())) if found else []
    positions = tuple(sorted(position for position, values in found.items() if len(values) == len(seeds)))
    if not positions:
        return None
    return Curve(positions, np.array([[found[position][seed] for seed in seeds] for position in positions]))


def pairs(first: Curve, second: Curve, judge: Callable[[NDArray[np.float64], NDArray[np.float64]], Doubts]) -> Doubts:
    """`judge` at every point that both curves have; untested where they have none."""
    common = [position for position in first.axis if position in second.axis]
    return all_of(judge(first.at(position), second.at(position)) for position in common) if common else UNTESTED
