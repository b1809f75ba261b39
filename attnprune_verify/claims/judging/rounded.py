"""A counterexample in numbers that a person can follow."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.judging.trial import Trial, try_case
from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, working_precision

_MORE_DIGITS = 3  # chosen: digits behind the leading one; more are no simpler than the number found
_CLEARLY = 1e-6  # chosen: a thousand times the relative slack that float64 may lose (`judge.ROUNDING`)
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
    >>> from attnprune_verify.claims.judging.judge import judge
    >>> from attnprune_verify.claims.registry import find
    >>> found = judge(find("lem:PL_ineq", "full")).smallest
    >>> found.case["X"].tolist(), found.certain
    ([[-1.0, 1.0], [1.0, 1.0]], False)
    """
    names = claim.supply.free if claim.free is None else claim.free
    stuck: dict[str, Trial] = {}
    """By array: the trial in which it could not be made simpler, and cannot while the trial is the same."""
    for name in names * _ROUNDS:  # where one is simple, another may become so
        array = np.asarray(trial.case.get(name, 0))
        largest = float(np.abs(array).max(initial=0.0)) if array.dtype == np.float64 else 0.0
        if stuck.get(name) is trial or not 0 < largest < math.inf:
            continue
        for shorter in _shorter(array, largest):
            if np.array_equal(shorter, array):
                stuck[name] = trial
                break
            found = _violation(claim, replace(trial.case, values={**trial.case.values, name: shorter}))
            if found is not None:
                trial = found
                break
        else:
            stuck[name] = trial
    return trial


def _violation(claim: Claim, case: Case) -> Trial | None:
    """The violation if it is certain; a case that clearly holds in floats is not evaluated in balls."""
    if claim.arithmetic == "float":
        plain = try_case(claim, case, FLOAT)
        if plain.failed is not None or plain.slack > _CLEARLY:
            return None
    with working_precision():
        found = try_case(claim, case, BALL)
    return found if found.failed is None and not found.problem and found.certain is False else None


def _shorter(array: NDArray[np.float64], largest: float) -> Iterator[NDArray[np.float64]]:
    """0, the identity, and the array with more and more of its digits."""
    yield np.zeros(array.shape)
    if array.ndim == 2:
        yield np.eye(*array.shape)
    leading = -math.floor(math.log10(largest))
    for places in dict.fromkeys((0, *range(leading, leading + _MORE_DIGITS))):
        yield np.round(array, places) + 0.0
