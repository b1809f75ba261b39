"""The smallest instance that still fails: Hypothesis drops tokens and features, rounds numbers, empties the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from attnprune_verify.audit.truth.samples import Sample

__all__ = ["shrunk"]

_CALLS = 90
_SECONDS = 3.0
_DIGITS = (0, 1, 2, 17)


class _Enough(Exception):
    """The budget is spent."""


@st.composite
def _reductions(draw: st.DrawFn, sample: Sample) -> Sample:
    """The sample with fewer tokens and features, rounder numbers, less regularisation, perhaps no mask."""
    n, d = draw(st.integers(1, sample.n)), draw(st.integers(1, sample.d))
    m = draw(st.integers(1, min(d + 1, sample.W_Q.shape[1])))
    digits = draw(st.sampled_from(_DIGITS))
    lam = draw(st.sampled_from(sorted({0.0, 1.0, sample.lam})))
    mask = None if sample.mask is None or not draw(st.booleans()) else sample.mask[:n, :n].copy()
    if mask is not None:
        mask[mask.sum(axis=1) == 0, 0] = 1.0

    def cut(array: Any, rows: int, columns: int) -> Any:
        return np.round(array[..., :rows, :columns], digits)

    return sample.changed(
        name="smallest found",
        X=cut(sample.X, n, d),
        **{name: cut(getattr(sample, name), d, d) for name in ("W", "M", "V")},
        **{name: cut(getattr(sample, name), d, m) for name in ("W_Q", "W_K", "M_Q", "M_K")},
        lam=lam,
        mask=mask,
    ).exact()


def shrunk(sample: Sample, fails: Callable[[Sample], bool]) -> Sample:
    """A smallest reduction of `sample` on which `fails` is true; `sample` itself if none is found."""
    best = sample
    calls = 0
    start = time.monotonic()

    def predicate(reduced: Sample) -> bool:
        nonlocal best, calls
        calls += 1
        if calls > _CALLS or time.monotonic() - start > _SECONDS:
            raise _Enough
        if not fails(reduced):
            return False
        if _size(reduced) <= _size(best):
            best = reduced
        return True

    quiet = settings(
        max_examples=_CALLS,
        database=None,
        deadline=None,
        derandomize=True,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        find(_reductions(sample), predicate, settings=quiet)
    except (_Enough, HypothesisException):
        pass
    return best


def _size(sample: Sample) -> tuple[float, int]:
    """Fewer numbers first, then shorter ones."""
    arrays = (sample.X, sample.W, sample.M)
    return sample.work, sum(len(f"{number:.17g}") for array in arrays for number in array.flat) + 5 * (
        sample.mask is not None
    )
