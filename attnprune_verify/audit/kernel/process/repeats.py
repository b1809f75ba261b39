"""Repeat one call many times in the subject's process, and keep the result furthest from the first."""

from __future__ import annotations

import time

import numpy as np

from attnprune_verify.audit.kernel.typing import Deferred, Foreign

__all__ = ["repeated"]


def repeated(once: Deferred, times: int = 1, seconds: float = 0.0) -> Foreign:
    """Call so often, and return the answer that is furthest from the first one, or the first if all are equal.

    Parameters
    ----------
    once : callable
        Returns a mapping of arrays, or something that holds no numbers, which is returned at once.
    times, seconds : int, float
        So many calls, as far as so much processor time reaches.

    Returns
    -------
    dict
        That answer, and under "repeats" how many calls were made and how many differ from the first in a bit.
    """
    first = once()
    if not isinstance(first, dict):
        return first
    start, found, furthest, made, other = time.process_time(), first, 0.0, 1, 0
    while made < times and time.process_time() - start < seconds:
        again = once()
        made += 1
        if not isinstance(again, dict):
            return again
        gap = max(_gap(first[name], again[name]) for name in first if name != "changed")
        other += gap > 0
        if gap > furthest:
            found, furthest = again, gap
    return {**found, "repeats": np.array([float(made), float(other)])}


def _gap(one: Foreign, two: Foreign) -> float:
    """The largest distance of two arrays that are not equal to the bit, at least the smallest number; else 0."""
    if one.shape != two.shape:
        return np.inf
    if one.tobytes() == two.tobytes():
        return 0.0
    with np.errstate(invalid="ignore"):
        distance = float(np.max(np.nan_to_num(np.abs(one - two), nan=np.inf)))
    return max(distance, float(np.finfo(float).tiny))
