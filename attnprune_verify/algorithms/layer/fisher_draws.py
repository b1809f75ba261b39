"""Sampling of calibration rows: how they are drawn, the estimate made from them, and its standard error.

Rows are drawn with probabilities pi_i, evenly along the sequences: t points (u + 0 .. t-1)/t, u uniform in [0, 1), each
taking the row in whose share of the total it falls. Row i is expected t pi_i times, so

    sum_i Y_i   is estimated without bias by   sum over the drawn rows of Y_i / (t pi_i)

whatever the Y_i, if pi_i > 0 wherever Y_i is not 0. Points are dealt out at random to some groups, neighbours to
different ones: each group alone gives an estimate, and the spread of these estimates gives the standard error. The
spread overstates the error, because the evenly spaced points of all groups together do better than independent ones.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.scores import modify
from attnprune_verify.instance.validate import Array

GROUPS = 8  # chosen: a spread of 8 estimates is known to 1/sqrt(2 (8 - 1)), about a quarter


class Drawn(NamedTuple):
    """Rows of one sample, in order; `weights` (groups, rows) is 1 / (t pi_i) for each time a group drew the row."""

    rows: NDArray[np.intp]
    weights: Array


@dataclass(frozen=True)
class Estimate:
    """An estimate of a sum over all rows, the mean of independent ones.

    Attributes
    ----------
    value : (heads, m, m) array
    error : (heads,) array
        Standard error in the Frobenius norm, relative to that of `value`; an estimate itself.
    operations : float
        Of the matrix products behind it.
    """

    value: Array
    error: Array
    operations: float


def importance(shares: Array, size: Array) -> Array:
    """Return the probability of drawing each token, (k, n), from its shares >= 0, (k, heads, n), of the heads' sums.

    Nine tenths follow the mean share over the heads, one tenth follows size = |x_i|^2, so that no token is left out.
    """
    of_heads = shares.sum(axis=(0, 2), keepdims=True)
    mean = np.divide(shares, of_heads, out=np.zeros_like(shares), where=of_heads > 0).mean(axis=1)
    whole = size.sum()
    even = size / whole if whole > 0 else np.full(size.shape, 1 / size.size)
    return np.asarray(0.9 * mean + 0.1 * even)


def draw_rows(likely: Array, rows: int, rng: np.random.Generator, groups: int = GROUPS) -> list[Drawn]:
    """Draw about `rows` of the (k, n) tokens, listed by sample; all of them if there are no more."""
    k, n = likely.shape
    points = groups * max(1, math.ceil(rows / groups))
    flat, start = likely.ravel() / likely.sum(), rng.random()
    order = rng.permuted(np.tile(np.arange(groups), (points // groups, 1)), axis=1).ravel()
    if rows >= flat.size:
        at, weights = np.arange(flat.size), np.ones(flat.size)
        order = np.resize(order, flat.size)
    else:
        edges = np.cumsum(flat)
        at = np.searchsorted(edges, (start + np.arange(points)) / points * edges[-1], side="right")
        at = np.minimum(at, np.flatnonzero(flat)[-1])
        weights = 1 / (points * flat[at])
    dealt = np.zeros((groups, flat.size))
    np.add.at(dealt, (order, at), groups * weights)
    return [_of_sample(each) for each in dealt.reshape(groups, k, n).swapaxes(0, 1)]


def _of_sample(weights: Array) -> Drawn:
    rows = np.flatnonzero(weights.any(axis=0))
    return Drawn(rows, weights[:, rows])


def estimate_of(groups: Array, operations: float) -> Estimate:
    """(groups, heads, m, m) -> their mean, and how much they differ."""
    count = len(groups)
    value = groups.mean(axis=0)
    spread = np.square(groups - value).sum(axis=(0, 2, 3)) / max(1, count - 1) / count
    norm = np.square(value).sum(axis=(1, 2))
    error = np.sqrt(np.divide(spread, norm, out=np.zeros_like(spread), where=norm > 0))
    return Estimate(value, error if count > 1 else np.full_like(error, np.inf), operations)


def attention_rows(data: Calibration, index: int, rows: NDArray[np.intp]) -> tuple[slice, Array, Array]:
    """Return, for some rows of one (sample, head), the columns that they see, and F * u' and F * u'^2 there."""
    n = data.n
    allowed = data.layer.visible.allows(rows[:, np.newaxis], np.arange(n))
    seen = np.flatnonzero(allowed.any(axis=0))
    columns = slice(int(seen[0]), int(seen[-1]) + 1)
    scores = data.queries[index, rows] @ data.keys[index, columns].T
    modifiers = [modifier.of_head(index % data.layer.heads) for modifier in data.layer.modifiers]
    slope: Array | None = None
    if modifiers:
        slope = np.ones_like(scores)
        for number, row in enumerate(rows):  # modifiers know blocks of neighbouring rows only
            place = RowBlock(slice(int(row), int(row) + 1), columns, None)
            bend = modify(modifiers, scores[np.newaxis, number : number + 1], place)
            if bend is not None:
                slope[number] = bend.slope[0, 0]
    scores[~np.broadcast_to(allowed, (len(rows), n))[:, columns]] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    F = np.exp(scores, out=scores)
    F /= F.sum(axis=1, keepdims=True)
    first = F if slope is None else F * slope
    return columns, first, first if slope is None else first * slope
