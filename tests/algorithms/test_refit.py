"""The bound of a refit against other optimisers, and the best weights against weights nobody chose."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

import attnprune_verify as apv
from attnprune_verify.algorithms.gap.convexity import hessian, least_curvature, reach, still_to_gain
from attnprune_verify.algorithms.gap.mask_gap import BALLS
from attnprune_verify.algorithms.gap.problem import posed_refit


def _layer(**more: Any) -> tuple[apv.AttentionLayer, NDArray[Any]]:
    rng = np.random.default_rng(7)
    layer = apv.AttentionLayer(
        rng.normal(size=(6, 8)), rng.normal(size=(6, 4)), rng.normal(size=8), rng.normal(size=4),
        heads=2, kv_heads=1, **{"rope": apv.RoPE(), "mask": "causal", "alibi": [0.5, 0.1]} | more,
    )  # fmt: skip
    return layer, rng.normal(size=(2, 9, 6))


def _pruned(layer: apv.AttentionLayer) -> tuple[NDArray[Any], NDArray[Any]]:
    """Some zeros on both maps, and kept weights that were moved."""
    return tuple(np.where(np.abs(W) > 0.6, 1.1 * W, 0.0) for W in (layer.W_Q, layer.W_K))


def _divergence(layer: apv.AttentionLayer, weights: tuple[Any, Any], X: NDArray[Any]) -> float:
    """From attention matrices alone."""
    dense, changed = (apv.layer_attention(one, X) for one in (layer, layer.with_weights(*weights)))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(dense > 0, dense * (np.log(dense) - np.log(changed)), 0.0)
    return float(terms.sum() / (dense.shape[0] * dense.shape[-1]))


@pytest.mark.parametrize("on", ["Q", "K"])
def test_another_optimiser_comes_no_lower(on: str) -> None:
    """L-BFGS on attention matrices, with differences for slopes, from where it stands and from the refit."""
    layer, X = _layer()
    weights, place = _pruned(layer), "QK".index(on)
    found = apv.certified_refit(layer, X, weights=weights, on=on)
    support = weights[place] != 0

    def of_kept(kept: NDArray[Any]) -> float:
        moved = np.zeros(support.shape)
        moved[support] = kept
        return _divergence(layer, tuple(moved if i == place else W for i, W in enumerate(weights)), X)

    assert found.radius == np.inf and found.certified and (found.weight[~support] == 0).all()
    assert of_kept(weights[place][support]) == pytest.approx(found.kl, rel=1e-9)
    assert of_kept(found.weight[support]) == pytest.approx(found.best_kl, rel=1e-9)
    assert 0 < found.bound <= found.best_kl <= (1 + 1e-12) * found.bound < found.kl
    other = minimize(of_kept, weights[place][support], method="L-BFGS-B", options={"maxiter": 300}).fun
    assert found.bound <= other <= 1.001 * found.bound
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-1, 3.0):
        assert of_kept(found.weight[support] + size * rng.normal(size=support.sum())) > found.bound


def test_one_head_and_a_fused_weight() -> None:
    layer, X = _layer()
    weights = _pruned(layer)
    parts = [apv.certified_refit(layer, X, weights=weights, on=("Q", head)) for head in (0, 1)]
    both = apv.certified_refit(layer, X, weights=weights)
    assert both.bound == pytest.approx(sum(part.bound for part in parts), rel=1e-9)
    np.testing.assert_allclose(np.concatenate([part.weight for part in parts], axis=1), both.weight, rtol=1e-5)
    rng = np.random.default_rng(2)
    instance = apv.Instance(rng.normal(size=(3, 7, 4)), rng.normal(size=(4, 4)), mask="causal")
    fused = apv.certified_refit(instance, weights=np.where(np.abs(instance.W) > 0.5, instance.W, 0), on="W")
    assert 0 < fused.bound <= fused.best_kl < fused.kl and fused.radius == np.inf


def test_dense_weights_have_nothing_to_gain() -> None:
    layer, X = _layer()
    found = apv.certified_refit(layer, X, weights=(layer.W_Q, layer.W_K))
    assert found.kl == found.bound == 0.0 and found.ratio == 1.0
    assert found.as_dict()["radius"] in (None, found.radius)


def test_a_kept_weight_that_was_zero_moves() -> None:
    """The support is that of the given weights, also where the dense one is 0."""
    rng = np.random.default_rng(3)
    W, X = np.diag([1.0, -0.7, 0.4]), rng.normal(size=(12, 3))
    support = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    found = apv.certified_refit(apv.Instance(X, W), weights=0.1 * support, on="W")
    assert found.radius == np.inf and np.count_nonzero(found.weight) == 6 and found.best_kl < found.kl


def test_few_tokens_have_a_bound_within_a_radius() -> None:
    """Two tokens of six features: directions of the weights that no token sees, in which nothing is convex."""
    layer, X = _layer()
    weights, few = _pruned(layer), X[:, :2]
    found = apv.certified_refit(layer, few, weights=weights)
    assert np.isfinite(found.radius) and 0 <= found.bound <= found.best_kl <= found.kl
    function = posed_refit(layer, few, weights, "Q").divergence()
    assert least_curvature(function, found.weight) == 0.0


def test_many_tokens_pay_for_their_rounding_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, X = _layer()
    exact = apv.certified_refit(layer, X, weights=_pruned(layer))
    monkeypatch.setattr("attnprune_verify.algorithms.gap.refit.BALLS", 10)
    found = apv.certified_refit(layer, X, weights=_pruned(layer))
    assert BALLS > 10 and found.arithmetic == "rounding" and np.isfinite(found.radius)
    assert found.bound <= exact.bound <= found.bound + 1e-6 and found.best_kl == pytest.approx(exact.best_kl, rel=1e-9)


def test_curvature_and_reach_are_on_the_safe_side() -> None:
    """The least eigenvalue of differences of slopes is not below sigma, and no logits come apart faster than kappa."""
    for on in "QK":
        layer, X = _layer()
        problem = posed_refit(layer, X, _pruned(layer), on)
        function, at = problem.divergence(), problem.moved
        H, step = hessian(function, function.curved(at)), 1e-5
        places = np.flatnonzero(problem.support)
        for column in (0, len(places) - 1):
            unit = np.zeros(at.size)
            unit[places[column]] = step
            slopes = [function.value_and_gradient(at + sign * unit.reshape(at.shape))[1].ravel() for sign in (-1, 1)]
            assert H[:, column] == pytest.approx((slopes[1] - slopes[0])[places] / (2 * step), rel=1e-5, abs=1e-9)
        least, sigma = np.linalg.eigvalsh(H)[0], least_curvature(function, at)
        assert 0.9 * least < sigma < least
        rng = np.random.default_rng(0)
        for _ in range(5):
            change = np.where(problem.support, rng.normal(size=at.shape), 0.0)
            for here, there in zip(function.logits(at), function.logits(at + change), strict=True):
                seen = np.isfinite(here)
                moves = np.where(seen, there, 0.0) - np.where(seen, here, 0.0)
                apart = np.where(seen, moves, -np.inf).max(axis=1) - np.where(seen, moves, np.inf).min(axis=1)
                assert apart.max() <= reach(function) * np.linalg.norm(change)


def test_what_is_still_to_gain_of_a_known_function() -> None:
    """One entry, two tokens: log(1 + exp z) - z/2 has its least value log 2 at 0, whatever Y is."""
    for Y in (1e-3, 0.1, 0.4):
        slope, sigma = np.tanh(Y / 2) / 2, 1 / (4 * np.cosh(Y / 2) ** 2)
        gained = np.log1p(np.exp(Y)) - Y / 2 - np.log(2)
        assert gained <= still_to_gain(slope, sigma, 1.0) <= (1.03 + Y) * gained
    assert still_to_gain(1.0, 0.0, 1.0) == np.inf


@pytest.mark.parametrize(
    ("weights", "on", "message"),
    [
        (np.ones((6, 8)), "Q", "must be a pair"),
        ((np.ones((6, 7)), np.ones((6, 4))), "Q", "W_Q of weights must have the shape"),
        ((np.full((6, 8), np.nan), np.ones((6, 4))), "Q", "W_Q"),
        ((np.ones((6, 8)), np.ones((6, 4))), "V", "on must be"),
    ],
)
def test_what_makes_no_sense_is_refused(weights: Any, on: str, message: str) -> None:
    layer, X = _layer()
    with pytest.raises(apv.InvalidInstance, match=message):
        apv.certified_refit(layer, X, weights=weights, on=on)


def test_a_softcap_is_refused() -> None:
    layer, X = _layer(softcap=3.0)
    with pytest.raises(apv.InvalidInstance, match="softcap"):
        apv.certified_refit(layer, X, weights=(layer.W_Q, layer.W_K))
