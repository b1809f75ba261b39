"""Intervals of what an honest kernel may return, entry by entry."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.truth.judge import allowed_entries
from attnprune_verify.audit.kernel.truth.truth import truth


def interval(part: str, sample: KernelSample) -> tuple[Array, Array]:
    """Return the lowest and the highest that an entry may be: the truth, its radius and what the audit allows there.

    Outwards to the next float64, so that no honest answer is lost by the ends' own rounding.

    Examples
    --------
    >>> from attnprune_verify.audit.kernel.problem.regimes import regimes
    >>> sample = regimes(0, "float32")["plain"].samples[0]
    >>> low, high = interval("o", sample)
    >>> bool((low < high).all())
    True
    """
    true = truth(sample)[part]
    width = true.radius + allowed_entries(part, sample)
    return np.nextafter(true.value - width, -np.inf), np.nextafter(true.value + width, np.inf)
