"""Choosing the smallest scores, and knowing which choices rounding or tie order could have made otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array

__all__ = ["smallest", "undecided"]

_FEW = 8  # up to here comparing all pairs is faster than sorting


def smallest(scores: Array, count: int) -> NDArray[np.bool_]:
    """True at the `count` smallest scores along the last axis; of equal scores the lower index comes first.

    Examples
    --------
    >>> import numpy as np
    >>> smallest(np.array([3.0, 1.0, 1.0, 1.0]), 2)
    array([False,  True,  True, False])
    """
    if count == 0:
        return np.zeros(scores.shape, dtype=np.bool_)
    if scores.shape[-1] <= _FEW:
        return _ranks(scores) < count
    threshold = np.partition(scores, count - 1, axis=-1)[..., count - 1 : count]
    below, ties = scores < threshold, scores == threshold
    wanted = count - np.count_nonzero(below, axis=-1, keepdims=True)
    return np.asarray(below | (ties & (ties.cumsum(axis=-1) <= wanted)))


def _ranks(scores: Array) -> NDArray[np.intp]:
    """The place of every entry of a short last axis in its stable ascending order, by comparing all pairs."""
    size = scores.shape[-1]
    ranks = np.zeros(scores.shape, dtype=np.intp)
    for i in range(size):
        for j in range(i):
            later = scores[..., j] <= scores[..., i]
            ranks[..., i] += later
            ranks[..., j] += ~later
    return ranks


def undecided(scores: Array, spread: Array, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True where the choice of the smallest scores along the last axis could have gone otherwise.

    Each score is known up to +- its `spread`. A chosen entry is undecided if its interval reaches that of some entry
    that was kept, and the other way round; equal scores always are, as their order is a convention.

    Examples
    --------
    >>> scores = np.array([1.0, 2.0, 2.1, 4.0])
    >>> undecided(scores, 0.1 * np.ones(4), smallest(scores, 2))
    array([False,  True,  True, False])
    """
    low, high = scores - spread, scores + spread
    least_kept = np.min(np.where(chosen, np.inf, low), axis=-1, keepdims=True)
    most_chosen = np.max(np.where(chosen, high, -np.inf), axis=-1, keepdims=True)
    return np.asarray(np.where(chosen, high >= least_kept, low <= most_chosen))
