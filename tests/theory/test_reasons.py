"""Why an assumption fails and why the theorem says nothing: each reason where it is true, and only there."""

import math

import numpy as np
import pytest

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.assumptions import Assumption, assumptions
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.guarantees import guarantees
from attnprune_verify.theory.quantities import evaluation
from attnprune_verify.theory.quantities.curvature import row_constants
from attnprune_verify.theory.quantities.evaluation import Route, attention_part, attention_squares
from attnprune_verify.theory.quantities.kappa import row_eigenvalue
from attnprune_verify.theory.quantities.measure import start_loss
from attnprune_verify.theory.theorem import theorem

TRIANGLE = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)


def judged(instance: Instance, **given: float) -> dict[str, Assumption]:
    return {item.id: item for item in assumptions(instance, **given)}


def plain(X: np.ndarray, **more: object) -> Instance:
    return Instance(X, np.ones((X.shape[-1],) * 2), **more)  # type: ignore[arg-type]


# --- a beta and a delta that somebody gives ---------------------------------------------------------------------------


def test_no_beta_is_above_the_mean_square_of_a_token() -> None:
    """||X||^2 / n, n the number of tokens; over a batch that of the shortest sample."""
    X = np.diag([3.0, 1.0])[:, :2] @ np.eye(2, 5)  # ||X||^2 = 10: 5 a token, 2 a feature
    for beta, impossible in ((4.9, False), (5.1, True), (2.1, False)):
        reason = judged(plain(X), beta=beta)["beta"].reason
        assert ("impossible" in reason) is impossible and ("too large" in reason) is not impossible
        assert not impossible or "||X||_F^2 / n = 5 for every X" in reason
    batch = plain(np.stack([X, 0.5 * X]))
    assert "||X||_F^2 / n = 1.25 " in judged(batch, beta=1.3)["beta"].reason
    assert "too large" in judged(batch, beta=1.2)["beta"].reason


@pytest.mark.parametrize(("share", "holds"), [(1 - 1e-9, True), (1 + 1e-9, False), (1.01, False)])
def test_a_delta_above_the_least_weight_by_a_billionth_is_too_large(share: float, holds: bool) -> None:
    instance = Instance(np.eye(2), np.log([[1.0, 3.0], [4.0, 1.0]]))
    found = judged(instance, delta=0.2 * share)
    for name in ("delta", "delta-allowed"):
        assert found[name].holds is holds and ("too large for this M" in found[name].reason) is not holds


def test_no_delta_is_above_one_over_the_longest_row() -> None:
    """Rows of 1, 2 and 3 positions: the row of three has a weight of at most 1/3."""
    instance = plain(np.eye(3), mask=TRIANGLE)
    reason = judged(instance, delta=0.34)["delta-allowed"].reason
    assert "impossible: a row of 3 weights that sum to 1 has one of at most 1/3" in reason


# --- the theorem ------------------------------------------------------------------------------------------------------


def test_hopeless_is_the_step_count_of_the_printed_theorem() -> None:
    """T = 1e16 with its own mu and step, a few with ours."""
    instance = Instance(100 * np.eye(2), 0.01 * np.ones((2, 2)), lam=0.5)
    found = constants(instance)
    assert found.T_paper > 1e15 > 1e3 > found.T_corrected
    assert any("It asks for T =" in reason for reason in theorem(instance).reasons)
    easy = constants(Instance(np.eye(2), np.ones((2, 2)), lam=0.5))
    assert easy.T_paper < 1e15
    reasons = theorem(Instance(np.eye(2), np.ones((2, 2)), lam=0.5)).reasons
    assert not any("It asks for T =" in reason for reason in reasons)


def test_a_bound_of_half_of_the_largest_value_is_not_called_larger() -> None:
    instance = Instance(np.eye(2), np.ones((2, 2)), M=np.zeros((2, 2)), lam=0.0)
    for eps, larger in ((0.5, False), (0.99, False), (1.0, True), (2.0, True)):
        verdict = theorem(instance, eps=eps)
        assert verdict.numbers["bound"] == eps / 2 and verdict.numbers["largest"] == 0.5
        assert any("the largest possible value" in reason for reason in verdict.reasons) is larger


