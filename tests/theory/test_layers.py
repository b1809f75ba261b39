"""Constants and assumptions per head: one head is the fused problem, and every other's K is that of its own logits."""

import numpy as np
import pytest

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model.layer_functions import layer_attention
from attnprune_verify.theory.assumptions import assumptions
from attnprune_verify.theory.constants import NAMES, constants
from attnprune_verify.theory.heads import head_floors, head_norms, head_weights, tokens_of
from attnprune_verify.theory.layers import layer_assumptions, layer_constants
from attnprune_verify.theory.quantities.rotated import RotatedMap

RNG = np.random.default_rng(7)


def layer(heads=4, kv_heads=2, m=2, d=3, biases=True, **more):
    arrays = {"W_Q": (d, heads * m), "W_K": (d, kv_heads * m)}
    if biases:
        arrays |= {"b_Q": (heads * m,), "b_K": (kv_heads * m,)}
    drawn = {name: RNG.standard_normal(shape) for name, shape in arrays.items()}
    return AttentionLayer(**drawn, heads=heads, kv_heads=kv_heads, **more)


LAYERS = {
    "groups, biases": layer(mask="causal"),
    "no bias, its own scale": layer(biases=False, scale=0.3),
    "rotations": layer(rope=RoPE(50.0), mask="causal"),
    "rotations in pairs, a window": layer(rope=RoPE(50.0, "interleaved"), biases=False, window=2),
    "falling with distance": layer(alibi=[0.5, 0.25, 0.1, 0.0]),
}


def logits(instance, head, M):
    """The head's logits with every product x_a weight_ab x_b of the fused weight times M_ab, entry by entry."""
    X, (U, V), rope = tokens_of(instance), head_weights(instance)[head], instance.layer.rope
    found = np.zeros((len(X), instance.n, instance.n))
    for i in range(instance.n):
        for j in range(instance.n):
            left, right = (turned(rope, side, place) for side, place in ((U, i), (V, j)))
            found[:, i, j] = np.einsum("ka,ab,kb->k", X[:, i], M * (left @ right.T), X[:, j])
    return found


def turned(rope, side, place):
    return side if rope is None else rope.rotate(side[:, None, :], start=place)[:, 0]


def centred(instance, z):
    allowed = instance.layer.visible.allowed(instance.n)
    kept = np.where(allowed, z, 0.0)
    return kept - allowed * (kept.sum(axis=-1, keepdims=True) / allowed.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", LAYERS)
def test_K_of_a_head_is_the_norm_of_its_own_logits(name):
    instance = LayerInstance(LAYERS[name], RNG.standard_normal((2, 4, 3)))
    d = tokens_of(instance).shape[2]
    for head, norm in enumerate(head_norms(instance)):
        z = logits(instance, head, np.ones((d, d)))
        if instance.layer.alibi is None:  # what is judged is what the layer computes
            weights = np.exp(z) * instance.layer.visible.allowed(4)
            F = layer_attention(instance.layer, instance.X)[:, head]
            np.testing.assert_allclose(weights / weights.sum(axis=-1, keepdims=True), F, rtol=1e-9, atol=1e-14)
        units = np.eye(d * d).reshape(-1, d, d)
        columns = [centred(instance, logits(instance, head, unit)).ravel() for unit in units]
        truth = np.linalg.norm(np.stack(columns, axis=1), 2) / np.sqrt(2)
        assert float(norm.lower) <= truth * (1 + 1e-12) and truth <= float(norm.upper) * (1 + 1e-15)
        assert float(norm.upper) <= truth * (1 + 1e-6) and float(norm.lower) >= truth * (1 - 1e-6)


def test_a_rotation_the_other_way_has_another_K():
    """The norm sees the direction of the rotation: U R_{i-j} V^T is not U R_{j-i} V^T."""
    instance = LayerInstance(LAYERS["rotations"], RNG.standard_normal((4, 3)))
    X, (U, V) = tokens_of(instance), head_weights(instance)[0]
    allowed = instance.layer.visible.allowed(4)
    other = RotatedMap(X, U[:, ::-1], V[:, ::-1], RoPE(50.0), allowed)  # the pairs exchanged: turns the other way
    there, back = (np.linalg.norm(one.gram(), 2) for one in (RotatedMap(X, U, V, RoPE(50.0), allowed), other))
    assert abs(there - back) > 1e-3 * there


@pytest.mark.parametrize(("n", "d", "m"), [(6, 8, 4), (12, 5, 2)])
def test_the_product_bound_holds(n, d, m):
    X, U, V = RNG.standard_normal((2, n, d)), RNG.standard_normal((d, m)), RNG.standard_normal((d, m))
    for mask in (np.ones((n, n), dtype=bool), np.tri(n, dtype=bool)):
        head = RotatedMap(X, U, V, RoPE(100.0), mask)
        truth = np.sqrt(np.linalg.norm(head.gram(), 2))
        assert truth <= head.product_bound() <= 3.5 * truth


def test_one_head_is_the_fused_problem():
    W_Q, W_K, X = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3))
    fused = Instance(X, 0.5 * W_Q @ W_K.T, lam=0.01)
    one = LayerInstance(AttentionLayer(W_Q, W_K, scale=0.5), X, lam=0.01)
    found, wanted = layer_constants(one), constants(fused)
    for name in NAMES:
        assert found[name] == pytest.approx(wanted[name], rel=1e-12), name
        assert found.per_head[name] == (found[name],)
    judged = {item.id: item for item in layer_assumptions(one)}
    for item in assumptions(fused):
        assert judged[item.id].holds == item.holds, item.id
        if item.id != "M-norm":  # that of the pair of masks
            assert judged[item.id].value == pytest.approx(item.value, rel=1e-12), item.id


