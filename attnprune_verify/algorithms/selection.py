"""Choosing the smallest scores, and knowing which choices rounding or tie order could have made otherwise."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.arrays import AnyArray, is_numpy_array, xp_of, zeros_like
from attnprune_verify.instance.validate import Array

FEW = 8  # up to here comparing all pairs is faster than sorting
_MANY = 2**20  # from here on a sample finds the threshold's neighbourhood faster than a partition of everything
_SAMPLE = 2**14  # drawn at even distances: its quantiles err by about half a hundredth of the ranks
_MARGIN = 0.03  # of the ranks: six such errors


def smallest(scores: AnyArray, count: int) -> AnyArray:
    """Return True at the `count` smallest scores along the last axis; of equal scores the lower index comes first.

    Examples
    --------
    >>> import numpy as np
    >>> smallest(np.array([3.0, 1.0, 1.0, 1.0]), 2)
    array([False,  True,  True, False])
    """
    xp, length = xp_of(scores), scores.shape[-1]
    if count == 0:
        return zeros_like(scores.shape, scores, xp.bool)
    if length <= FEW:
        return xp.stack(smallest_of([scores[..., i] for i in range(length)], count), axis=-1)
    threshold = _ranked(scores, count)
    chosen = scores <= threshold
    if bool(xp.all(xp.count_nonzero(chosen, axis=-1) == count)):
        return chosen
    below, ties = scores < threshold, scores == threshold
    wanted = count - xp.count_nonzero(below, axis=-1, keepdims=True)
    places = xp.cumulative_sum(xp.astype(ties, xp.int64), axis=-1)
    return below | (ties & (places <= wanted))


def smallest_of(parts: Sequence[AnyArray], count: int) -> list[AnyArray]:
    """Mark where each of a few arrays is among the `count` smallest at its place; ties as in `smallest`."""
    xp = xp_of(*parts)
    before = [[xp.astype(one <= other, xp.int8) for other in parts[i + 1 :]] for i, one in enumerate(parts)]
    masks = []
    for i in range(len(parts)):
        rank = sum((1 - later for later in before[i]), start=xp.zeros_like(parts[i], dtype=xp.int8))
        masks.append(sum((before[j][i - j - 1] for j in range(i)), start=rank) < count)
    return masks


def _ranked(scores: AnyArray, count: int) -> AnyArray:
    """The count-th smallest score along the last axis, which is kept."""
    if is_numpy_array(scores):
        found = _from_sample(scores, count) if scores.ndim == 1 and scores.size >= _MANY else None
        return np.partition(scores, count - 1, axis=-1)[..., count - 1 : count] if found is None else found
    xp = xp_of(scores)
    if hasattr(xp, "kthvalue"):  # torch: no sorting
        return xp.kthvalue(scores, count, dim=-1, keepdim=True).values
    return xp.sort(scores, axis=-1)[..., count - 1 : count]


def _from_sample(scores: Array, count: int) -> Array | None:
    """Select by the scores between two quantiles of a sample; None if the threshold is not between them."""
    sample = np.sort(scores[:: scores.size // _SAMPLE])
    low, high = (int((count / scores.size + side) * len(sample)) for side in (-_MARGIN, _MARGIN))
    least = sample[low] if low >= 0 else -np.inf
    most = sample[high] if high < len(sample) else np.inf
    inside = (scores >= least) & (scores <= most)
    rank = count - 1 - int(np.count_nonzero(scores < least))
    middle = scores[inside]
    if not 0 <= rank < len(middle):
        return None
    middle.partition(rank)
    return middle[rank : rank + 1]


def undecided(scores: Array, spread: Array, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return True where another choice of the smallest scores along the last axis is possible.

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
