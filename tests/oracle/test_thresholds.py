"""Thresholds of the oracles: what a slope, a spread and an exponential may be off by, each where it decides."""

import numpy as np
import pytest

from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import gradient
from attnprune_verify.oracle.comparison import Resolution
from attnprune_verify.oracle.error_propagation import FLOAT64, _exponent_rounding
from attnprune_verify.oracle.inputs import posed
from attnprune_verify.oracle.resolution import resolution
from attnprune_verify.oracle.taylor import _judge

STEPS = 2.0 ** -np.arange(4.0, 16.0)
NOTHING = np.full(STEPS.size, 1e-300)


@pytest.mark.parametrize(("order", "status"), [(1.0, "failed"), (1.3, "failed"), (1.7, "passed"), (2.0, "passed")])
def test_a_remainder_must_be_of_nearer_the_second_order_than_the_first(order: float, status: str) -> None:
    assert _judge(STEPS, STEPS**order, NOTHING, NOTHING, 1.0).status == status


@pytest.mark.parametrize(("order", "status"), [(1.3, "inconclusive"), (1.7, "passed")])
def test_what_rounding_might_explain_is_neither(order: float, status: str) -> None:
    """The limit of what rounding can do lies above the remainder, what it usually does far below."""
    assert _judge(STEPS, STEPS**order, NOTHING, np.full(STEPS.size, 10.0), 1.0).status == status


def test_an_exponential_may_be_off_by_four_units_and_its_argument_by_its_size() -> None:
    """Every term by itself: 4 u for exp, for 4 roundings beside it, and 4 u times what the argument was rounded by."""
    u = 2.0**-53
    zero = np.zeros((1, 1))
    assert _exponent_rounding(zero, zero, FLOAT64) == pytest.approx(np.full((1, 1), 16 * u), rel=1e-12, abs=0)
    assert _exponent_rounding(zero, zero + 10.0, FLOAT64) == pytest.approx(
        np.full((1, 1), 4 * u * 14), rel=1e-12, abs=0
    )
    assert _exponent_rounding(zero + 10.0, zero, FLOAT64) == pytest.approx(
        np.full((1, 1), 4 * u * 24), rel=1e-12, abs=0
    )
    wide = np.zeros((1, 8))
    assert _exponent_rounding(wide, wide, FLOAT64) == pytest.approx(
        np.full((1, 8), 4 * u * (4 + np.log(8))), rel=1e-12, abs=0
    )


def test_what_is_usual_in_float32_is_a_few_tens_of_times_what_honest_code_loses() -> None:
    """With a bound that says nothing, the spread decides: an error a hundred times the honest one stands out."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((12, 8)).astype(np.float32), rng.standard_normal((8, 8)).astype(np.float32)
    M = rng.uniform(size=(8, 8)).astype(np.float32)
    at = posed(Instance(X, W, M=M, lam=0.25))
    right = gradient(*(a.astype(np.float64) for a in (M, X, W)), 0.25)
    honest = np.linalg.norm(gradient(M, X, W, 0.25) - right)
    nothing = np.full(64, np.inf)
    found: Resolution = resolution(at, right.ravel(), nothing, np.random.default_rng(1))
    assert honest < found.norm < 100 * honest
    assert np.abs(gradient(M, X, W, 0.25) - right).max() < found.entries.max() < 100 * honest
