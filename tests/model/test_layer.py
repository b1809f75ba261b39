"""Real attention layers: the model against independent oracles, wrong models the oracles catch, laws, bad input."""

import copy
import pickle

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model.functions import attention
from attnprune_verify.model.fusion import fused_mask_ranks, fused_weight, sum_of_heads
from attnprune_verify.model.layer_functions import (
    factored_gradient,
    factored_loss,
    layer_attention,
    layer_gradient,
    layer_hessian_vector_product,
    layer_loss,
    layer_relative_error,
)
from attnprune_verify.model.objective import Objective
from attnprune_verify.oracle import autodiff, ball, loops, taylor
from attnprune_verify.oracle.inputs import layered
from tests.model.layers import KINDS, LLAMA3, MODIFIED, random_layer, random_masks, rotations

ROUNDING = 2e-14


def distance(pair, other):
    """The larger of the two relative distances in the Frobenius norm."""
    return max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(pair, other, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_against_loops_autodiff_and_balls(kind):
    layer, X = random_layer(kind)
    M_Q, M_K = random_masks(layer)
    assert ball.layer_attention(layer, X).distance(layer_attention(layer, X)).max() < 1e-14
    np.testing.assert_allclose(layer_attention(layer, X), loops.attention(layered(layer, None, None, X)), atol=1e-14)
    value = layer_loss(layer, M_Q, M_K, X, 0.3)
    assert ball.layer_loss(layer, M_Q, M_K, X, 0.3).distance(value).max() < 1e-14 * value
    assert value == pytest.approx(loops.loss(layered(layer, M_Q, M_K, X, 0.3)), rel=1e-14)
    assert value == pytest.approx(autodiff.loss(layered(layer, M_Q, M_K, X, 0.3)), rel=1e-14)
    gradients = layer_gradient(layer, M_Q, M_K, X, 0.3)
    assert distance(gradients, loops.gradient(layered(layer, M_Q, M_K, X, 0.3))) < ROUNDING
    assert distance(gradients, autodiff.gradient(layered(layer, M_Q, M_K, X, 0.3))) < ROUNDING
    for gradient, enclosure in zip(gradients, ball.layer_gradient(layer, M_Q, M_K, X, 0.3), strict=True):
        assert enclosure.distance(gradient).max() < ROUNDING * np.abs(gradient).max()


@pytest.mark.parametrize("kind", KINDS)
def test_hessian_vector_products(kind):
    layer, X = random_layer(kind, seed=1)
    point, along = random_masks(layer, 1), random_masks(layer, 2)
    product = layer_hessian_vector_product(layer, *point, *along, X, 0.2)
    assert distance(product, loops.hessian_vector_product(layered(layer, *point, X, 0.2), *along)) < 1e-13
    assert distance(product, autodiff.hessian_vector_product(layered(layer, *point, X, 0.2), *along)) < 1e-13


@pytest.mark.parametrize("kind", ["groups", "rope half", "rope interleaved"])
def test_taylor_slope(kind):
    layer, X = random_layer(kind, seed=2)
    point = random_masks(layer)
    rng = np.random.default_rng(5)
    along = tuple(rng.choice([-1.0, 1.0], size=M.shape) for M in point)
    right = layer_gradient(layer, *point, X, 0.1)
    assert taylor.slope(layered(layer, *point, X, 0.1), right, along).status == "passed"
    wrong = (right[0], right[1] * (1 + 1e-4))
    assert taylor.slope(layered(layer, *point, X, 0.1), wrong, along).status == "failed"


def _rotated_the_other_way(layer):
    """R_{i-j} in place of R_{j-i}."""
    flipped = RoPE(layer.rope.theta, layer.rope.layout, layer.rope.scaling)
    turn = RoPE.rotate
    object.__setattr__(
        flipped, "rotate", lambda rows, back=False, start=0: turn(flipped, rows, back=not back, start=start)
    )
    return AttentionLayer(
        layer.W_Q, layer.W_K, layer.b_Q, layer.b_K, heads=layer.heads, kv_heads=layer.kv_heads, mask=layer.mask,
        rope=flipped,
    )  # fmt: skip


def _other_layout(layer):
    layout = "half" if layer.rope.layout == "interleaved" else "interleaved"
    return AttentionLayer(
        layer.W_Q, layer.W_K, layer.b_Q, layer.b_K, heads=layer.heads, kv_heads=layer.kv_heads, mask=layer.mask,
        rope=RoPE(layer.rope.theta, layout, layer.rope.scaling),
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [_rotated_the_other_way, _other_layout])
@pytest.mark.parametrize("kind", ["rope half", "rope interleaved"])
def test_wrong_rotations_are_seen(kind, wrong):
    layer, X = random_layer(kind)
    masks = random_masks(layer)
    assert distance(layer_gradient(wrong(layer), *masks, X), loops.gradient(layered(layer, *masks, X))) > 1e-3


def test_interleaved_groups_are_seen():
    """Head h uses key head floor(h / group), not h mod kv_heads."""
    layer, X = random_layer("groups")
    swapped = layer.W_Q.reshape(5, 2, 2, 4).swapaxes(1, 2).reshape(5, 16)
    biases = layer.b_Q.reshape(2, 2, 4).swapaxes(0, 1).ravel()
    other = AttentionLayer(swapped, layer.W_K, biases, layer.b_K, heads=4, kv_heads=2)
    mixed = layer_attention(other, X)[:, [0, 2, 1, 3]]  # query heads in order, key heads h mod 2
    assert np.abs(mixed - loops.attention(layered(layer, None, None, X))).max() > 1e-2


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_logits_depend_on_offsets_only(layout):
    rope = RoPE(100.0, layout, LLAMA3)
    turns = rotations(rope, 7, 6)
    rows = np.random.default_rng(0).normal(size=(7, 6))
    np.testing.assert_allclose(rope.rotate(rows), np.einsum("iab,ib->ia", turns, rows), atol=1e-14)
    np.testing.assert_allclose(rope.rotate(rope.rotate(rows), back=True), rows, atol=1e-14)
    np.testing.assert_allclose(rope.rotate(rows[3:], start=3), rope.rotate(rows)[3:], atol=0)
    for i, j in [(0, 5), (2, 6), (6, 1)]:
        between = turns[j - i] if j >= i else turns[i - j].T
        np.testing.assert_allclose(turns[i].T @ turns[j], between, atol=1e-14)


def test_the_paper_s_attention_is_one_head_without_rope():
    layer, X = random_layer("one head")
    plain = AttentionLayer(layer.W_Q, layer.W_K, scale=1.0, mask="causal")
    np.testing.assert_allclose(
        layer_attention(plain, X)[:, 0], attention(X, layer.W_Q @ layer.W_K.T, "causal"), atol=1e-15
    )
    M_Q, M_K = random_masks(layer)
    arguments = (M_Q, M_K, X, layer.W_Q, layer.W_K, 0.3, "causal")
    assert layer_loss(plain, M_Q, M_K, X, 0.3) == pytest.approx(factored_loss(*arguments), rel=1e-15)
    assert distance(layer_gradient(plain, M_Q, M_K, X, 0.3), factored_gradient(*arguments)) < 1e-14


@pytest.mark.parametrize("kind", ["heads", "rope half"])
def test_laws(kind):
    layer, X = random_layer(kind)
    ones = np.ones_like(layer.W_Q), np.ones_like(layer.W_K)
    assert layer_loss(layer, *ones, X) == 0
    assert all((g == 0).all() for g in layer_gradient(layer, *ones, X))
    assert (layer_relative_error(layer, layer, X) == 0).all()
    rows = layer_attention(layer, X).sum(axis=-1)
    np.testing.assert_allclose(rows, 1, atol=1e-14)
    # A batch is the mean of its samples; shifting all logits of a row (b_K without RoPE) changes nothing.
    masks = random_masks(layer)
    mean = np.mean([layer_loss(layer, *masks, x, 0.1) for x in X])
    assert layer_loss(layer, *masks, X, 0.1) == pytest.approx(mean, rel=1e-13)
    if layer.rope is None:
        unbiased = AttentionLayer(layer.W_Q, layer.W_K, layer.b_Q, heads=layer.heads)
        np.testing.assert_allclose(layer_attention(unbiased, X), layer_attention(layer, X), atol=1e-14)


def test_relative_error_is_the_definition():
    layer, X = random_layer("groups")
    masks = random_masks(layer)
    pruned = layer.with_weights(masks[0] * layer.W_Q, masks[1] * layer.W_K)
    F, changed = loops.attention(layered(layer, None, None, X)), loops.attention(layered(pruned, None, None, X))
    expected = ((changed - F) ** 2).sum(axis=(0, 2, 3)) / (F**2).sum(axis=(0, 2, 3))
    np.testing.assert_allclose(layer_relative_error(layer, pruned, X), expected, rtol=1e-12)


def test_relative_error_with_two_masks():
    layer, X = random_layer("heads")
    causal = AttentionLayer(layer.W_Q, layer.W_K, layer.b_Q, layer.b_K, heads=3, mask="causal")
    F, other = loops.attention(layered(layer, None, None, X)), loops.attention(layered(causal, None, None, X))
    expected = ((other - F) ** 2).sum(axis=(0, 2, 3)) / (F**2).sum(axis=(0, 2, 3))
    np.testing.assert_allclose(layer_relative_error(layer, causal, X), expected, rtol=1e-12)
    given = AttentionLayer(layer.W_Q, layer.W_K, layer.b_Q, layer.b_K, heads=3, mask=np.tri(6))
    np.testing.assert_allclose(layer_relative_error(causal, given, X), 0, atol=1e-25)


def test_float32_stays_and_inputs_do_not_change():
    layer, X = random_layer("rope half")
    small = AttentionLayer(
        layer.W_Q.astype(np.float32), layer.W_K.astype(np.float32), heads=4, kv_heads=2, rope=layer.rope, mask="causal"
    )
    tokens = X.astype(np.float32)
    before = tokens.copy()
    masks = [M.astype(np.float32) for M in random_masks(layer)]
    gradients = layer_gradient(small, *masks, tokens)
    assert layer_attention(small, tokens).dtype == gradients[0].dtype == gradients[1].dtype == np.float32
    assert layer_attention(small, X).dtype == np.float64
    assert (tokens == before).all()
    assert distance(gradients, loops.gradient(layered(small, *masks, tokens))) < 1e-5


def test_long_sequences_are_cut_into_blocks():
    layer, _ = random_layer("rope half")
    X = np.random.default_rng(3).normal(size=(2, 301, 5))
    masks = random_masks(layer)
    whole = layer_attention(layer, X)
    changed = layer_attention(layer.with_weights(masks[0] * layer.W_Q, masks[1] * layer.W_K), X)
    assert layer_loss(layer, *masks, X) == pytest.approx(((changed - whole) ** 2).sum() / 4, rel=1e-12)
    assert (np.triu(whole, 1) == 0).all()


GOOD = {"W_Q": np.ones((4, 6)), "W_K": np.ones((4, 6)), "heads": 3}
BAD_LAYERS = {
    "columns": (GOOD | {"heads": 4}, "columns must divide into heads"),
    "groups": (GOOD | {"kv_heads": 2}, "kv_heads must divide heads"),
    "head size": (GOOD | {"kv_heads": 1}, "query and key heads must have one size m; got 2 .* 6"),
    "rows": (GOOD | {"W_K": np.ones((5, 6))}, "W_K has d = 5 where W_Q has d = 4"),
    "bias": (GOOD | {"b_Q": np.ones(5)}, "b_Q has heads.m = 5"),
    "not finite": (GOOD | {"W_Q": np.full((4, 6), np.nan)}, "W_Q must be finite"),
    "complex": (GOOD | {"W_K": np.ones((4, 6), complex)}, "W_K must hold real numbers"),
    "scale": (GOOD | {"scale": 0.0}, "scale must be finite and > 0; got 0.0"),
    "heads": (GOOD | {"heads": 0}, "heads must be an integer >= 1"),
    "rope": (GOOD | {"rope": "yes"}, "rope must be None or a RoPE"),
    "odd m": ({"W_Q": np.ones((4, 3)), "W_K": np.ones((4, 3)), "rope": RoPE()}, "must be even"),
    "mask": (GOOD | {"mask": "casual"}, "mask must be None"),
    "empty row": (GOOD | {"mask": np.zeros((2, 2))}, "every row of mask must allow"),
}


@pytest.mark.parametrize("case", BAD_LAYERS)
def test_bad_layers(case):
    arguments, message = BAD_LAYERS[case]
    with pytest.raises(InvalidInstance, match=message):
        AttentionLayer(**arguments)


def test_all_shape_problems_at_once():
    with pytest.raises(InvalidInstance, match="(?s)W_K has d = 5.*kv_heads must divide heads.*columns must divide"):
        AttentionLayer(np.ones((4, 7)), np.ones((5, 6)), heads=3, kv_heads=2)


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "yarn"}, "must be one of"),
        ({"rope_type": "llama3", "factor": 8}, "missing low_freq_factor"),
        (LLAMA3 | {"low_freq_factor": 5.0}, "low_freq_factor must be below"),
        ({"rope_type": "linear", "factor": 0}, "factor must be finite and > 0"),
        (3, "scaling must be None or a mapping"),
    ],
)
def test_bad_scaling(scaling, message):
    with pytest.raises(InvalidInstance, match=message):
        RoPE(1e4, scaling=scaling)


