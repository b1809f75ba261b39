"""Masks that compose and modified scores: the model against their definitions, written out with dense arrays."""

import numpy as np
import pytest

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.divergence import Divergence
from attnprune_verify.algorithms.layer.fisher import fisher_diagonal, key_metric, query_metric, row_weights
from attnprune_verify.algorithms.layer.prune import prune_layer
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import Causal, Full, Given, Window, as_mask
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.scores import Softcap, modify
from attnprune_verify.model.layer_functions import (
    layer_attention,
    layer_gradient,
    layer_hessian_vector_product,
    layer_loss,
)
from tests.model.layers import MODIFIED, random_layer, random_masks

RNG = np.random.default_rng(0)
MASKS = {
    "full": Full(),
    "causal": Causal(),
    "window": Window(3),
    "causal window": Causal() & Window(5),
    "window 1": Causal() & Window(1),
    "given": Given(np.maximum(np.eye(97), RNG.random((97, 97)) < 0.1)),
    "given window": Given(np.maximum(np.eye(97), RNG.random((97, 97)) < 0.3)) & Window(20),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("k", [1, 3])
def test_blocks_of_rows_hold_exactly_what_the_mask_allows(name, k):
    mask, n = MASKS[name], 97
    seen = np.zeros((n, n), bool)
    for block in mask.blocks(k, n):
        part = np.ones(block.shape)
        block.fill_forbidden(part, 0.0)
        seen[block.rows, block.columns] = part.astype(bool)
    np.testing.assert_array_equal(seen, mask.allowed(n))


def test_windows_are_as_the_contract_says():
    i, j = np.indices((9, 9))
    np.testing.assert_array_equal(Window(3).allowed(9), abs(i - j) < 3)
    np.testing.assert_array_equal((Causal() & Window(3)).allowed(9), (i >= j) & (i - j < 3))
    assert Causal() & Full() == Causal() == Full() & Causal() == Causal() & Causal()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(0), "window must be an integer >= 1; got 0"),
        (lambda: Window(2.5), "window must be an integer >= 1"),
        (lambda: as_mask(Given(np.eye(3)), 4), r"mask must have shape \(n, n\) = \(4, 4\)"),
        (lambda: as_mask(Given(np.eye(3)[::-1]) & Window(2), 3), "2 of 3 rows allow none, first row 0"),
        (lambda: AttentionLayer([[1.0]], [[1.0]], softcap=0), "softcap must be finite and > 0"),
        (lambda: AttentionLayer([[1.0]], [[1.0]], alibi=[[1.0]]), "one slope per head"),
        (lambda: AttentionLayer([[1.0]], [[1.0]], alibi=[np.nan]), "alibi must be finite"),
        (lambda: AttentionLayer([[1.0]], [[1.0]], window="2"), "window must be an integer"),
    ],
)
def test_bad_masks_and_modifiers(make, message):
    with pytest.raises(InvalidInstance, match=message):
        make()


def by_definition(layer, X, W_Q, W_K):
    """F with dense arrays: (k, heads, n, n)."""
    k, n, _ = X.shape
    i, j = np.indices((n, n))
    split = lambda A, b, count: (X @ A + (0 if b is None else b)).reshape(k, n, count, -1).transpose(0, 2, 1, 3)  # noqa: E731
    queries, keys = split(W_Q, layer.b_Q, layer.heads), split(W_K, layer.b_K, layer.kv_heads)
    if layer.rope is not None:
        queries, keys = layer.rope.rotate(queries), layer.rope.rotate(keys)
    S = layer.scale * np.einsum("khia,khja->khij", queries, keys.repeat(layer.group, axis=1))
    if layer.softcap is not None:
        S = layer.softcap * np.tanh(S / layer.softcap)
    if layer.alibi is not None:
        S = S - layer.alibi[:, None, None] * abs(i - j)
    E = np.where(layer.visible.allowed(n), np.exp(S), 0.0)
    return E / E.sum(axis=-1, keepdims=True)


def difference(function, point, along, h=1e-6):
    """The derivative of a function of two masks along a pair of directions, by a central difference."""
    ahead, behind = ([M + s * h * V for M, V in zip(point, along, strict=True)] for s in (1, -1))
    return (function(ahead) - function(behind)) / (2 * h)


@pytest.mark.parametrize("kind", MODIFIED)
def test_attention_loss_gradient_and_hessian_of_modified_scores(kind):
    layer, X = random_layer(kind)
    M, V = random_masks(layer, 1), random_masks(layer, 2)
    F, changed = (
        by_definition(layer, X, layer.W_Q, layer.W_K),
        by_definition(layer, X, M[0] * layer.W_Q, M[1] * layer.W_K),
    )
    np.testing.assert_allclose(layer_attention(layer, X), F, atol=1e-14)
    value = ((changed - F) ** 2).sum() / 4 + 0.15 * sum((part**2).sum() for part in M)
    assert layer_loss(layer, *M, X, 0.3) == pytest.approx(value, rel=1e-13)
    gradient = layer_gradient(layer, *M, X, 0.3)
    slope = difference(lambda at: layer_loss(layer, *at, X, 0.3), M, V)
    assert sum((g * v).sum() for g, v in zip(gradient, V, strict=True)) == pytest.approx(slope, rel=1e-7)
    curved = layer_hessian_vector_product(layer, *M, *V, X, 0.3)
    for side in (0, 1):
        expected = difference(lambda at, side=side: layer_gradient(layer, *at, X, 0.3)[side], M, V)
        np.testing.assert_allclose(curved[side], expected, atol=1e-7)


