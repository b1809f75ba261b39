"""An oracle's cost adds up over heads and samples; its result does not depend on the rows of a block."""

import numpy as np
import pytest

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.oracle import (
    autodiff,
    ball,
    ball_forms,
    ball_series,
    multiprecision,
    running_error,
    taylor,
    taylor_differences,
)
from attnprune_verify.oracle.inputs import fused, posed

RNG = np.random.default_rng(0)
EVERYTHING = AttentionLayer(
    *RNG.standard_normal((2, 3, 8)), *RNG.standard_normal((2, 8)), heads=4, rope=RoPE(50.0), softcap=2.0, window=4,
    alibi=[1.0, 0.5, -0.25, 0.1], mask="causal",
)  # fmt: skip
X = RNG.standard_normal((2, 5, 3))


def at_masks(layer, tokens):
    masks = [np.random.default_rng(1).uniform(0, 1, W.shape) for W in (layer.W_Q, layer.W_K)]
    return posed(LayerInstance(layer, tokens, M_Q=masks[0], M_K=masks[1], lam=0.3))


COUNTS = ("logits", "products", "size")


def test_costs_add_up_over_heads_and_samples():
    """Three heads are three layers of one head; the gradient's size does not grow with the samples."""
    W = np.eye(3)
    one, heads = (AttentionLayer(np.hstack([W] * count), np.hstack([W] * count), heads=count) for count in (1, 3))
    alone, three, batch = at_masks(one, X[0]), at_masks(heads, X[0]), at_masks(one, X)
    assert [getattr(three, name) for name in COUNTS] == [3 * getattr(alone, name) for name in COUNTS]
    assert [getattr(batch, name) for name in COUNTS] == [
        k * getattr(alone, name) for k, name in zip((2, 2, 1), COUNTS, strict=True)
    ]
    assert (alone.logits, alone.products) == (25, 5 * 3 * 6 + 25 * 3)
    single = fused(np.eye(3), X[0], W)
    assert (single.logits, single.products, single.size) == (25, 5 * 3 * 3 + 25 * 3, 9)
    for module in (autodiff, ball, multiprecision, taylor):
        price = getattr(module, "cost", None) or module.gradient_cost
        assert price(three) == pytest.approx(3 * price(alone)) and price(batch) > 1.5 * price(alone), module.__name__


def along(at):
    lines = [np.random.default_rng(2).standard_normal(at.size)]
    return taylor_differences.differences(at, lines, np.arange(3), np.float64)[0][2]


RESULTS = {
    "differences": (taylor_differences, along),
    "running error": (running_error, running_error.gradient_error),
    "enclosure": (ball_forms, lambda at: ball.enclosed_gradient(at).midpoint),
    "series": (
        ball_series,
        lambda at: np.array([float(ball.slope_along(at, tuple(at.parted(np.ones(at.size)))).mid())]),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("rows", [1, 2])
def test_blocks_of_one_row_and_of_two_compute_what_one_block_does(name, rows, monkeypatch):
    """A layer with everything that depends on a position has five rows, so that the last block is shorter."""
    module, result = RESULTS[name]
    at = at_masks(EVERYTHING, X)
    whole = result(at)
    monkeypatch.setattr(module, "_BLOCK", rows if module is ball_series else rows * 5)
    np.testing.assert_allclose(result(at), whole, rtol=1e-9, atol=1e-13)