@pytest.mark.parametrize("theta", [1.0, np.inf, "1e4", None])
def test_bad_theta(theta):
    with pytest.raises(InvalidInstance, match="theta must be"):
        RoPE(theta)


def test_bad_calls():
    layer, X = random_layer("groups")
    masks = random_masks(layer)
    with pytest.raises(InvalidInstance, match="X has d = 4 where W_Q has d = 5"):
        layer_attention(layer, X[..., :4])
    with pytest.raises(InvalidInstance, match="(?s)M_Q has d = 4.*M_K has kv_heads.m = 7"):
        layer_loss(layer, masks[0][:4], masks[1][:, :7], X)
    with pytest.raises(InvalidInstance, match="M_K must hold real numbers"):
        layer_gradient(layer, masks[0], None, X)
    for call in (lambda: layer_attention("layer", X), lambda: layer_loss(None, *masks, X)):
        with pytest.raises(InvalidInstance, match="layer must be an AttentionLayer; got"):
            call()
    with pytest.raises(InvalidInstance, match="lam must be"):
        layer_loss(layer, *masks, X, -1.0)
    with pytest.raises(InvalidInstance, match="as many heads"):
        layer_relative_error(layer, random_layer("heads")[0], X)
    with pytest.raises(InvalidInstance, match=r"mask must have shape \(n, n\) = \(6, 6\)"):
        layer_attention(AttentionLayer(layer.W_Q, layer.W_K, heads=4, kv_heads=2, mask=np.eye(3)), X)
    with pytest.raises(InvalidInstance, match="logits must be finite"):
        layer_attention(layer, 1e200 * X)
    with pytest.raises(AttributeError, match="does not change"):
        layer.heads = 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
