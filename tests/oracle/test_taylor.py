"""The slope of the remainder: catches every wrong gradient at every scale of the loss, never blames a correct one."""

import numpy as np
import pytest

from attnprune_verify.oracle.taylor import taylor_slope, taylor_verdict
from tests.oracle.problems import FORMULA_MISTAKES, WRONG, Problem, closed_form, random_problem

SCALES = (1.0, 1e-7, 1e7)


def verdict(problem, gradient, seed=0, scale=1.0, **options):
    M, *rest = problem.args
    return taylor_verdict(M, gradient, *rest, rng=np.random.default_rng(seed), scale=scale, **options)


def informative(count, seed):
    """Problems on which each mistake changes the gradient by more than a ten-thousandth."""
    rng = np.random.default_rng(seed)
    index = 0
    while count:
        index += 1
        problem = random_problem(rng, index, largest=9, logits=(0.1, 1.0, 10.0)[index % 3])
        if problem.lam > 1 or problem.W.size < 4 or problem.X.shape[-2] < 3:
            continue
        right = closed_form(problem)
        changes = [np.linalg.norm(closed_form(problem, mistake) - right) for mistake in FORMULA_MISTAKES]
        if min(changes) > 1e-4 * np.linalg.norm(right) > 0:
            count -= 1
            yield problem


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mistake", WRONG)
def test_catches(mistake, scale):
    for index, problem in enumerate(informative(5, seed=1)):
        found = verdict(problem, scale * WRONG[mistake](problem), index, scale)
        assert found.status == "failed" and found.slope < 1.1, (mistake, scale, found, problem)


@pytest.mark.parametrize("scale", SCALES)
def test_never_blames_a_correct_gradient(scale):
    """Logits from 0.1 to 1000, M = 1, n = 1, d = 1, masks, batches, lam = 0 and 1e5."""
    rng = np.random.default_rng(2)
    statuses = []
    for index in range(60):
        problem = random_problem(rng, index, largest=9)
        if index % 5 == 0:
            problem.M = np.ones_like(problem.M)
        found = verdict(problem, scale * closed_form(problem), index, scale)
        assert found.status != "failed", (found, problem)
        statuses.append(found.status)
    assert statuses.count("passed") >= 55


def test_never_blames_float32_code():
    rng = np.random.default_rng(3)
    for index in range(80):
        problem = random_problem(rng, index, largest=9, dtype=np.float32)
        found = verdict(problem, closed_form(problem), index)
        assert found.status != "failed", (found, problem)


def test_verdicts_are_identical_at_every_scale():
    for index, problem in enumerate(informative(5, seed=4)):
        for gradient in (closed_form(problem), WRONG["0.1 % too large"](problem)):
            found = [verdict(problem, scale * gradient, index, scale) for scale in (*SCALES, -1.0, 2.0**40)]
            assert len({one.status for one in found}) == 1
            np.testing.assert_allclose([one.slope for one in found], found[0].slope, atol=1e-3)


def test_the_reported_detection_power_is_true():
    """An error ten times larger than the smallest one that is claimed to be seen is seen."""
    for index, problem in enumerate(informative(10, seed=5)):
        gradient = closed_form(problem)
        power = verdict(problem, gradient, index).detection_power
        assert 0 < power < 1e-8
        assert verdict(problem, gradient * (1 + 10 * power), index).status == "failed"


def test_attention_gradient_vanishes_at_nothing_pruned():
    rng = np.random.default_rng(6)
    X, W, ones = rng.standard_normal((6, 4)), rng.standard_normal((4, 4)), np.ones((4, 4))
    problem = Problem(ones, X, W, 0.0, "causal")
    assert verdict(problem, np.zeros((4, 4))).status == "passed"
    assert verdict(problem, 1e-6 * W).status == "failed"


@pytest.mark.parametrize(("n", "zero"), [(1, False), (5, True)])
def test_a_flat_loss_passes_only_the_zero_gradient(n, zero):
    rng = np.random.default_rng(7)
    W = np.zeros((3, 3)) if zero else rng.standard_normal((3, 3))
    problem = Problem(rng.uniform(size=(3, 3)), rng.standard_normal((n, 3)), W, 0.0, None)
    assert verdict(problem, np.zeros((3, 3))).status == "passed"
    assert "constant" in verdict(problem, np.zeros((3, 3))).reason
    assert verdict(problem, 1e-12 * rng.standard_normal((3, 3))).status == "failed"
    M, *rest = problem.args
    assert taylor_slope(M, np.zeros((3, 3)), np.ones((3, 3)), *rest).status == "inconclusive"


def test_only_the_regulariser_is_an_exact_parabola():
    rng = np.random.default_rng(8)
    for lam in (1e-8, 1.0, 1e12):
        M = rng.uniform(size=(3, 3))
        problem = Problem(M, rng.standard_normal((1, 3)), rng.standard_normal((3, 3)), lam, None)
        assert verdict(problem, lam * M).slope == pytest.approx(2, abs=0.2)
        assert verdict(problem, 1.001 * lam * M).status == "failed"


def test_saturated_softmax_without_slope_is_inconclusive_not_blamed():
    """F(M) and F(1) are one-hot up to exp(-90): nothing stands above the noise."""
    X, W = np.eye(3), 100.0 * np.eye(3)
    problem = Problem(np.full((3, 3), 0.9), X, W, 0.0, None)
    found = verdict(problem, closed_form(problem))
    assert found.status == "inconclusive" and "step sizes" in found.reason


def test_non_finite_gradients_fail():
    problem = next(informative(1, seed=9))
    for bad in (np.nan, np.inf):
        gradient = closed_form(problem)
        gradient[0, 0] = bad
        assert verdict(problem, gradient).status == "failed"


def test_slope_along_one_direction_reports_what_can_be_plotted():
    problem = next(informative(1, seed=10))
    M, *rest = problem.args
    found = taylor_slope(M, closed_form(problem), np.ones_like(M), *rest)
    assert found.status == "passed" and abs(found.slope - 2) < 0.2 and found.steps_used == 6
    assert len(found.steps) == len(found.remainders) == len(found.floor) >= 20
    assert (np.diff(found.steps) < 0).all()
