"""The four oracles together: every classic mistake is caught by each of them, a correct gradient by none."""

import math

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.families import FAMILIES
from attnprune_verify.model import gradient as reference_gradient
from attnprune_verify.oracle.verdict import ORACLES, against, judge_gradient
from tests.oracle.problems import WRONG, Problem, closed_form, random_problem
from tests.oracle.test_taylor import informative

NAMES = tuple(oracle.name for oracle in ORACLES)


def judge(problem, gradient, seed=0, effort=30.0):
    found = judge_gradient(problem.instance, gradient, rng=np.random.default_rng(seed), effort=effort)
    assert tuple(verdict.oracle for verdict in found) == NAMES
    for verdict in found:
        assert verdict.status != "passed" or verdict.value <= verdict.tolerance
        assert verdict.status != "failed" or verdict.value > verdict.tolerance
        assert verdict.note
    return found


@pytest.mark.parametrize("mistake", WRONG)
def test_every_oracle_catches(mistake):
    for index, problem in enumerate(informative(4, seed=1)):
        found = judge(problem, WRONG[mistake](problem), index)
        assert [verdict.status for verdict in found] == ["failed"] * len(ORACLES), (mistake, found, problem)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_oracle_blames_a_correct_gradient(dtype):
    rng = np.random.default_rng(2)
    undecided = 0
    for index in range(50):
        problem = random_problem(rng, index, largest=6, dtype=dtype)
        if index % 6 == 0:
            problem.M = np.ones_like(problem.M)
        for verdict in judge(problem, closed_form(problem), index, effort=0.5):
            assert verdict.status != "failed", (verdict, problem)
            if verdict.status != "passed":
                undecided += 1
                # In float64 only a saturated softmax without regulariser leaves a gradient below the rounding errors.
                assert dtype == np.float32 or (problem.lam == 0 and index % 5 >= 3), (verdict, problem)
    assert undecided <= 30


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"paper_synthetic"}))
def test_reference_gradient_passes_on_every_family(family):
    rng = np.random.default_rng(3)
    instance = FAMILIES[family](rng)
    M = rng.uniform(0.1, 0.9, instance.W.shape)
    right = reference_gradient(M, instance.X, instance.W, instance.lam, instance.mask)
    found = judge_gradient(instance.with_M(M), right, rng=rng, effort=2)
    assert [verdict.status for verdict in found] == ["passed"] * len(ORACLES), found


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_gradients_fail_everywhere(bad):
    problem = next(informative(1, seed=4))
    gradient = closed_form(problem)
    gradient.flat[-1] = bad
    assert [verdict.status for verdict in judge(problem, gradient)] == ["failed"] * len(ORACLES)


def test_wrong_shape_is_refused():
    problem = next(informative(1, seed=5))
    with pytest.raises(InvalidInstance, match="shape"):
        judge_gradient(problem.instance, np.zeros(3), rng=np.random.default_rng(0))


def test_too_little_effort_is_said_not_hidden():
    rng = np.random.default_rng(6)
    problem = random_problem(rng, 1, largest=9, logits=1.0)
    costs = {oracle.name: oracle.cost(problem.at) for oracle in ORACLES}
    effort = max(costs["autodiff"], costs["taylor-slope"])
    assert effort < min(costs["multiprecision"], costs["ball"])
    found = dict(zip(NAMES, judge(problem, closed_form(problem), effort=effort), strict=True))
    for name in ("multiprecision", "ball"):
        assert found[name].status == "inconclusive" and "not run" in found[name].note
        assert math.isnan(found[name].value) and found[name].needs == costs[name]
    assert found["autodiff"].status == found["taylor-slope"].status == "passed"


def test_large_instances_compare_random_directions_and_still_catch():
    """n = 40, d = 24: too many entries for multiprecision, so signs; a flipped median entry still shows."""
    rng = np.random.default_rng(7)
    problem = random_problem(rng, 0, logits=3.0)
    problem.X, problem.W = rng.standard_normal((40, 24)), 0.1 * rng.standard_normal((24, 24))
    problem.M, problem.lam, problem.mask = rng.uniform(0.1, 0.9, (24, 24)), 0.01, "causal"
    right = dict(zip(NAMES, judge(problem, closed_form(problem), effort=4), strict=True))
    assert all(verdict.status == "passed" for verdict in right.values()), right
    assert "random direction" in right["multiprecision"].note and "all 576 entries" in right["ball"].note
    for mistake in ("0.1 % too large", "median entry flipped", "missing p_2"):
        wrong = judge(problem, WRONG[mistake](problem), effort=4)
        assert [verdict.status for verdict in wrong] == ["failed"] * len(ORACLES), (mistake, wrong)


def test_progress_names_each_oracle_once():
    problem = next(informative(1, seed=8))
    names = []
    judge_gradient(problem.instance, closed_form(problem), rng=np.random.default_rng(0), progress=names.append)
    assert sorted(names) == sorted(NAMES)


def test_verdicts_repeat_with_the_seed():
    problem = next(informative(1, seed=9))
    assert judge(problem, closed_form(problem), 5) == judge(problem, closed_form(problem), 5)


def test_against_between_the_usual_and_the_largest_error_is_inconclusive():
    reference = np.array([1.0, 2.0])
    bound, usual = np.full(2, 1e-3), np.full(2, 1e-6)
    status = {error: against("ball", reference + error, reference, bound, usual).status for error in (1e-7, 1e-5, 1e-2)}
    assert list(status.values()) == ["passed", "inconclusive", "failed"]
    assert against("ball", reference, reference, np.ones(2)).status == "inconclusive"
    assert against("ball", [0.0, 0.0], [0.0, 0.0], [1e-16, 1e-16]).status == "passed"


@pytest.mark.thorough
def test_papers_synthetic_instance_and_its_wrong_gradients():
    """n = 128, d = 64, causal: random directions in multiprecision, all entries elsewhere."""
    rng = np.random.default_rng(10)
    base = FAMILIES["paper_synthetic"](rng)
    M = rng.uniform(0.1, 0.9, base.W.shape)
    problem = Problem(M, base.X, base.W, base.lam, "causal")
    assert [verdict.status for verdict in judge(problem, closed_form(problem))] == ["passed"] * len(ORACLES)
    for mistake in WRONG:
        found = judge(problem, WRONG[mistake](problem))
        assert [verdict.status for verdict in found] == ["failed"] * len(ORACLES), (mistake, found)
