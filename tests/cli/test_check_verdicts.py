"""What `check` makes of what it is told: the worse of two points, any broken repair, a beta and delta passed on."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify import check
from attnprune_verify.check import instance_of_model, run_check
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.oracle.comparison import OracleVerdict, Status
from attnprune_verify.pretrained.load import load_pretrained
from attnprune_verify.pretrained.texts import read_text, token_stream
from attnprune_verify.theory.bounds import BOUND_IDS, Bound

LLAMA = Path(__file__).parents[1] / "data" / "small_llama"
TEXT = Path(__file__).parents[2] / "LICENSE"
SMALL = Instance(np.eye(2), np.array([[0.3, -0.1], [0.2, 0.7]]), lam=0.1)
WORSE: tuple[Status, ...] = ("passed", "inconclusive", "failed")


def verdict(status: Status, value: float = 1.0, tolerance: float = 2.0) -> OracleVerdict:
    return OracleVerdict("one", status, value, tolerance, "")


@pytest.mark.parametrize(("first", "second"), list(product(WORSE, repeat=2)))
def test_the_worse_of_both_points_counts(first: Status, second: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(verdict(first),), (verdict(second),)])
    monkeypatch.setattr(check, "_judge_at", lambda point, rng, effort, tell: next(answers))
    (found,) = check._judge_gradient(SMALL, np.random.default_rng(0), 22.0, lambda what: None)
    assert found.status == max(first, second, key=WORSE.index)


def test_of_equal_verdicts_the_smaller_margin_counts() -> None:
    near, far, unknown = verdict("passed", 1.9), verdict("passed", 0.1), verdict("passed", math.nan)
    assert max((near, far), key=check._badness) is near
    assert max((near, unknown), key=check._badness) is unknown
    assert max((verdict("passed", 0.0, 0.0), far), key=check._badness) is far


@pytest.mark.parametrize("broken", BOUND_IDS)
def test_a_violated_repair_is_a_failure_and_a_violated_statement_of_the_paper_is_not(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = tuple(Bound(name, 1.0, 2.0, "violated" if name == broken else "holds", "") for name in BOUND_IDS)
    theory = check.theory_of(SMALL)._replace(bounds=lambda instance, progress: bounds)
    monkeypatch.setattr(check, "theory_of", lambda instance: theory)
    assert run_check(SMALL).outcome == ("failed" if broken.startswith("fix:") else "passed")


@pytest.mark.parametrize("statuses", list(product(WORSE, repeat=2)))
def test_passed_means_every_oracle(statuses: tuple[Status, Status]) -> None:
    outcome = check._outcome((), tuple(verdict(status) for status in statuses), (), False)
    expected = {"passed": "passed", "inconclusive": "incomplete", "failed": "failed"}
    assert outcome == expected[max(statuses, key=WORSE.index)]


def test_without_a_mask_the_second_point_is_far_from_the_first() -> None:
    """Uniform in [0.1, 0.9]: near M = 1 the attention's gradient is small, and a wrong one hides."""
    rng = np.random.default_rng(0)
    problem = Instance(rng.standard_normal((4, 8)), rng.standard_normal((8, 8)))
    layer = LayerInstance(AttentionLayer(*rng.standard_normal((2, 8, 8)), heads=2), rng.standard_normal((4, 8)))
    ones, random = check._points(problem, rng)
    assert ones.instance.M is None and random.name == "random M"
    for M in (random.instance.M, *check._points(layer, rng)[1].instance.masks_or_ones):
        assert 0.1 <= M.min() < 0.2 and 0.8 < M.max() <= 0.9 and abs(M.mean() - 0.5) < 0.12
    assert ones.share + random.share == 1.0 and 0 < ones.share < random.share
    (given,) = check._points(problem.with_M(np.zeros((8, 8))), rng)
    assert (given.name, given.share) == ("M", 1.0) and not given.instance.M.any()


def test_a_given_beta_and_delta_reach_every_part() -> None:
    """The constants, the assumptions and the theorem are judged with the same two numbers."""
    found = run_check(SMALL, beta=0.25, delta=0.125)
    assert (found.constants["beta"], found.constants["delta"], found.constants["delta_allowed"]) == (0.25, 0.125, 0.125)
    assert {item.id: item.value for item in found.assumptions}["beta"] == 0.25
    assert found.theorem.applies and found.theorem.numbers["xi"] == pytest.approx(found.constants["xi_paper"])
    assert found.theorem.numbers["T"] == pytest.approx(found.constants["T_paper"])
    own = run_check(SMALL)
    assert found.constants["mu_paper"] == pytest.approx(2 * 0.1 * 0.25 * 0.125) != own.constants["mu_paper"]
    assert not run_check(SMALL, beta=1.5).theorem.applies and not run_check(SMALL, delta=0.6).theorem.applies


def test_a_given_beta_and_delta_reach_every_part_of_a_layer() -> None:
    W_Q = np.array([[0.3, -0.1], [0.2, 0.7]])
    layer = LayerInstance(AttentionLayer(W_Q, np.eye(2), scale=1.0), np.eye(2), lam=0.1)
    found, fused = run_check(layer, beta=0.25, delta=0.125), run_check(SMALL, beta=0.25, delta=0.125)
    for name in ("beta", "delta", "delta_allowed", "mu_paper", "xi_paper"):
        assert found.constants[name] == pytest.approx(fused.constants[name]), name
    assert found.theorem.numbers == pytest.approx(fused.theorem.numbers, nan_ok=True)
    assert not run_check(layer, delta=0.6).theorem.applies and not run_check(layer, beta=1.5).theorem.applies


@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_of_a_model_sees_what_all_layers_before_it_made(layer: int) -> None:
    pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")
    instance = instance_of_model(LLAMA, layer, TEXT, 5)
    model = load_pretrained(LLAMA)
    hidden = model.family.embed(model.checked_ids(token_stream([read_text(TEXT)], model.tokenizer)[:5]))
    seen = []
    for index in range(model.depth):
        step = model.block(index)(hidden)
        seen.append(step.x[0])
        hidden = step.output
    np.testing.assert_array_equal(instance.X, seen[layer])
    np.testing.assert_array_equal(instance.layer.W_Q, model.block(layer).layer.W_Q)
    assert not np.allclose(seen[0], seen[1])


def test_a_strict_check_counts_failed_assumptions() -> None:
    judged = run_check(SMALL).assumptions
    assert all(item.holds for item in judged)
    failed = (*judged[:-1], replace(judged[-1], holds=False))
    for strict, outcome in ((False, "passed"), (True, "failed")):
        assert check._outcome(failed, (verdict("passed"),), (), strict) == outcome
        assert check._outcome(judged, (verdict("passed"),), (), strict) == "passed"
