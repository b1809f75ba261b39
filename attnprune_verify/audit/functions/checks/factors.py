"""Experiments on masks of baselines: do factors over rows or over columns of the scores select these entries?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
_SURE = 1e-9  # of logarithms of scores: nearer ones may be equal up to rounding


def selected_by(sizes: NDArray[Any], gone: Flags) -> tuple[str, ...]:
    """Return the name of a mask that takes the smallest of every row, or of every column, where one order was meant.

    A free factor a row makes any threshold a row; the counts tell whether the thresholds are those of equal counts.

    Examples
    --------
    >>> sizes = np.array([[1.0, 2.0, 3.0], [40.0, 50.0, 60.0], [7.0, 9.0, 8.0]])
    >>> selected_by(sizes, sizes <= np.array([[1.0], [40.0], [7.0]])), selected_by(sizes, sizes % 2 == 0)
    (('baseline-global-threshold',), ())
    """
    for one, flags in ((sizes, gone), (sizes.T, gone.T)):
        if _smallest_of_rows(one, flags):
            equal = len(set(flags.sum(axis=1).tolist())) == 1
            return ("baseline-global-threshold",) if equal else ("baseline-score",)
    return ()


def _smallest_of_rows(sizes: NDArray[Any], gone: Flags) -> bool:
    largest = np.where(gone, sizes, -np.inf).max(axis=1)
    return bool((largest <= np.where(gone, np.inf, sizes).min(axis=1)).all())


def by_columns(scores: NDArray[np.float64], gone: Flags, width: int) -> tuple[str, ...]:
    """Return "baseline-score" of a mask that factors over columns explain, and the scores alone do not.

    In each group of `width` neighbours x_j + log S_ij <= x_k + log S_ik for all pruned j and kept k, whose solvability
    the shortest paths tell.

    Examples
    --------
    >>> scores = np.random.default_rng(0).uniform(0.1, 1, (6, 4))
    >>> by_columns(scores, scores * [1, 5, 1, 9] < np.median(scores * [1, 5, 1, 9], axis=1, keepdims=True), 4)
    ('baseline-score',)
    >>> by_columns(scores, scores < np.median(scores, axis=1, keepdims=True), 4)
    ()
    """
    logs, other = np.log(np.maximum(scores, 1e-300)), False
    for a in range(0, scores.shape[1], width):
        part, flags = logs[:, a : a + width], gone[:, a : a + width]
        pairs = ~flags[:, :, np.newaxis] & flags[:, np.newaxis, :]
        gaps = np.where(pairs, part[:, :, np.newaxis] - part[:, np.newaxis, :], np.inf).min(axis=0)
        other |= bool((gaps < -_SURE).any())
        for middle in range(part.shape[1]):
            gaps = np.minimum(gaps, gaps[:, [middle]] + gaps[[middle]])
        if (np.diag(gaps) < -_SURE).any():
            return ()
    return ("baseline-score",) if other else ()
