"""W and M may be of any size: what is the same problem in other units gets the same verdict."""

import mpmath
import numpy as np
import pytest

from attnprune_verify.check import run_check
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.model import gradient as reference_gradient
from attnprune_verify.oracle import multiprecision, taylor
from attnprune_verify.oracle.inputs import fused
from attnprune_verify.oracle.running_error import gradient_error
from attnprune_verify.oracle.verdict import ORACLES, against, judge_gradient
from tests.oracle.problems import closed_form, random_problem


def mild(seed):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((4, 3)), rng.standard_normal((3, 3))
    return X, W, rng.uniform(0.1, 0.9, (3, 3))


@pytest.mark.parametrize("power", [-400, -66, 0, 66, 100, 400])
def test_differences_do_not_depend_on_the_size_of_the_direction(power):
    """The derivative along 2^power D is 2^power times the one along D, to the digits promised."""
    X, W, M = mild(0)
    D, unit = np.ones((3, 3)), 2.0**power
    for lam in (0.0, 0.25):
        literal = multiprecision.Literal(fused(M, X, W, lam))
        for derivative, times in ((literal.slope, unit), (literal.curvature, unit**2)):
            with mpmath.workdps(50):
                assert abs(derivative(unit * D) / times - derivative(D)) <= 1e-22 * abs(derivative(D))


@pytest.mark.parametrize("power", [-400, -66, 66, 100, 400])
def test_differences_suit_masks_of_any_size(power):
    """A pruning mask far from 1 with weights to match: logits at M stay near 1, and so must their moves."""
    X, W, M = mild(1)
    unit = 2.0**power
    M, W = M * unit, W / unit
    for lam in (0.0, 0.25 / unit**2):
        exact = reference_gradient(M, X, W, lam)
        found = multiprecision.gradient(fused(M, X, W, lam)).astype(float).reshape(3, 3)
        resolution = 1e-13 * np.abs(W).max() * np.abs(X).max() ** 2 * 4
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=resolution)


@pytest.mark.parametrize("exponent", [-150, -100, -60, -30, -20, -12, 12, 20, 30, 60, 100, 150])
@pytest.mark.parametrize("matched", [True, False])
def test_a_correct_gradient_is_never_blamed_at_any_size_of_the_mask(exponent, matched):
    X, W, M = mild(2)
    M = M * 10.0**exponent
    W = W / 10.0**exponent if matched else W
    for lam in (0.0, 0.1):
        instance = Instance(X, W, M=M, lam=lam)
        right = reference_gradient(M, X, W, lam)
        found = judge_gradient(instance, right, rng=np.random.default_rng(0), effort=2)
        assert "failed" not in {verdict.status for verdict in found}, found


@pytest.mark.parametrize("exponent", [12, 30, 100])
def test_a_large_mask_on_small_weights_is_judged_at_full_power(exponent):
    """Logits near 1 at M and a regulariser of the size of the rest: every oracle sees 0.1 %."""
    X, W, M = mild(3)
    size = 10.0**exponent
    M, W, lam = M * size, W / size, 0.1 / size**2
    right = reference_gradient(M, X, W, lam)
    for gradient, status in ((right, "passed"), (1.001 * right, "failed")):
        found = judge_gradient(Instance(X, W, M=M, lam=lam), gradient, rng=np.random.default_rng(0), effort=2)
        assert [verdict.status for verdict in found] == [status] * len(ORACLES), found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "problem",
    [
        Instance(np.vander([1.0, 2.0, 3.0]), np.eye(3), lam=5e-324),
        LayerInstance(AttentionLayer(np.eye(3), np.eye(3), softcap=1e-300), np.vander([1.0, 2.0, 3.0])),
    ],
    ids=["the smallest lam", "the smallest softcap"],
)
def test_the_smallest_numbers_warn_of_nothing(problem):
    assert {verdict.status for verdict in run_check(problem).gradient} <= {"passed", "inconclusive"}


@pytest.mark.parametrize("lam", [1e300, 1e306])
def test_a_regulariser_near_the_largest_float_warns_of_nothing(lam):
    X, W, M = mild(4)
    right = reference_gradient(M, X, W, lam)
    found = judge_gradient(Instance(X, W, M=M, lam=lam), right, rng=np.random.default_rng(0), effort=2)
    assert "failed" not in {verdict.status for verdict in found}, found


@pytest.mark.parametrize("exponent", [-300, -200, 200, 300])
def test_a_mask_whose_square_leaves_the_floats_is_judged(exponent):
    """With lam = 0 nothing asks for ||M||_F^2."""
    X, W, M = mild(7)
    M, W = M * 10.0**exponent, W / 10.0**exponent
    right = reference_gradient(M, X, W)
    found = judge_gradient(Instance(X, W, M=M), right, rng=np.random.default_rng(0), effort=2)
    assert "failed" not in {verdict.status for verdict in found}, found
    wrong = judge_gradient(Instance(X, W, M=M), -right, rng=np.random.default_rng(0), effort=2)
    assert "passed" not in {verdict.status for verdict in wrong} or not right.any(), wrong


def test_an_unbounded_tolerance_decides_nothing():
    """Astronomical logits leave no finite bound on rounding: whatever was given, nobody may call it right."""
    for wanted in ([0.0, 1.0], [0.0, 0.0]):
        assert against("ball", [5.0, 7.0], wanted, [np.inf, np.inf]).status == "inconclusive"
    X, W, M = mild(5)
    instance = Instance(X, 1e200 * W, M=M, lam=1.0)
    found = judge_gradient(instance, -M, rng=np.random.default_rng(0), effort=2)
    assert "passed" not in {verdict.status for verdict in found}, found
    assert not any("confirmed" in verdict.note for verdict in found), found


def test_steps_of_ordinary_problems_stay_as_calibrated():
    problem = random_problem(np.random.default_rng(6), 1, largest=4, logits=1.0)
    problem.M = np.clip(problem.M, 0, 1)
    found = taylor.taylor_verdict(problem.M, closed_form(problem), *problem.args[1:], rng=np.random.default_rng(0))
    assert found.status == "passed" and abs(found.slope - 2) < 0.01


@pytest.mark.parametrize("lam", [0.0, 1e-30])
@pytest.mark.parametrize("small", [0.0, 1e-300, 1e-45])
@pytest.mark.parametrize("where", ["weight", "feature", "token"])
def test_entries_far_below_the_others_are_neither_blamed_nor_believed(where, small, lam):
    """Each entry is judged at its own size: what is lost beside a loss near 1 is the oracle's, not the gradient's."""
    X, W, M = mild(4)
    X, W = X.copy(), W.copy()
    {"weight": W[1], "feature": X[:, 1], "token": X[1]}[where][...] *= small
    at, right = fused(M, X, W, lam), reference_gradient(M, X, W, lam)
    instance = Instance(X, W, M=M, lam=lam)
    found = judge_gradient(instance, right, rng=np.random.default_rng(0), effort=2)
    assert "failed" not in {verdict.status for verdict in found}, found
    exact = multiprecision.gradient(at).astype(float).reshape(3, 3)
    assert (np.abs(exact - right) <= gradient_error(at).reshape(3, 3)).all()
    wrong = right.copy()
    wrong[1, 1] += 3 * gradient_error(at).reshape(3, 3)[1, 1]
    seen = judge_gradient(instance, wrong, rng=np.random.default_rng(0), effort=2)
    assert (wrong == right).all() or {one.oracle: one.status for one in seen}["multiprecision"] == "failed"
