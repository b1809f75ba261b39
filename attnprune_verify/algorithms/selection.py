"""Choosing the smallest scores, and knowing which choices rounding or tie order could have made otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array

__all__ = ["smallest", "undecided"]


def smallest(scores: Array, count: int) -> NDArray[np.bool_]:
    """True at the `count` smallest scores along the last axis; of equal scores the lower index comes first.

    Examples
    --------
    >>> import numpy as np
    >>> smallest(np.array([3.0, 1.0, 1.0, 1.0]), 2)
    array([False,  True,  True, False])
    """
    chosen = np.zeros(scores.shape, dtype=np.bool_)
    order = np.argsort(scores, axis=-1, kind="stable")[..., :count]
    np.put_along_axis(chosen, order, True, axis=-1)
    return chosen


def undecided(scores: Array, count: int, tolerance: float) -> NDArray[np.bool_]:
    """True where another correct program could choose differently among the `count` smallest non-negative scores.

    Such entries lie within the relative `tolerance` of the cut between the chosen and the kept, on either side of
    it; if the two scores next to the cut are further apart than that, every entry is decided.
    """
    size = scores.shape[-1]
    if not 0 < count < size:
        return np.zeros(scores.shape, dtype=np.bool_)
    edges = np.partition(scores, (count - 1, count), axis=-1)
    last_in, first_out = edges[..., count - 1, None], edges[..., count, None]
    open_cut = first_out - last_in <= tolerance * first_out
    near = (scores >= first_out * (1 - tolerance)) & (scores <= last_in * (1 + tolerance))
    return np.asarray(open_cut & near)
