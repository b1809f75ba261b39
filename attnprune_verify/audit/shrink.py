"""The smallest instance that still fails: Hypothesis drops tokens and features, rounds numbers, empties the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from attnprune_verify.audit.cases import Case

__all__ = ["shrunk"]

_CALLS = 150
_SECONDS = 3.0
_DIGITS = (0, 1, 2, 17)


class _Enough(Exception):
    """The budget is spent."""


@st.composite
def _reductions(draw: st.DrawFn, case: Case) -> Case:
    """The case with fewer tokens and features, rounder numbers, less regularisation, perhaps no mask."""
    n, d = draw(st.integers(1, case.n)), draw(st.integers(1, case.d))
    m = draw(st.integers(1, min(d + 1, case.W_Q.shape[1])))
    digits = draw(st.sampled_from(_DIGITS))
    lam = draw(st.sampled_from(sorted({0.0, 1.0, case.lam})))
    mask = None if case.mask is None or not draw(st.booleans()) else case.mask[:n, :n].copy()
    if mask is not None:
        mask[mask.sum(axis=1) == 0, 0] = 1.0

    def cut(array: Any, rows: int, columns: int) -> Any:
        return np.round(array[..., :rows, :columns], digits)

    return case.changed(
        name="smallest found",
        X=cut(case.X, n, d),
        **{name: cut(getattr(case, name), d, d) for name in ("W", "M", "V")},
        **{name: cut(getattr(case, name), d, m) for name in ("W_Q", "W_K", "M_Q", "M_K")},
        lam=lam,
        mask=mask,
    )


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A smallest reduction of `case` on which `fails` is true; `case` itself if none is found."""
    best = case
    calls = 0
    start = time.monotonic()

    def predicate(reduced: Case) -> bool:
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
        find(_reductions(case), predicate, settings=quiet)
    except (_Enough, HypothesisException):
        pass
    return best


def _size(case: Case) -> tuple[float, int]:
    """Fewer numbers first, then shorter ones."""
    arrays = (case.X, case.W, case.M)
    return case.work, sum(len(f"{number:.17g}") for array in arrays for number in array.flat) + 5 * (
        case.mask is not None
    )
