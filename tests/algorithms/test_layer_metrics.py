"""The Fisher metrics are the KL's second derivative: against autograd, finite differences, and the sums written out."""

import numpy as np
import pytest

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.divergence import Divergence
from attnprune_verify.algorithms.layer.fisher import (
    fisher_diagonal,
    key_metric,
    query_metric,
    row_weights,
    squared_query_metric,
    squared_row_weights,
)
from attnprune_verify.algorithms.layer.heads import join_heads, split_heads
from attnprune_verify.algorithms.layer.multiplier import key_target, query_target
from attnprune_verify.model.layer_functions import layer_hessian_vector_product
from attnprune_verify.oracle import autodiff, loops
from attnprune_verify.oracle.inputs import layered
from tests.model.layers import KINDS, random_layer, rotations

ROUNDING = 1e-12


def second_derivatives(layer, X, side, heads, d, m):
    """The KL's Hessian at the dense weights within every head's block of W_Q (side 0) or W_K (side 1), by autograd.

    The KL is a sum over heads, so one direction moves the same entry of all blocks.
    """
    at = layered(layer, None, None, X)
    columns = []
    for p in range(d):
        for c in range(m):
            along = [np.zeros(W.shape) for W in at.weights]
            along[side][p, c::m] = 1
            moved = autodiff.divergence_hessian_vector_product(at, at.weights, along)
            columns.append(moved[side].reshape(d, heads, m).swapaxes(0, 1))
    return np.array(columns).reshape(d, m, heads, d, m).transpose(2, 0, 1, 3, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_are_the_second_derivative_of_the_divergence(kind):
    d, m = 2, 4
    layer, X = random_layer(kind, seed=3, d=d, m=m, n=5)
    data = Calibration(layer, X)
    G_Q, G_K = query_metric(data, data.keys), key_metric(data, data.queries, row_weights(data))
    h_Q, h_K = fisher_diagonal(data)
    for side, heads, G, h in ((0, layer.heads, G_Q, h_Q), (1, layer.kv_heads, G_K, h_K)):
        exact = second_derivatives(layer, X, side, heads, d, m)
        np.testing.assert_allclose(G, np.einsum("hpcpe->hce", exact), atol=ROUNDING * np.abs(exact).max())
        np.testing.assert_allclose(h, np.einsum("hpcpc->hpc", exact), atol=ROUNDING * np.abs(exact).max())


@pytest.mark.parametrize("kind", ["groups", "rope half", "rope interleaved"])
def test_diagonals_against_finite_differences(kind):
    layer, X = random_layer(kind, seed=4, d=3, n=5)
    h_Q, h_K = (join_heads(h) for h in fisher_diagonal(Calibration(layer, X)))
    step = 1e-3
    for side, h in enumerate((h_Q, h_K)):
        for p, c in [(0, 0), (2, 3), (1, 2)]:
            moved = [layer.W_Q.copy(), layer.W_K.copy()]
            moved[side][p, c] += step
            up = autodiff.divergence(layered(layer, None, None, X), *moved)
            moved[side][p, c] -= 2 * step
            down = autodiff.divergence(layered(layer, None, None, X), *moved)
            assert (up + down) / step**2 == pytest.approx(h[p, c], rel=1e-4)  # the KL is 0 at the dense weights


@pytest.mark.parametrize("kind", ["heads, causal", "groups, given mask", "rope half", "rope llama3"])
def test_metrics_at_pruned_partners(kind):
    """With dense F and a pruned partner the metric is sum_i D_i^T J_i D_i, D_i the derivatives of row i's logits."""
    layer, X = random_layer(kind, seed=5, d=3, n=5)
    rng = np.random.default_rng(6)
    data = Calibration(layer, X)
    A_Q, A_K = layer.W_Q * (rng.random(layer.W_Q.shape) < 0.5), layer.W_K * (rng.random(layer.W_K.shape) < 0.5)
    keys, queries = data.keys_of(split_heads(A_K, layer.kv_heads)), data.queries_of(split_heads(A_Q, layer.heads))
    G_Q, G_K = query_metric(data, keys), key_metric(data, queries, row_weights(data))
    by_hand_Q, by_hand_K = metrics_by_hand(layer, X, A_Q, A_K)
    np.testing.assert_allclose(G_Q, by_hand_Q, atol=ROUNDING * np.abs(by_hand_Q).max())
    np.testing.assert_allclose(G_K, by_hand_K, atol=ROUNDING * np.abs(by_hand_K).max())


def metrics_by_hand(layer, X, A_Q, A_K):
    m, d, n = layer.m, layer.d, X.shape[1]
    turns = rotations(layer.rope, n, m)
    dense = loops.attention(layered(layer, None, None, X))
    G_Q, G_K = np.zeros((layer.heads, m, m)), np.zeros((layer.kv_heads, m, m))
    b_Q = np.zeros(layer.heads * m) if layer.b_Q is None else layer.b_Q
    b_K = np.zeros(layer.kv_heads * m) if layer.b_K is None else layer.b_K
    for tokens, F in zip(X, dense, strict=True):
        for head in range(layer.heads):
            group = head // layer.group
            q = (tokens @ A_Q + b_Q)[:, head * m : (head + 1) * m]
            k = (tokens @ A_K + b_K)[:, group * m : (group + 1) * m]
            for i in range(n):
                J = np.diag(F[head, i]) - np.outer(F[head, i], F[head, i])
                between = [turns[i].T @ turns[j] for j in range(n)]
                by_Q = layer.scale * np.array([np.outer(tokens[i], between[j] @ k[j]) for j in range(n)])
                by_K = layer.scale * np.array([np.outer(tokens[j], between[j].T @ q[i]) for j in range(n)])
                G_Q[head] += np.einsum("jpc,jl,lpe->ce", by_Q, J, by_Q)
                G_K[group] += np.einsum("jpc,jl,lpe->ce", by_K, J, by_K)
    assert by_Q.shape == (n, d, m)
    return G_Q, G_K


@pytest.mark.parametrize("kind", ["heads", "groups", "groups, given mask"])
def test_the_squared_metric_is_the_second_derivative_of_the_loss(kind):
    """With all masks 1 the loss's Hessian in the masks, divided by the weights, is that of 1/2 ||F~ - F||^2."""
    d, m = 2, 4
    layer, X = random_layer(kind, seed=3, d=d, m=m, n=5, k=1)
    data = Calibration(layer, X)
    G_Q = squared_query_metric(data, data.keys)
    G_K = key_metric(data, data.queries, squared_row_weights(data))
    ones = np.ones_like(layer.W_Q), np.ones_like(layer.W_K)
    for side, (G, W, heads) in enumerate(((G_Q, layer.W_Q, layer.heads), (G_K, layer.W_K, layer.kv_heads))):
        exact = np.zeros_like(G)
        for block in range(heads):
            for p in range(d):
                for c in range(m):
                    along = [np.zeros_like(layer.W_Q), np.zeros_like(layer.W_K)]
                    along[side][p, block * m + c] = 1 / W[p, block * m + c]
                    moved = layer_hessian_vector_product(layer, *ones, *along, X)[side] / W
                    exact[block, c] += moved[p, block * m : (block + 1) * m]
        np.testing.assert_allclose(G, exact, atol=ROUNDING * np.abs(exact).max())


def test_a_metric_without_the_rotation_inside_is_seen():
    """Leaving the keys turned by R_j and not turning back by R_i is not the second derivative."""
    layer, X = random_layer("rope half", seed=3, d=3, n=5)
    data = Calibration(layer, X)
    wrong = layer.scale**2 * np.einsum("hce->hce", _without_turning_back(data))
    right = query_metric(data, data.keys)
    assert np.abs(wrong - right).max() > 1e-3 * np.abs(right).max()


def _without_turning_back(data):
    from attnprune_verify.algorithms.layer.fisher import centred_products

    return centred_products(data, data.keys, data.keys)


@pytest.mark.parametrize("kind", KINDS)
def test_the_divergence_and_its_gradient(kind):
    layer, X = random_layer(kind, seed=7)
    rng = np.random.default_rng(8)
    A = [W * rng.uniform(0.5, 1.5, W.shape) for W in (layer.W_Q, layer.W_K)]
    blocks = split_heads(A[0], layer.heads), split_heads(A[1], layer.kv_heads)
    value, of_Q, of_K = Divergence(Calibration(layer, X)).value_and_gradient(*blocks)
    assert value == pytest.approx(autodiff.divergence(layered(layer, None, None, X), *A), rel=1e-11)
    for mine, exact in zip((of_Q, of_K), autodiff.divergence_gradient(layered(layer, None, None, X), *A), strict=True):
        np.testing.assert_allclose(join_heads(mine), exact, atol=1e-12 * np.abs(exact).max())


@pytest.mark.parametrize("kind", ["heads", "groups", "rope half", "rope interleaved"])
def test_the_multiplier_undoes_a_turn_of_the_partner(kind):
    """If the queries become q B, the keys must become k B^-T (where B commutes with the rotations)."""
    layer, X = random_layer(kind, seed=9, d=12, n=12, k=3)
    data = Calibration(layer, X)
    B = np.array([[0.8, 0.5], [-0.5, 0.8]])
    full = np.zeros((4, 4))
    pairs = [(0, 2), (1, 3)] if layer.rope is None or layer.rope.layout == "half" else [(0, 1), (2, 3)]
    for pair, factor in zip(pairs, (1.0, 1.7), strict=True):
        full[np.ix_(pair, pair)] = factor * B
    constant = np.zeros(12)  # the biases' share is tested on its own
    target = key_target(data, data.queries @ full, row_weights(data), constant, 1e-3)
    np.testing.assert_allclose(target, data.W_K @ np.linalg.inv(full).T, rtol=0.02, atol=0.02)
    target = query_target(data, data.keys @ full, constant, 1e-3)
    np.testing.assert_allclose(target, data.W_Q @ np.linalg.inv(full).T, rtol=0.02, atol=0.02)


def test_the_ridge_holds_the_multiplier_at_the_identity():
    layer, X = random_layer("heads", seed=9, d=12, n=12, k=3)
    data = Calibration(layer, X)
    moved = [
        np.linalg.norm(key_target(data, 0.5 * data.queries, row_weights(data), np.zeros(12), ridge) - data.W_K)
        for ridge in (1e-3, 0.1, 10.0, 1e6)
    ]
    assert moved == sorted(moved, reverse=True) and moved[-1] < 1e-4 * moved[0]


def test_biases_are_made_up_for():
    """With tokens that can express a constant, (x A + b) T is met although b is kept."""
    layer, X = random_layer("heads", seed=10, d=6, n=12, k=3)
    X[..., 0] = 1.0
    data = Calibration(layer, X)
    constant = np.eye(6)[0]
    full = np.diag([0.5, 1.0, 2.0, 1.5])

    def misfit(constant):
        queries = data.queries_of(query_target(data, data.keys @ full, constant, 1e-3))
        wanted = data.queries @ np.linalg.inv(full)
        return np.linalg.norm(queries - wanted) / np.linalg.norm(wanted)

    assert misfit(constant) < 0.05 and 3 * misfit(constant) < misfit(np.zeros(6))
