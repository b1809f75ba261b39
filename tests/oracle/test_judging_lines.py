"""Lines by which a slope and a bound are judged, each on made-up numbers that the line without it gets wrong."""

import numpy as np
import pytest

from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import gradient
from attnprune_verify.oracle.comparison import OracleVerdict, against
from attnprune_verify.oracle.error_propagation import FLOAT64, Approx, Softmax, _capped, _centred, residual, times
from attnprune_verify.oracle.inputs import posed
from attnprune_verify.oracle.running_error import gradient_error
from attnprune_verify.oracle.taylor import SlopeVerdict, _judge, _sum, _together
from attnprune_verify.oracle.verdict import _claim

STEPS = 2.0 ** -np.arange(4.0, 16.0)


def seen(status: str, slope: float, power: float) -> SlopeVerdict:
    return SlopeVerdict(status, slope, 6, power, "", remainders=np.ones(1))  # type: ignore[arg-type]


# --- the slope of the remainder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("above", "status"), [(4.0, "inconclusive"), (16.0, "passed")])
def test_a_remainder_counts_when_it_is_well_above_the_floor(above: float, status: str) -> None:
    """Four times the noise is too near to it for a slope; sixteen times is enough."""
    remainders = STEPS**2
    assert _judge(STEPS, remainders, remainders / above, np.full(STEPS.size, 1.0), 1.0).status == status


@pytest.mark.parametrize(("beyond", "status"), [(1.1, "inconclusive"), (2.0, "failed")])
def test_a_first_order_remainder_of_twice_what_rounding_can_do_refutes(beyond: float, status: str) -> None:
    floor = np.full(STEPS.size, 1e-300)
    assert _judge(STEPS, STEPS, floor, STEPS / beyond, 1.0).status == status


@pytest.mark.parametrize(
    ("powers", "status"), [((0.03,), "inconclusive"), ((0.009,), "passed"), ((0.5, 1e-3), "passed")]
)
def test_a_pass_that_would_miss_an_error_of_a_few_hundredths_is_none(powers: tuple[float, ...], status: str) -> None:
    """Of several directions the one that sees most counts."""
    found = _together([seen("passed", 2.0, power) for power in powers], zero=False)
    assert found.status == status and found.detection_power == min(powers)


def test_one_direction_that_fails_is_enough() -> None:
    passed, failed, open_ = seen("passed", 2.0, 1e-6), seen("failed", 1.0, 1e-6), seen("inconclusive", np.nan, 1e-6)
    assert _together([passed, failed, open_], zero=False).status == "failed"
    assert _together([open_, passed], zero=False).status == "passed"
    assert _together([open_, open_], zero=False).status == "inconclusive"


def test_errors_with_random_signs_add_up_to_six_times_their_root_mean_square() -> None:
    """100 errors of 1: at most 100, and 60 but for three times in a hundred million; a single one is itself."""
    assert _sum(np.ones(100), random_signs=True) == pytest.approx(60.0)
    assert _sum(np.ones(100), random_signs=False) == 100.0 and _sum(np.ones(1), random_signs=True) == 1.0


# --- comparison with a reference --------------------------------------------------------------------------------------


def compared(error: float, size: float = 1.0) -> OracleVerdict:
    """The reference has norm `size`; 1e-3 of it may be rounding, 1e-6 usually is."""
    wanted = np.array([0.6, 0.8]) * size
    return against("one", wanted + [error * size, 0.0], wanted, np.full(2, 1e-3 * size), np.full(2, 1e-6 * size))


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e7])
def test_an_error_is_told_relative_to_the_whole_and_judged_by_both_limits(size: float) -> None:
    for error, status in ((0.5e-6, "passed"), (2e-6, "inconclusive"), (0.9e-3, "inconclusive"), (2e-3, "failed")):
        found = compared(error, size)
        assert found.status == status and found.value == pytest.approx(error, rel=1e-6)
        assert found.tolerance == pytest.approx(1e-3 if status == "failed" else 1e-6, rel=1e-6)


# --- what is called usual ---------------------------------------------------------------------------------------------


def test_float32_is_judged_with_its_own_unit_and_a_measured_spread() -> None:
    """The bound is that of 2^-24. Above a ten-thousandth of the gradient, what honest code loses decides."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal((4, 4)).astype(np.float32)
    M = rng.uniform(size=(4, 4)).astype(np.float32)
    at = posed(Instance(X, W, M=M, lam=0.25))
    right = gradient(*(a.astype(np.float64) for a in (M, X, W)), 0.25).ravel()
    claim = _claim(at, right, np.dtype(np.float32), rng, 30.0)
    np.testing.assert_array_equal(claim.bound, gradient_error(at, 2.0**-24))
    np.testing.assert_array_equal(claim.own, gradient_error(at))
    assert 1e-4 < np.linalg.norm(claim.bound) / np.linalg.norm(right) < 0.1
    assert (claim.fine.entries < 0.5 * claim.bound).all()
    fine = _claim(
        posed(Instance(X.astype(float), W.astype(float), M=M.astype(float))), right, np.dtype(float), rng, 30.0
    )
    np.testing.assert_array_equal(fine.bound, fine.own)


# --- errors on their way to p -----------------------------------------------------------------------------------------


def row(*values: float) -> np.ndarray:
    return np.array([values])


def test_both_factors_and_both_softmaxes_bring_their_errors() -> None:
    one = Approx(row(1.0), row(1.0), row(0.5))
    assert times(one, one).item() == 1.25 == 1.5**2 - 1
    f = Softmax(row(0.5, 0.5), row(0.0, 0.0), row(0.01, 0.02), row(0.0))
    dense = Softmax(row(0.4, 0.6), row(0.0, 0.0), row(0.02, 0.01), row(0.0))
    assert (residual(f, dense, np.ones((1, 2), dtype=bool), FLOAT64).error >= 0.03).all()


def test_a_sum_of_weights_may_be_a_rounding_above_one() -> None:
    """Where nothing is known of a weight it is off by at most what a computed one may be: 1 and a few units."""
    unknown = _capped(row(np.inf, np.nan, 1e-9), np.ones((1, 3), dtype=bool), FLOAT64)
    assert (unknown[0, :2] >= 1 + 3 * 2.0**-53).all() and unknown[0, :2].max() < 1 + 1e-14
    assert unknown[0, 2] == pytest.approx(1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_an_entry_less_its_mean_is_off_by_no_more_than_its_bound(seed: int) -> None:
    """y - (F*y)1 with weights and y moved as far as their errors let them, and the sum of the weights with them."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 5))
    weights, y = rng.dirichlet(np.ones(m)), rng.standard_normal(m) * (rng.random(m) < 0.7)
    off_f, off_y = 1e-3 * weights, 1e-3 * rng.random(m) * (rng.random(m) < 0.5)
    f = Softmax(row(*weights), row(*np.zeros(m)), row(*off_f), np.array([[off_f.sum()]]))
    bound = _centred(f, Approx(row(*y), row(*np.abs(y)), row(*off_y)), FLOAT64).error[0]
    worst = np.zeros(m)
    for signs in np.ndindex(*(2,) * 2 * m):
        s = 2.0 * np.array(signs) - 1
        F, z = weights + s[:m] * off_f, y + s[m:] * off_y
        worst = np.maximum(worst, np.abs((z - F @ z) - (y - weights @ y)))
    assert (worst <= bound * (1 + 1e-12)).all() and bound.max() <= 8 * worst.max() + 1e-12
