"""A counterexample in numbers that a person can follow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.trial import Trial, try_case
from attnprune_verify.theory.arithmetic import BALL, working_precision

__all__ = ["rounded"]

_MORE_DIGITS = 3  # chosen: digits behind the leading one; more are no simpler than the number found
_ROUNDS = 3  # chosen: where one number is simple, another may become so


def rounded(claim: Claim, trial: Trial) -> Trial:
    """The violation with every array that may be moved rounded as far as it stays one, in ball arithmetic.

    Parameters
    ----------
    claim : Claim
    trial : Trial
        A certain violation.

    Returns
    -------
    Trial
        A certain violation, too; the same trial where nothing can be rounded.

    Examples
    --------
    >>> from attnprune_verify.claims.judge import judge
    >>> from attnprune_verify.claims.registry import find
    >>> found = judge(find("lem:PL_ineq", "full")).smallest
    >>> found.case["X"].tolist(), found.certain
    ([[-1.0, 1.0], [1.0, 1.0]], False)
    """
    names = claim.supply.free if claim.free is None else claim.free
    for name in names * _ROUNDS:  # where one is simple, another may become so
        array = np.asarray(trial.case.get(name, 0))
        largest = float(np.abs(array).max(initial=0.0)) if array.dtype == np.float64 else 0.0
        if not 0 < largest < math.inf:
            continue
        for shorter in _shorter(array, largest):
            if np.array_equal(shorter, array):
                break
            with working_precision():
                found = try_case(claim, replace(trial.case, values={**trial.case.values, name: shorter}), BALL)
            if found.failed is None and not found.problem and found.certain is False:
                trial = found
                break
    return trial


def _shorter(array: NDArray[np.float64], largest: float) -> Iterator[NDArray[np.float64]]:
    """0, the identity, and the array with more and more of its digits."""
    yield np.zeros(array.shape)
    if array.ndim == 2:
        yield np.eye(*array.shape)
    leading = -math.floor(math.log10(largest))
    for places in dict.fromkeys((0, *range(leading, leading + _MORE_DIGITS))):
        yield np.round(array, places) + 0.0
