"""Two masks over several heads: k against the logits themselves, and the claims' chain rule against the library's."""

from fractions import Fraction

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.pair import Pair, norm_of_pair
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.theory import pair
from attnprune_verify.theory.layer_verdicts import layer_theorem
from attnprune_verify.theory.pair import pair_norm
from tests.model.layers import random_layer

PLAIN = ["one head", "heads, causal", "groups, given mask", "two groups of two"]
ROTARY = ["rotary", "rotary groups"]


def drawn(kind: str, seed: int) -> tuple[AttentionLayer, np.ndarray]:
    if kind in ROTARY:  # tokens far from 0, which rotations do not let be centred away
        rng, groups = np.random.default_rng(seed), kind == "rotary groups"
        weights = 0.7 * rng.standard_normal((3, 4)), 0.7 * rng.standard_normal((3, 2 if groups else 4))
        layer = AttentionLayer(*weights, heads=2, kv_heads=1 if groups else 2, rope=RoPE(10.0), mask="causal")
        return layer, 1.0 + 0.3 * rng.standard_normal((4, 3))
    if kind == "two groups of two":  # heads 0 and 1 share their keys, 2 and 3 theirs
        rng = np.random.default_rng(seed)
        weights = 0.7 * rng.standard_normal((3, 8)), 0.7 * rng.standard_normal((3, 4))
        return AttentionLayer(*weights, heads=4, kv_heads=2), 0.7 * rng.standard_normal((4, 3))
    layer, X = random_layer(kind, seed, d=3, m=2, n=4, k=1)
    return layer, X[0]


def turned(rows: np.ndarray, rope: RoPE) -> np.ndarray:
    """Each pair of features as a complex number, times exp(i angle)."""
    angles = np.outer(np.arange(len(rows)), rope.theta ** (-np.arange(0, rows.shape[1], 2) / rows.shape[1]))
    half = rows.shape[1] // 2
    points = (rows[:, :half] + 1j * rows[:, half:]) * np.exp(1j * angles)
    return np.hstack([points.real, points.imag])