@pytest.mark.parametrize("kind", ["groups, given mask", "rope half", "rope llama3", "rope linear"])
def test_a_copy_is_the_same_layer_and_cannot_be_changed_either(copied, kind):
    layer, X = random_layer(kind)
    again = copied(layer)
    assert (layer_attention(again, X) == layer_attention(layer, X)).all()
    assert again.rope == layer.rope and repr(again) == repr(layer)
    for array in (again.W_Q, again.W_K, again.b_Q, again.mask):
        if isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                array[..., 0] = 2
    for change in (lambda: setattr(again, "heads", 3), lambda: delattr(again, "mask")):
        with pytest.raises(AttributeError, match="does not change"):
            change()


@pytest.mark.parametrize("kind", ["heads", "rope half", "rope interleaved"])
def test_one_fused_weight_for_every_offset(kind):
    layer, X = random_layer(kind)
    plain = AttentionLayer(
        layer.W_Q, layer.W_K, heads=layer.heads, kv_heads=layer.kv_heads, rope=layer.rope, mask=layer.mask
    )
    F = layer_attention(plain, X[0])
    for head in range(layer.heads):
        logits = np.array(
            [[x @ fused_weight(plain, head, j - i) @ y for j, y in enumerate(X[0])] for i, x in enumerate(X[0])]
        )
        weights = np.where(np.tri(6) > 0 if layer.mask else True, np.exp(logits), 0)
        np.testing.assert_allclose(weights / weights.sum(axis=1, keepdims=True), F[head], atol=1e-14)