@pytest.mark.parametrize(("share", "witness"), [(0.99, True), (1.01, False)])
def test_without_a_mu_the_threshold_decides_whether_ones_would_do(share: float, witness: bool) -> None:
    """A weight of 0 makes mu = 0; it does not apply then, and that alone is enough to say nothing."""
    weights = np.array([[0.05, 0.0], [0.05, 0.05]])
    threshold = 6 * math.sqrt(2) * 0.05 * 2 / 2
    verdict = theorem(Instance(np.eye(2), weights, lam=threshold * share))
    assert any("M = 1 would satisfy it" in reason for reason in verdict.reasons) is witness
    assert not verdict.applies and verdict.vacuous and math.isnan(verdict.numbers["at_ones"])


def test_without_a_regulariser_nothing_takes_a_step() -> None:
    """At lam = 0 M = 1 is optimal: every guarantee is met at once, with T = 0 and a goal of eps/2."""
    found = {one.id: one for one in guarantees(Instance(np.eye(2), np.array([[0.3, -0.1], [0.2, 0.7]])))}
    repaired = found["repaired-theorem"]
    assert repaired.numbers["T"] == repaired.numbers["xi"] == repaired.numbers["at_ones"] == 0.0
    assert "within T = 0 steps" in repaired.says and "<= (xi + eps)/2 = 0.005" in repaired.says
    assert found["gradient-norm"].numbers == {"gradient": 0.0, "T": 0.0} and found["confinement"].numbers["loss"] == 0.0
    assert not found["linear-convergence"].applies and not found["strong-convexity"].applies


# --- what is not pruned, and the routes of larger instances -----------------------------------------------------------


def test_one_entry_that_is_kept_does_not_make_the_rest_of_the_mask_dense() -> None:
    """Nothing is pruned where M is 1 or W is 0 at every entry; at one entry that says nothing."""
    rng = np.random.default_rng(0)
    X, W, M = rng.standard_normal((3, 2)), rng.standard_normal((2, 2)), np.array([[1.0, 0.3], [0.6, 0.0]])
    zero = W.copy()
    zero[1, 0] = 0.0
    for instance in (Instance(X, W, M=M), Instance(X, zero, M=M - 0.1)):
        assert float(attention_part(instance, 128).c_squares) > 1e-6
        assert float(start_loss(instance)) > 1e-6
    same = Instance(X, zero, M=[[1.0, 1.0], [0.2, 1.0]])
    assert attention_part(same, 128).c_squares == 0 and start_loss(same) == 0


@pytest.mark.parametrize("kind", [Route.RUNNING, Route.CRUDE])
def test_every_route_starts_from_the_same_loss(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    instance = Instance(rng.standard_normal((2, 4, 3)), rng.standard_normal((3, 3)), M=rng.random((3, 3)), lam=0.1)
    in_balls = float(attention_squares(instance))
    monkeypatch.setattr(evaluation, "route", lambda instance: kind)
    assert in_balls > 0.01 and float(attention_squares(instance)) == pytest.approx(in_balls, rel=1e-12)


def test_the_error_of_a_loss_counts_twice_in_twice_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    instance = Instance(rng.standard_normal((4, 3)), rng.standard_normal((3, 3)), M=rng.random((3, 3)))
    monkeypatch.setattr(evaluation, "route", lambda instance: Route.RUNNING)
    middle = float(attention_part(instance, 128).c_squares)
    monkeypatch.setattr(evaluation.running_error, "loss_error", lambda at: middle / 100)
    found = attention_part(instance, 128).c_squares
    assert float(found.upper()) >= middle * 1.02 * (1 - 1e-9) and float(found.lower()) <= middle * 0.98 * (1 + 1e-9)


# --- rows that have no choice, and weights that are off ---------------------------------------------------------------


def test_without_a_choice_the_eigenvalue_is_the_largest_there_is() -> None:
    eye = np.eye(3)
    assert row_eigenvalue(eye, eye.astype(bool)) == 0.5


def test_two_positions_are_a_choice_and_one_is_none() -> None:
    F, dense = np.array([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    upper, lower = row_constants(F, dense, F > 0)
    assert upper[0] > 0.05 and (upper[1], lower[1]) == (0.0, 0.0)
