"""Searches that make certificates, on problems so small that all masks can be tried."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from proofs_check.producer import balls
from proofs_check.producer.best_mask import BestMaskCase, RowCoefficients
from proofs_check.producer.mask_gap import MaskDivergence, MaskGapCase


def drawn(seed: int, n: int = 4, d: int = 3) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(seed)
    return rng.integers(-12, 13, (n, d)).tolist(), rng.integers(-12, 13, (d, d)).tolist()


BETTER_LATER = 7
"""Here no exchange of two entries improves a mask that is not the best: the search starts again from a better one."""


@pytest.mark.parametrize(("seed", "mask"), [(0, "full"), (BETTER_LATER, "causal")])
def test_the_best_mask_is_the_best_of_all(seed: int, mask: str) -> None:
    with balls.precision(128):
        problem = RowCoefficients(BestMaskCase(*drawn(seed), zeros=4, mask=mask))
        every = {ones: problem.bound([int(k in ones) for k in range(9)]) for ones in combinations(range(9), 5)}
        least = min(every, key=lambda ones: float(every[ones]))
        best, loss, leaves = problem.leaves(Fraction(1))
    assert tuple(np.flatnonzero(best)) == least and loss.overlaps(every[least])
    assert all(bound > loss for pattern, bound in leaves if pattern != best)


def test_a_better_mask_is_met_where_exchanges_end() -> None:
    with balls.precision(128):
        problem = RowCoefficients(BestMaskCase(*drawn(BETTER_LATER), zeros=4))
        assert problem.leaves(Fraction(1))[1] < problem.mask()[1]


@pytest.mark.parametrize("mask", ["causal", "full"])
def test_the_slope_that_is_followed_is_that_of_the_divergence(mask: str) -> None:
    problem = MaskDivergence(MaskGapCase(*drawn(2), ones=5, mask=mask))
    at, step = np.random.default_rng(2).uniform(0, 1, 9), 1e-5
    ends = [[problem.value((at + sign * step * unit).tolist()) for sign in (1, -1)] for unit in np.eye(9)]
    assert problem.gradient(at.tolist()) == pytest.approx([(up - down) / (2 * step) for up, down in ends], abs=1e-7)