def test_the_worst_head_counts_and_all_stand_beside_it():
    instance = LayerInstance(LAYERS["groups, biases"], RNG.standard_normal((4, 3)), lam=0.1)
    found = layer_constants(instance)
    assert len(found.per_head["K"]) == 4 and found["K"] == max(found.per_head["K"])
    assert found["min_abs_W"] == min(found.per_head["min_abs_W"]) and found["L_sharp"] == max(found.per_head["L_sharp"])
    F = layer_attention(instance.layer, instance.X)
    lowest = [head[np.tri(4, dtype=bool)].min() for head in F]
    assert found.per_head["delta_allowed"] == pytest.approx(lowest, rel=1e-9) and found["delta"] == 0.0
    judged = {item.id: item for item in layer_assumptions(instance)}
    assert judged["delta-allowed"].per_head == pytest.approx(lowest, rel=1e-9)
    assert not judged["delta"].holds and judged["delta-allowed"].value == pytest.approx(min(lowest))


@pytest.mark.parametrize("name", ["rotations", "falling with distance"])
def test_without_a_fused_problem_the_papers_constants_are_none_with_the_reason(name):
    instance = LayerInstance(LAYERS[name], RNG.standard_normal((4, 3)))
    found = layer_constants(instance)
    assert found["K"] > 0 and found["L_sharp"] == pytest.approx(0.3081171402 * found["K"] ** 2)
    for constant in ("mu_paper", "xi_paper", "T_paper", "L_paper", "min_abs_W", "kappa_T"):
        assert found[constant] is None and found.per_head[constant] is None and found.reasons[constant]
    judged = {item.id: item for item in layer_assumptions(instance)}
    assert not judged["W-nonzero"].known and judged["W-nonzero"].reason
    F = layer_attention(instance.layer, instance.X)
    allowed = instance.layer.visible.allowed(4)
    assert found["delta_allowed"] == pytest.approx(min(head[allowed].min() for head in F), rel=1e-9)


def test_a_softcap_leaves_no_K_and_masks_move_delta():
    capped = layer(softcap=2.0)
    instance = LayerInstance(capped, RNG.standard_normal((4, 3)))
    found = layer_constants(instance)
    assert found["K"] is None and "softcap" in found.reasons["K"] and found["delta"] > 0
    masks = [RNG.uniform(0, 1, weight.shape) for weight in (capped.W_Q, capped.W_K)]
    pruned = instance.with_masks(*masks)
    F = layer_attention(capped.with_weights(masks[0] * capped.W_Q, masks[1] * capped.W_K), instance.X)
    assert [float(floor.allowed) for floor in head_floors(pruned)] == pytest.approx(
        [head.min() for head in F], rel=1e-9
    )
