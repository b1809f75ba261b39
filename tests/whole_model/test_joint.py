"""W_Q and W_K refitted together: the attention output comes nearer, the masks stay, and the slopes are those of f."""

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")
pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")

from attnprune_verify.algorithms.methods import matrix_options  # noqa: E402  # after the skips
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.whole_model import joint  # noqa: E402
from attnprune_verify.whole_model.blockwise import block_moments, prune_block  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

INDEX = 2


@pytest.fixture(scope="module")
def block():
    return load_pretrained(MODEL, dtype=np.float64).block(INDEX)


@pytest.fixture(scope="module")
def hidden():
    return np.random.default_rng(0).standard_normal((4, 24, 64))


def error(block, hidden, pruned):
    """The squared change of the attention output, from the block's own forward pass."""
    new = block.with_weights({side: pruned[side].weight for side in "QK"})
    return float(np.square(new(hidden).middle - block(hidden).middle).sum())


def pruned_with(block, hidden, steps, monkeypatch):
    monkeypatch.setattr(
        "attnprune_verify.whole_model.blockwise.matrix_options",
        lambda name, options: matrix_options(name, {"joint_steps": steps}),
    )
    return prune_block(block, hidden, Plan("output-obs", "dense", pattern="2:4"), INDEX)


def test_the_attention_comes_nearer_and_the_masks_stay(block, hidden, monkeypatch):
    before, *after = (pruned_with(block, hidden, steps, monkeypatch) for steps in (0, 1, 3))
    errors = [error(block, hidden, pruned) for pruned in (before, *after)]
    assert errors[2] <= errors[1] < errors[0] and errors[2] < 0.95 * errors[0]
    for pruned in after:
        for side in "QK":
            np.testing.assert_array_equal(pruned[side].kept, before[side].kept)
            assert not pruned[side].weight[~before[side].kept].any()


def test_f_and_its_slopes(block, hidden):
    """f is the error of the block's own pass; slopes by central differences of it."""
    goal, rng = joint._SummedGoal(block, list(hidden)), np.random.default_rng(1)
    weights = {side: block.weight(side) + 0.1 * rng.standard_normal(block.weight(side).shape) for side in "QK"}
    directions = {side: rng.standard_normal(weights[side].shape) for side in "QK"}
    now, h = goal(weights), 1e-5

    def at(step, sides):
        new = {side: weights[side] + step * directions[side] * (side in sides) for side in "QK"}
        return float(np.square(block.with_weights(new)(hidden).middle - block(hidden).middle).sum())

    assert now.f == pytest.approx(at(0, "QK"), rel=1e-9)
    for sides in ("Q", "K"):
        slope = (at(h, sides) - at(-h, sides)) / (2 * h)
        assert np.vdot(now.gradients[sides], directions[sides]) == pytest.approx(slope, rel=1e-5)


def test_the_steps_are_about_newtons(block, hidden):
    """In the units of f: a step of the wrong tokens or metric would be off by a factor of a hundred."""
    plan, goal = Plan("output-obs", "dense", pattern="2:4"), joint._SummedGoal(block, list(hidden))
    moments = block_moments(block, hidden, {"Q": "output-obs", "K": "output-obs"}, {}, (plan.seed, INDEX))
    options, rng = matrix_options("output-obs", {}), np.random.default_rng(2)
    for side in "QK":
        weight = block.weight(side)
        one = joint._PrunedSide(
            np.ones(weight.shape, bool), moments.inputs(side), moments.outputs(side), goal.tokens, options
        )
        weights = {"Q": block.weight("Q"), "K": block.weight("K")}
        weights[side] = weight + 1e-4 * rng.standard_normal(weight.shape)
        now = goal(weights)
        step = {"Q": np.zeros(block.weight("Q").shape), "K": np.zeros(block.weight("K").shape)}
        step[side] = one.step(now.gradients[side])
        slope = float(np.vdot(now.gradients[side], step[side]))
        there = goal({name: weights[name] + step[name] for name in "QK"}, slopes=False).f
        assert 0.05 < joint._reach(1.0, now.f, slope, there) <= 4


def test_only_patterns_and_our_metric_are_refitted(block, hidden, monkeypatch):
    called = []
    monkeypatch.setattr("attnprune_verify.whole_model.blockwise.refit_attention", lambda *given: called.append(given))
    for plan in (Plan("output-obs", "dense", 0.5), Plan("wanda", "magnitude", pattern="2:4"),
                 Plan("identity-obs", "dense", pattern="2:4")):  # fmt: skip
        prune_block(block, hidden, plan, INDEX)
    assert not called
    prune_block(block, hidden, Plan("output-obs", "wanda", pattern="2:4"), INDEX)
    assert len(called) == 1