def logits(layer: AttentionLayer, X: np.ndarray, P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """(heads, n, n), centred over the allowed positions of each row."""
    allowed = layer.visible.allowed(len(X))
    queries, keys = X @ (P * layer.W_Q), X @ (Q * layer.W_K)
    found = []
    for h in range(layer.heads):
        g = h // layer.group
        sides = queries[:, h * layer.m : (h + 1) * layer.m], keys[:, g * layer.m : (g + 1) * layer.m]
        query, key = sides if layer.rope is None else (turned(side, layer.rope) for side in sides)
        z = layer.scale * query @ key.T
        z = np.where(allowed, z, 0.0)
        found.append(np.where(allowed, z - z.sum(axis=1, keepdims=True) / allowed.sum(axis=1, keepdims=True), 0.0))
    return np.array(found)


@pytest.mark.parametrize("kind", [*PLAIN, *ROTARY])
def test_no_pair_of_masks_moves_the_logits_more(kind: str) -> None:
    """Alternating maximisation: for a fixed side the map is linear, and its largest singular vector the best answer."""
    for seed in range(4):
        layer, X = drawn(kind, seed)
        bound = float(pair_norm(LayerInstance(layer, X)).upper())
        rng = np.random.default_rng(seed)
        P, Q = rng.standard_normal(layer.W_Q.shape), rng.standard_normal(layer.W_K.shape)
        for _ in range(20):
            columns = [logits(layer, X, unit.reshape(P.shape), Q).ravel() for unit in np.eye(P.size)]
            P = np.linalg.svd(np.array(columns).T, full_matrices=False)[2][0].reshape(P.shape)
            columns = [logits(layer, X, P, unit.reshape(Q.shape)).ravel() for unit in np.eye(Q.size)]
            _, values, directions = np.linalg.svd(np.array(columns).T, full_matrices=False)
            Q = directions[0].reshape(Q.shape)
        assert 0.3 * bound <= values[0] <= bound


def test_one_feature_attains_it() -> None:
    layer, X = AttentionLayer([[3.0]], [[-2.0]], scale=0.25), np.array([[1.0], [0.0]])
    size = np.linalg.norm(logits(layer, X, np.ones((1, 1)), np.ones((1, 1))))
    assert size <= float(pair_norm(LayerInstance(layer, X))) <= size * (1 + 1e-9)


def test_far_tokens_cost_what_their_centring_costs() -> None:
    """Tokens that nearly agree at 1e15: the mean is rounded, and the bound must hold for the exact one."""
    X = np.array([[1e15], [1e15 + 0.125], [1e15 + 0.5]])
    exact = [Fraction(value) for value in X.ravel()]
    mean = sum(exact, Fraction(0)) / 3
    keys = float(sum((value - mean) ** 2 for value in exact)) ** 0.5
    queries = float(sum(value**2 for value in exact)) ** 0.5
    bound = float(pair_norm(LayerInstance(AttentionLayer([[1.0]], [[1.0]], scale=1.0), X)).lower())
    assert queries * keys <= bound <= 1.2 * queries * keys


@pytest.mark.parametrize("kind", ["softcap", "groups"])
def test_what_is_not_bilinear_is_refused(kind: str) -> None:
    layer, X = random_layer(kind, 0)
    with pytest.raises(InvalidInstance, match="bilinear"):
        pair_norm(LayerInstance(layer, X))


@pytest.mark.parametrize("kind", PLAIN)
def test_the_claims_see_the_same_layer_as_the_library(kind: str) -> None:
    layer, X = drawn(kind, 3)
    rng = np.random.default_rng(0)
    M_Q, M_K = rng.uniform(size=layer.W_Q.shape), rng.uniform(size=layer.W_K.shape)
    mask = layer.visible.allowed(len(X))
    values = {"X": X, "W_Q": layer.W_Q, "W_K": layer.W_K, "mask": mask, "scale": layer.scale, "lam": 0.0}
    q = Quantities(Case({**values, "heads": layer.heads, "kv_heads": layer.kv_heads}, ""))
    two = Pair(q)
    at = two.at(M_Q, M_K)
    G_Q, G_K = apv.layer_gradient(layer, M_Q, M_K, X)
    np.testing.assert_allclose(at.G_Q, G_Q, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(at.G_K, G_K, rtol=1e-10, atol=1e-14)
    assert two.square(at.c) / 2 == pytest.approx(apv.layer_loss(layer, M_Q, M_K, X), rel=1e-12)
    assert norm_of_pair(q) == pytest.approx(float(pair_norm(LayerInstance(layer, X))), rel=1e-9)
    assert two.entries == M_Q.size + M_K.size and two.rows == layer.heads * int((mask.sum(axis=1) > 1).sum())


@pytest.mark.parametrize("kind", [*PLAIN, "rope half"])
def test_nothing_pulls_away_from_zero(kind: str) -> None:
    """The library's gradient at M_Q = M_K = 0; with biases there is something to pull on, without them nothing."""
    layer, X = drawn(kind, 1)
    zeros = np.zeros(layer.W_Q.shape), np.zeros(layer.W_K.shape)
    G_Q, G_K = apv.layer_gradient(layer, *zeros, X, lam=0.3)
    if layer.b_Q is None:
        assert not G_Q.any() and not G_K.any() and apv.layer_loss(layer, *zeros, X) > 1e-3
    else:
        assert G_Q.any() and G_K.any()


@pytest.mark.parametrize("kind", [*PLAIN, *ROTARY])
def test_the_library_s_gradient_along_descent(kind: str) -> None:
    """eta just below 2/L from M_Q = M_K = 1: the loss stays below its start, where ten times the step leaves it."""
    layer, X = drawn(kind, 2)
    lam, N = 0.05, layer.W_Q.size + layer.W_K.size
    L = float(pair.lipschitz_confined(pair_norm(LayerInstance(layer, X)), N, lam).upper())
    Q, K, losses = np.ones(layer.W_Q.shape), np.ones(layer.W_K.shape), []
    for _ in range(40):
        losses.append(apv.layer_loss(layer, Q, K, X, lam))
        G_Q, G_K = apv.layer_gradient(layer, Q, K, X, lam)
        Q, K = Q - 1.99 / L * G_Q, K - 1.99 / L * G_K
    assert losses[0] == pytest.approx(float(pair.start_loss(N, lam))) and (np.diff(losses) <= 1e-12).all()


def test_check_of_a_rotary_layer_has_a_guarantee() -> None:
    layer, X = drawn("rotary groups", 0)
    instance = LayerInstance(layer, X, lam=0.05)
    (found,) = layer_theorem(instance).guarantees
    N = layer.W_Q.size + layer.W_K.size
    L = float(pair.lipschitz_confined(pair_norm(instance), N, 0.05).upper())
    assert found.id == "pair-descent" and found.applies and found.numbers["loss"] == pytest.approx(0.05 * N / 2)
    assert found.numbers["L"] == pytest.approx(L) and found.numbers["T"] == pytest.approx(1e4 * L / 0.05)
    bent, tokens = random_layer("softcap", 0)
    assert not layer_theorem(LayerInstance(bent, tokens)).guarantees[0].applies


def test_the_claims_turn_as_a_rotary_layer_does() -> None:
    """Frequency 1 and a sample of quarter turns: the gradient of the claims against differences of their loss."""
    rng = np.random.default_rng(5)
    shapes = {"X": (4, 3), "W_Q": (3, 4), "W_K": (3, 2)}
    values = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    q = Quantities(
        Case({**values, "mask": None, "scale": 0.5, "lam": 0.0, "heads": 2, "kv_heads": 1, "turns": True}, "")
    )
    two, point = Pair(q), [rng.uniform(size=shapes[name]) for name in ("W_Q", "W_K")]
    at = two.at(*point)
    for place, G in enumerate((at.G_Q, at.G_K)):
        step = np.zeros(G.shape)
        step[1, 1] = 1e-6
        ends = [[M + sign * step if i == place else M for i, M in enumerate(point)] for sign in (1, -1)]
        losses = [two.square(two.at(*end).c) / 2 for end in ends]
        assert G[1, 1] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-6)
    assert np.abs(at.G_Q - Pair(Quantities(q.case.but(turns=False))).at(*point).G_Q).max() > 1e-3
