"""Paired tests over a few seeds, with a known error probability, combined and corrected for their number.

Two errors measured on the same seeds are compared by Student's paired t test, with one degree of freedom less than
there are seeds; the test is exact for normal differences. Every proposition gets two p-values, one against it and one
against its negation. Holm's rule decides several readings together: the probability that any verdict is wrong is at
most `LEVEL`, however the readings depend on each other.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

Truth = bool | None
"""True, False, or None where the seeds leave it open."""

LEVEL = 0.05
"""The probability that any verdict of one family is wrong, at most."""

RULE = f"paired t over seeds, Holm over all readings: any verdict wrong with probability {LEVEL:g} at most"


class Doubts(NamedTuple):
    """Two p-values of a proposition; a small `yes` supports it, a small `no` refutes it.

    Attributes
    ----------
    yes : float
        If the proposition is false: probability, at most, of seeds that support it as clearly as these or more.
    no : float
        If the proposition is true: probability, at most, of seeds that oppose it as clearly as these or more.
    """

    yes: float
    no: float


UNTESTED = Doubts(1.0, 1.0)


def is_below(first: NDArray[np.float64], second: NDArray[np.float64], factor: float = 1.0) -> Doubts:
    """Test whether the mean of ``first`` is below that of ``factor * second``, seed by seed on the same data.

    The test is Student's t on the differences, with one degree of freedom less than there are seeds; a single seed
    decides nothing.

    Examples
    --------
    >>> found = is_below(np.array([1.0, 1.1, 1.0]), np.array([2.0, 2.2, 2.1]))
    >>> round(found.yes, 4), round(found.no, 4)
    (0.0005, 0.9995)
    >>> is_below(np.array([1.0]), np.array([2.0]))
    Doubts(yes=1.0, no=1.0)
    """
    difference = np.asarray(first - factor * second, dtype=np.float64)
    if difference.size < 2:
        return UNTESTED
    mean, error = float(difference.mean()), float(difference.std(ddof=1)) / math.sqrt(difference.size)
    if error == 0:
        return Doubts(*((0.0, 1.0) if mean < 0 else (1.0, 0.0) if mean > 0 else (1.0, 1.0)))
    return Doubts(*(float(stdtr(difference.size - 1, sign * mean / error)) for sign in (1, -1)))


def negated(one: Doubts) -> Doubts:
    """Return the p-values of the negation."""
    return Doubts(one.no, one.yes)


def all_of(tests: Iterable[Doubts]) -> Doubts:
    """Return p-values of "each holds": for it, the weakest one's; against it, the smallest, by Bonferroni's correction.

    Examples
    --------
    >>> all_of([Doubts(0.01, 0.99), Doubts(0.2, 0.8)])
    Doubts(yes=0.2, no=1.0)
    >>> all_of([])
    Doubts(yes=0.0, no=1.0)
    """
    found = list(tests)
    if not found:
        return Doubts(0.0, 1.0)
    return Doubts(max(one.yes for one in found), min(1.0, len(found) * min(one.no for one in found)))


def any_of(tests: Iterable[Doubts]) -> Doubts:
    """Return p-values of "at least one holds"."""
    return negated(all_of(map(negated, tests)))


def holm(probabilities: Sequence[float]) -> list[float]:
    """Holm's adjusted probabilities: rejecting those at most alpha errs anywhere with probability alpha at most.

    Source: Holm, A simple sequentially rejective multiple test procedure (1979).

    Examples
    --------
    >>> holm([0.01, 0.5, 0.02])
    [0.03, 0.5, 0.04]
    """
    adjusted, largest = [0.0] * len(probabilities), 0.0
    for rank, place in enumerate(sorted(range(len(probabilities)), key=lambda i: probabilities[i])):
        largest = max(largest, min(1.0, (len(probabilities) - rank) * probabilities[place]))
        adjusted[place] = largest
    return adjusted


def verdicts(family: Sequence[Doubts], level: float = LEVEL) -> list[Truth]:
    """Decide each proposition of a family: True, False or None; with probability <= `level` any verdict is wrong.

    Both ways to be wrong about every proposition are counted: twice as many probabilities as propositions go to Holm.

    Examples
    --------
    >>> verdicts([Doubts(0.001, 0.999), Doubts(0.999, 0.001), Doubts(0.02, 0.98)])
    [True, False, None]
    """
    adjusted = holm([one for test in family for one in test])
    return [
        True if yes <= level else False if no <= level else None
        for yes, no in zip(adjusted[::2], adjusted[1::2], strict=True)
    ]