def test_a_fused_mask_is_rarely_deployable():
    rng = np.random.default_rng(0)
    layer, _ = random_layer("heads", d=12, m=2)
    mask = rng.random((12, 12)) < 0.5
    assert fused_mask_ranks(layer, 1, np.ones((12, 12))).deployable
    assert fused_mask_ranks(layer, 1, np.outer(mask[0], mask[1])).deployable  # whole rows and columns
    assert not fused_mask_ranks(layer, 1, mask).deployable
    turned, _ = random_layer("rope half", d=12, m=4)
    assert fused_mask_ranks(turned, 3, np.outer(mask[0], mask[1])).deployable
    ranks = fused_mask_ranks(turned, 3, mask)
    assert not ranks.deployable and len(ranks.ranks) == 4 and ranks.largest == 2


@pytest.mark.parametrize("kind", KINDS | MODIFIED)
def test_repeated_key_heads_compute_the_sum(kind):
    """One softmax of the heads' summed logits under the layer's own mask, compared with each head by the definition."""
    layer, X = random_layer(kind)
    refused = [name for name in ("rope", "softcap", "alibi") if getattr(layer, name) is not None]
    if refused:
        with pytest.raises(InvalidInstance, match=f"no place for {refused[0]}"):
            sum_of_heads(layer, X[0])
        return
    gap = sum_of_heads(layer, X[0])
    assert gap.logits_to_sum_of_heads < 1e-14
    Q, K = (X[0] @ W + (0.0 if b is None else b) for W, b in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K)))
    m = layer.m
    logits = [layer.scale * part(Q, h, m) @ part(K, h // layer.group, m).T for h in range(layer.heads)]
    allowed = layer.visible.allowed(6)
    one, *each = (np.exp(np.where(allowed, z, -np.inf)) for z in (sum(logits), *logits))
    one, *each = (w / w.sum(axis=1, keepdims=True) for w in (one, *each))
    nearest = min(np.linalg.norm(one - F) / np.linalg.norm(F) for F in each)
    assert gap.attention_to_nearest_head == pytest.approx(nearest, rel=1e-9, abs=1e-12)


def part(rows, head, m):
    return rows[:, head * m : (head + 1) * m]


def test_the_relative_error_of_a_batch_is_that_of_all_its_samples_together():
    """Per head, by the objective too: a sample of sharp rows weighs more than one of uniform rows."""
    layer, X = random_layer("heads, causal", 3)
    X, masks = np.stack([4 * X[0], 0.2 * X[1]]), random_masks(layer, 3)
    pruned = layer.with_weights(*(M * W for M, W in zip(masks, (layer.W_Q, layer.W_K), strict=True)))
    found = Objective(layer, X).relative_error(*masks)
    np.testing.assert_allclose(found, layer_relative_error(layer, pruned, X), rtol=1e-10)
    each = np.mean([layer_relative_error(layer, pruned, x) for x in X], axis=0)
    assert (np.abs(found - each) > 0.01 * found).any()
