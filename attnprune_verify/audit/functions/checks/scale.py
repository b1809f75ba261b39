"""Checks of sizes past the usual blocks, and of errors that only some inputs show.

The truth is the library's own float64 result here, which the oracles judge elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.checks.smaller import check, failed_on, wrong_already
from attnprune_verify.audit.functions.context import MOST_CALLS, Context
from attnprune_verify.audit.functions.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.functions.truth.reference import rounding_bounds, trusted
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.functions.truth.samples_for import large_ones, random_one
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import SubjectLost

_MOST_SECONDS = 5.0  # predicted, of one call
_RARE, _FEWEST = 40, 20  # chosen: instances of a rare error, which see an error on 7 % or 14 % of them
_LEFT = 65  # calls: a tenth of the 300 that are allowed, and those of the checks that come later
_SEEN = 0.95  # chosen: the usual level


def scale_checks(function: str) -> Iterator[Check]:
    """Large sizes and rare errors, for the functions with values."""
    seen = f"an error on {_rate(_FEWEST):.1%} to {_rate(_RARE):.1%} of them is seen with probability {_SEEN:.0%}"
    yield check(function, "rare-errors", f"right on {_FEWEST} to {_RARE} random instances: {seen}", _rare)
    yield check(function, "values:sizes", "right values up to n = 1100 and d = 1100", _sizes)


def _rate(count: int) -> float:
    """The error rate that this number of random instances misses with probability 1 - _SEEN."""
    return 1 - float((1 - _SEEN) ** (1 / count))


def _rare(context: Context, function: str) -> Finding:
    wrong = wrong_already(context, function)
    if wrong is not None:
        return wrong
    asked = 0
    fitted = (context.fitted(function, one) for one in _many(function, context.seed, context.precision(function)))
    left = max(_FEWEST, MOST_CALLS - context.of(function).calls - _LEFT)
    for sample in islice((one for one in fitted if one is not None), left):
        answer = context.ask(function, sample)
        problem = context.misshapen(function, sample, answer)
        if problem is None:
            bounds = rounding_bounds(function, sample)
            truth = _float64(function, sample)
            for part, true, bound in zip(answer.parts, truth, bounds, strict=True):
                with np.errstate(invalid="ignore"):
                    gap = np.abs(part.astype(float) - true)
                if not np.all(gap <= 2 * bound + 4 * sample.unit_roundoff * np.abs(true)):
                    problem = f"off by {np.max(gap):.3g} where rounding explains {np.max(bound):.3g}"
        if problem is not None:
            found = failed_on(function, sample, problem, samples=(sample,))
            return replace(found, reason=f"{found.reason}, after {asked} random instances without")
        asked += 1
    rate = f"an error on {_rate(max(asked, 1)):.1%} of such would have been seen with probability {_SEEN:.0%}"
    return Finding("passed", f"{asked} instances; {rate}")


@lru_cache(maxsize=4)
def _many(function: str, seed: int, precision: Precision) -> tuple[Sample, ...]:
    return tuple(random_one(function, seed, index, precision) for index in range(_RARE))


def _float64(function: str, sample: Sample) -> tuple[NDArray[np.float64], ...]:
    key = ("float64", function)
    if key not in sample.memo:
        sample.memo[key] = trusted(function, sample.changed(precision=FLOAT64))
    found: tuple[NDArray[np.float64], ...] = sample.memo[key]
    return found


def _sizes(context: Context, function: str) -> Finding:
    wrong = wrong_already(context, function)
    if wrong is not None:
        return wrong
    left, judged = "", []
    for sample in large_ones(function, context.seed, context.precision(function)):
        fitted = context.fitted(function, sample)
        if fitted is None or not sample.precision.holds(*sample.largest):
            continue
        predicted = context.predicted(function, fitted)
        if predicted > _MOST_SECONDS:
            left = f"; left out n = {sample.n}, d = {sample.d}, which would take {predicted:.0f} s"
            continue
        try:
            answer = context.ask(function, fitted)
        except SubjectLost as lost:
            if not lost.hung:
                raise
            left = f"; n = {sample.n}, d = {sample.d} {lost}"
            context.of(function).spared = f"its call with n = {sample.n}, d = {sample.d} {lost}; it is not called again"
            break
        problem = context.misshapen(function, fitted, answer) or _off(function, fitted, answer.parts)
        if problem is not None:
            return failed_on(function, fitted, problem)
        judged.append((sample.n, sample.d))
        context.judged_up_to(function, sample)
    if not judged:
        return Finding("not_applicable", f"nothing above n = 64 can be tried{left}")
    return Finding("passed", f"{', '.join(f'n = {n}, d = {d}' for n, d in judged)}{left}")


def _off(function: str, sample: Sample, parts: tuple[NDArray[Any], ...]) -> str | None:
    """Normwise: benign logits, so that honest code loses a few units per addition; a wrong block is far more."""
    room = 64 * max(sample.unit_roundoff, 2.0**-53) * max(sample.n, sample.d)
    for part, true in zip(parts, _float64(function, sample), strict=True):
        size = float(np.linalg.norm(true))
        gap = float(np.linalg.norm(part.astype(float) - true))
        if not gap <= min(room, 0.1) * size:
            return f"off by {gap / size:.2g} of the norm, where rounding explains {min(room, 0.1):.2g}"
    return None
