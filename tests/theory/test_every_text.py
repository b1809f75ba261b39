"""The bound for every text, against texts made to break it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attnprune_verify as apv
from attnprune_verify.model.maps import Heads
from attnprune_verify.theory.every_text import kl_of_range


def _pair(**options: Any) -> tuple[apv.AttentionLayer, apv.AttentionLayer, NDArray[Any]]:
    rng = np.random.default_rng(9)
    W_Q, W_K = rng.normal(size=(6, 8)), rng.normal(size=(6, 4))
    layer = apv.AttentionLayer(W_Q, W_K, heads=2, kv_heads=1, **{"mask": "causal", **options})
    less = layer.with_weights(W_Q * (rng.random((6, 8)) < 0.9), W_K * (rng.random((6, 4)) < 0.9))
    return layer, less, rng.uniform(-2, 2, 6)


def _logits(layer: apv.AttentionLayer, X: NDArray[Any]) -> NDArray[Any]:
    queries, keys = Heads(layer, X).sides([layer.W_Q, layer.W_K])
    return np.asarray(queries @ keys.swapaxes(1, 2))


def _texts(rng: np.random.Generator, gamma: NDArray[Any], n: int, count: int) -> list[NDArray[Any]]:
    drawn = rng.normal(size=(count, n, len(gamma)))
    return list(gamma * drawn * np.sqrt(len(gamma)) / np.linalg.norm(drawn, axis=2, keepdims=True))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rope": apv.RoPE(30.0)},
        {"rope": apv.RoPE(30.0), "mask": None},
        {"b_Q": np.arange(8.0) / 4, "alibi": [0.5, 0.1]},
    ],
)
def test_no_text_is_above_the_bound(options: dict[str, Any]) -> None:
    layer, less, gamma = _pair(**options)
    rng, n = np.random.default_rng(0), 7
    found = apv.bound_for_every_text(layer, less, gamma, n)
    for X in _texts(rng, gamma, n, 60):
        seen = np.tri(n, dtype=bool) if layer.mask == "causal" else np.ones((n, n), dtype=bool)
        moved = np.abs(_logits(less, X) - _logits(layer, X))[:, seen].max(axis=1)
        assert (moved <= found.logit).all()
        f, F = apv.layer_attention(layer, X), apv.layer_attention(less, X)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = np.where(f > 0, f * np.log(f / F), 0.0).sum(axis=2)
        assert (rows.max(axis=1) <= found.kl).all()


def test_a_text_reaches_the_bound_of_a_logit() -> None:
    """Tokens along the singular vectors of the worst distance; a bound 1 % smaller would be wrong."""
    layer, less, gamma = _pair(rope=apv.RoPE(30.0))
    n = 5
    found = apv.bound_for_every_text(layer, less, gamma, n)
    reached = np.zeros(2)
    for distance in range(n):
        for head in (0, 1):
            columns = slice(4 * head, 4 * head + 4)
            turn = layer.rope.turn(np.eye(4), np.full(4, distance)) if layer.rope else np.eye(4)
            change = less.W_Q[:, columns] @ turn @ less.W_K.T - layer.W_Q[:, columns] @ turn @ layer.W_K.T
            left, _, right = np.linalg.svd(gamma[:, None] * change * gamma)
            X = np.ones((n, 6))
            X[distance], X[0] = gamma * left[:, 0] * np.sqrt(6), gamma * right[0] * np.sqrt(6)
            if distance == 0:
                continue
            moved = np.abs(_logits(less, X) - _logits(layer, X))[head, distance, 0]
            reached[head] = max(reached[head], moved)
    assert (reached <= found.logit).all()
    short = apv.bound_for_every_text(layer, less, gamma, 1).logit
    assert ((reached >= 0.99 * found.logit) | (short >= 0.99 * found.logit)).all()


def test_hoeffding_is_nearly_attained_for_small_moves() -> None:
    """Two positions of equal weight whose logits move apart by w: KL is w^2/8 to leading order."""
    w = 1e-2
    kl = np.log(np.cosh(w / 2))
    assert 0.999 * kl_of_range(w) <= kl <= kl_of_range(w)


def test_nothing_changed_moves_nothing() -> None:
    layer, _, gamma = _pair(rope=apv.RoPE(30.0))
    assert apv.bound_for_every_text(layer, layer, gamma, 4).logit.max() < 1e-9


def test_what_does_not_fit_is_refused() -> None:
    layer, less, gamma = _pair()
    with pytest.raises(apv.InvalidInstance, match="one entry per feature"):
        apv.bound_for_every_text(layer, less, gamma[:5], 4)
    with pytest.raises(apv.InvalidInstance, match="differ in"):
        apv.bound_for_every_text(
            layer, apv.AttentionLayer(layer.W_Q, layer.W_K, heads=2, kv_heads=1, scale=3.0), gamma, 4
        )
    with pytest.raises(apv.InvalidInstance, match="n must be"):
        apv.bound_for_every_text(layer, less, gamma, 0)


def test_distances_to_both_sides_count_without_a_causal_mask() -> None:
    """One feature turned on one side only: what counts is the distance j - i < 0 that a causal mask forbids."""
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(8):
        W_Q, W_K, less = (rng.normal(size=(2, 4)) for _ in range(3))
        seen = apv.AttentionLayer(W_Q, W_K, rope=apv.RoPE(5.0))
        causal = apv.AttentionLayer(W_Q, W_K, rope=apv.RoPE(5.0), mask="causal")
        both, one = (
            apv.bound_for_every_text(layer, layer.with_weights(less, W_K), np.ones(2), 4).logit[0]
            for layer in (seen, causal)
        )
        assert both >= one
        worst = max(worst, both / one)
    assert worst > 1.01