def test_caps_chain():
    """tanh of tanh: u2(u1(s)) has the derivatives of a composition."""
    (block,) = Full().blocks(1, 3, height=3)
    s = RNG.normal(size=(1, 3, 3))
    caps = [Softcap(0.7), Softcap(1.3)]

    def both(x):
        return caps[1].cap * np.tanh(caps[0].cap * np.tanh(x / caps[0].cap) / caps[1].cap)

    applied = s.copy()
    bend = modify(caps, applied, block)
    np.testing.assert_allclose(applied, both(s), rtol=1e-14)
    np.testing.assert_allclose(bend.slope, (both(s + 1e-5) - both(s - 1e-5)) / 2e-5, rtol=1e-8)
    np.testing.assert_allclose(bend.curve, (both(s + 1e-4) - 2 * both(s) + both(s - 1e-4)) / 1e-8, rtol=1e-5, atol=1e-6)


def small(kind, seed=0):
    options = {name: value for name, value in MODIFIED[kind].items() if name not in ("mask", "biases")}
    rng = np.random.default_rng(seed)
    heads, kv_heads = options.pop("heads"), options.pop("kv_heads", None)
    shapes = (3, heads * 2), (3, (kv_heads or heads) * 2)
    weights = [rng.normal(size=shape) for shape in shapes]
    return AttentionLayer(*weights, heads=heads, kv_heads=kv_heads, mask="causal", **options), rng.normal(
        size=(2, 5, 3)
    )


@pytest.mark.parametrize("kind", MODIFIED)
def test_metrics_are_the_second_derivatives_of_the_divergence(kind):
    """The diagonal of both Fisher matrices, and the trace of the output metrics, against differences of the KL."""
    layer, X = small(kind)
    data = Calibration(layer, X)
    divergence = Divergence(data)
    h = 1e-4

    def curvature(side, index):
        blocks = [data.W_Q.copy(), data.W_K.copy()]
        values = []
        for step in (h, -h):
            blocks[side][index] += step
            values.append(divergence.value_and_gradient(*blocks)[0])
            blocks[side][index] -= step
        return sum(values) / h**2

    for side, found in enumerate(fisher_diagonal(data)):
        expected = np.array([curvature(side, index) for index in np.ndindex(found.shape)]).reshape(found.shape)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6 * expected.max())
        metric = query_metric(data, data.keys) if side == 0 else key_metric(data, data.queries, row_weights(data))
        np.testing.assert_allclose(np.einsum("haa->ha", metric), found.sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("kind", MODIFIED)
def test_the_divergence_has_the_gradient_it_says(kind):
    layer, X = small(kind, 1)
    data = Calibration(layer, X)
    divergence = Divergence(data)
    weights = [W * RNG.uniform(0.5, 1, W.shape) for W in (data.W_Q, data.W_K)]
    along = [RNG.normal(size=W.shape) for W in weights]
    _, *gradients = divergence.value_and_gradient(*weights)
    slope = difference(lambda at: divergence.value_and_gradient(*at)[0], weights, along)
    assert sum((g * v).sum() for g, v in zip(gradients, along, strict=True)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("kind", MODIFIED)
@pytest.mark.parametrize("method", ["fisher-obs", "fisher-diagonal", "paper-gd"])
def test_layers_with_modified_scores_are_pruned(kind, method):
    layer, X = random_layer(kind, d=8, m=4, n=12, k=3) if "given" not in str(MODIFIED[kind]) else small(kind)
    options = {"steps": 3} if method == "paper-gd" else {}
    result = prune_layer(layer, X, 0.5, method, **options)
    assert result.layer.softcap == layer.softcap and result.layer.window == layer.window
    for mask, count in ((result.mask_Q, layer.heads), (result.mask_K, layer.kv_heads)):
        zeros = (np.asarray(mask) == 0).reshape(len(mask), count, -1).sum(axis=(0, 2))
        assert (zeros == len(mask) * layer.m // 2).all()


def test_a_window_no_wider_than_the_sequence_is_the_mask_itself():
    layer, X = random_layer("heads, causal")
    wide = AttentionLayer(layer.W_Q, layer.W_K, layer.b_Q, layer.b_K, heads=3, mask="causal", window=X.shape[1])
    np.testing.assert_array_equal(layer_attention(wide, X), layer_attention(layer, X))
    assert repr(wide).endswith("mask='causal', window=6)")


def test_alibi_is_a_mask_where_its_slope_is_steep():
    layer = AttentionLayer([[1.0]], [[1.0]], alibi=[1e6], rope=None, mask="causal")
    np.testing.assert_array_equal(layer_attention(layer, [[0.3], [-2.0], [5.0]])[0], np.eye(3))


def test_a_window_of_one_sees_the_diagonal_whatever_the_rotation():
    layer = AttentionLayer(np.ones((2, 2)), np.ones((2, 2)), rope=RoPE(1e4), window=1)
    np.testing.assert_array_equal(layer_attention(layer, np.ones((4, 2)))[0], np.eye(4))
