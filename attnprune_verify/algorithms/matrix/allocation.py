"""Division of a total number of zeros among matrices, from what pruning each of them costs."""

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_ratio

Name = TypeVar("Name")

GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Ratios at which damage is measured; chosen: as many as a small model affords, denser where all curves rise."""
FINE = tuple(i / 40 for i in range(1, 39))
"""Ratios, up to 0.95, at which a law is followed; chosen: so many that shares do not gather at them."""
_POWER = 2
"""Chosen: of 1.5, 2 and 3 the one with the least KL: 0.286, 0.272, 0.277 of SparseGPT's, mean over a small Qwen2 at 0.5
and 0.7, two draws each (the model of `python benchmarks/headline.py`)."""
_LEAST_AT, _MOST_AT = 0.1, 0.9
"""Chosen: closer to 0 and 1 one map's damage is lost in rounding, or is all there is to lose."""


def allocate(
    curves: Mapping[Name, Sequence[float]],
    sizes: Mapping[Name, int],
    rho: float,
    *,
    grid: Sequence[float] = GRID,
    held: Collection[Name] = (),
    least: float = 0.0,
    most: float = 0.95,
) -> dict[Name, Fraction]:
    """Ratios for the least sum of the matrices' damage, with exactly ``floor(rho * size)`` zeros in all.

    Each curve, joined to (0, 0), is replaced by its greatest convex minorant: what is flat at first and rises then. On
    convex curves the least sum takes the cheapest pieces first, whichever matrix they belong to.

    Parameters
    ----------
    curves : mapping of name to sequence
        Damage (any common unit) at the ratios of `grid` when this matrix alone is pruned.
    sizes : mapping of name to int
        Weights of every matrix.
    rho : float
        Ratio over all matrices together, held ones included.
    grid : sequence of float
        Increasing, in (0, 1].
    held : collection of names
        Matrices that are pruned by `rho` itself, whatever their curve.
    least, most : float
        Bounds of every other ratio; `rho` must lie between them.

    Returns
    -------
    dict of name to Fraction
        zeros / size.

    Raises
    ------
    InvalidInstance
        If names or lengths disagree, a damage is negative or not finite, or the bounds do not enclose rho.

    Examples
    --------
    >>> curves = {"idle": [0.0, 0.0], "busy": [1.0, 9.0]}
    >>> shares = allocate(curves, {"idle": 10, "busy": 10}, 0.6, grid=(0.5, 1.0), most=1.0)
    >>> {name: str(share) for name, share in shares.items()}
    {'idle': '1', 'busy': '1/5'}
    """
    ratio = _checked(curves, sizes, rho, grid, least, most)
    zeros = {name: pruned_count(ratio, sizes[name]) for name in held}
    free = {name: curve for name, curve in curves.items() if name not in zeros}
    zeros |= {name: int(np.ceil(least * sizes[name])) for name in free}
    pieces = [piece for name, curve in free.items() for piece in _pieces(name, curve, sizes[name], grid, least, most)]
    wanted = pruned_count(ratio, sum(sizes.values())) - sum(zeros.values())
    for _, name, count in sorted(pieces, key=lambda piece: piece[0]):
        taken = min(count, wanted)
        zeros[name] += taken
        wanted -= taken
    return {name: Fraction(zeros[name], sizes[name]) for name in curves}


def measured_at(rho: float) -> float:
    """The ratio at which every matrix's damage is measured for a budget of `rho`."""
    return min(max(rho, _LEAST_AT), _MOST_AT)


def curve_through(damage: float, rho: float) -> list[float]:
    """Damage at the ratios of `FINE`, from one measurement at `rho`, for ``allocate``.

    ::

        damage(r) = damage (r / (1 - r))^2 / (rho / (1 - rho))^2

    Little is lost at first, since the least important weights go first, and ever more of what is left. Where r is small
    the square is that of the weights' change; all matrices having the same law, its constant decides.

    Examples
    --------
    >>> [round(one, 2) for one in curve_through(1.0, 0.5)][17:22]
    [0.67, 0.82, 1.0, 1.22, 1.49]
    """
    unit = (rho / (1 - rho)) ** _POWER
    return [max(damage, 0.0) * (r / (1 - r)) ** _POWER / unit for r in FINE]


def _pieces(
    name: Name, curve: Sequence[float], size: int, grid: Sequence[float], least: float, most: float
) -> list[tuple[float, Name, int]]:
    """(damage per zero, name, zeros) of the pieces of the convex minorant, from `least` to `most`."""
    ratios, damage = _convex_minorant(np.array([0.0, *grid]), np.array([0.0, *curve]))
    slopes = np.diff(damage) / np.diff(ratios)
    ends = np.clip(ratios, least, most)
    ends[-1] = most  # beyond the grid the last slope goes on
    first = int(np.ceil(least * size))
    counts = np.diff([first, *(max(first, int(end * size)) for end in ends[1:])])
    return [(float(slope) / size, name, int(count)) for slope, count in zip(slopes, counts, strict=True) if count > 0]


def _convex_minorant(x: Array, y: Array) -> tuple[Array, Array]:
    """The corners of the greatest convex function below the points (the lower hull, from left to right)."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) <= (y[i] - y[a]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return x[corners], y[corners]


def _checked(
    curves: Mapping[Name, Sequence[float]],
    sizes: Mapping[Name, int],
    rho: float,
    grid: Sequence[float],
    least: float,
    most: float,
) -> float:
    ratio, low, high = as_ratio(rho), as_ratio(least, "least"), as_ratio(most, "most")
    if not low <= ratio <= high:
        raise InvalidInstance(f"rho must lie between the bounds of a matrix's ratio; got {ratio} and {low} to {high}")
    if set(curves) != set(sizes):
        raise InvalidInstance(f"curves and sizes must have the same names; got {len(curves)} and {len(sizes)}")
    for name, curve in curves.items():
        if len(curve) != len(grid) or not all(np.isfinite(value) and value >= 0 for value in curve):
            raise InvalidInstance(f"a curve must hold {len(grid)} finite numbers >= 0; got {list(curve)} for {name}")
    return ratio
