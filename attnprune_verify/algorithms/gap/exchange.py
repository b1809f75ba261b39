"""Masks of 0 and 1 near a relaxed one: rounded, then improved by exchanges of a kept and a pruned entry.

Around a mask the divergence is nearly g^T d + d^T H d / 2. Exchanges that lower this model most are made one after
another; as many of them as lower the divergence itself are kept, and the model is set up again.
"""

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.gap.one_map import OneMap
from attnprune_verify.instance.validate import Array

_CANDIDATES = 512
"""Entries of either kind in a model, the cheapest to exchange: all of them up to maps of 1024 entries."""


def rounded(scores: Array, ones: int) -> Array:
    """1 at the largest scores, the lower index first among equal ones."""
    mask = np.zeros(scores.size)
    mask[np.argsort(-scores.ravel(), kind="stable")[:ones]] = 1.0
    return mask.reshape(scores.shape)


_NOTHING = 1e-12
"""Share of the largest curvature below which a gain by the model is rounding: chosen, between 1e-16 and a gain."""


def improved(divergence: OneMap, mask: Array, columns: int) -> tuple[Array, float, int]:
    """The mask after exchanges, its divergence, and how many of the `columns` of Hessians are left."""
    value = divergence.value(mask)
    while columns > 1 and 0 < mask.sum() < mask.size:
        at = divergence.curved(mask)
        kept, pruned = _cheapest(divergence, mask, at.gradient, columns)
        places = np.concatenate([kept, pruned])
        columns -= len(places)
        hessian = np.empty((len(places), len(places)))
        for column, place in enumerate(places):
            unit = np.zeros(mask.size)
            unit[place] = 1.0
            hessian[:, column] = divergence.product(at, unit.reshape(mask.shape)).ravel()[places]
        path = _exchanges(at.gradient.ravel()[places], hessian, len(kept))
        after, lower = _as_far_as_it_helps(divergence, mask, value, [(places[a], places[b]) for a, b in path])
        if not lower < value:
            break
        mask, value = after, lower
    return mask, value, columns


def _cheapest(
    divergence: OneMap, mask: Array, gradient: Array, columns: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The kept and the pruned entries whose change alone costs least, by the gradient and about the curvature."""
    change = np.where(mask == 1, -1.0, 1.0)
    cost = (change * gradient + divergence.scale(mask) / 2).ravel()
    most = min(_CANDIDATES, max(columns // 2, 1))
    order = np.argsort(cost, kind="stable")
    of_kept = mask.ravel()[order] == 1
    return order[of_kept][:most], order[~of_kept][:most]


def _exchanges(gradient: Array, hessian: Array, kept: int) -> list[tuple[int, int]]:
    """The best exchange by the model, again and again while one lowers it; what was pruned may be kept again."""
    g, half = gradient.copy(), hessian.diagonal() / 2
    on = np.arange(len(g)) < kept
    path: list[tuple[int, int]] = []
    while len(path) < len(g) and 0 < on.sum() < len(on):
        leaving, entering = np.flatnonzero(on), np.flatnonzero(~on)
        change = (half[leaving] - g[leaving])[:, np.newaxis] + (half[entering] + g[entering])
        change -= hessian[np.ix_(leaving, entering)]
        row, column = divmod(int(change.argmin()), len(entering))
        if not change[row, column] < -_NOTHING * half.max():
            break
        a, b = int(leaving[row]), int(entering[column])
        path.append((a, b))
        on[a], on[b] = False, True
        g += hessian[:, b] - hessian[:, a]
    return path


def _as_far_as_it_helps(
    divergence: OneMap, mask: Array, value: float, path: list[tuple[int, int]]
) -> tuple[Array, float]:
    """All exchanges of the path, or half of them, or a quarter, ...: the first that lower the divergence."""
    count = len(path)
    while count:
        after = mask.copy().ravel()
        for leaving, entering in path[:count]:
            after[leaving], after[entering] = 0.0, 1.0
        lower = divergence.value(after.reshape(mask.shape))
        if lower < value:
            return after.reshape(mask.shape), lower
        count //= 2
    return mask, value
