"""The bound of every mask against every mask: one by one, by attention matrices that know nothing of the bound."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

import attnprune_verify as apv
from attnprune_verify.algorithms.gap.problem import posed
from attnprune_verify.algorithms.gap.relaxation import floor, projected, relaxed
from attnprune_verify.algorithms.gap.rounding import floor_with_rounding
from attnprune_verify.oracle.ball_divergence import divergence, divergence_floor
from tests.algorithms.every_mask import compared

_MOST_MASKS = 70


def _divergence(dense: NDArray[Any], changed: NDArray[Any]) -> float:
    """Mean over rows (and samples) of KL, summed over heads: attention matrices (k, heads, n, n)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(dense > 0, dense * (np.log(dense) - np.log(changed)), 0.0)
    return float(terms.sum() / (dense.shape[0] * dense.shape[2]))


def _attention(source: Any, X: NDArray[Any], masks: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    if isinstance(source, apv.Instance):
        found = apv.attention(X, masks[0] * source.W, source.mask)
    else:
        pruned = source.with_weights(masks[0] * source.W_Q, masks[1] * source.W_K)
        found = apv.layer_attention(pruned, X)
    heads = 1 if isinstance(source, apv.Instance) else source.heads
    return found.reshape(-1, heads, *found.shape[-2:])


def _visible(rng: Generator, n: int) -> Any:
    given = (rng.random((n, n)) < 0.6) | np.eye(n, dtype=bool)
    return [None, "causal", given][rng.integers(3)]


def _drawn(rng: Generator) -> tuple[Any, Any, Any, str]:
    """A problem, its tokens where they come apart, masks, and the map: all kinds of layers, and fused weights."""
    n, k, size = int(rng.integers(1, 6)), int(rng.integers(0, 3)), 10.0 ** rng.uniform(-1.5, 0.8)
    if rng.random() < 0.4:
        d = int(rng.integers(1, 4))
        X = rng.normal(size=(n, d) if k == 0 else (k, n, d))
        source = apv.Instance(X, size * rng.normal(size=(d, d)), mask=_visible(rng, n))
        return source, X, (np.ones((d, d)),), "W"
    d, m, group, kv = int(rng.integers(1, 4)), 2, int(rng.integers(1, 3)), int(rng.integers(1, 3))
    X = rng.normal(size=(n, d) if k == 0 else (k, n, d))
    shapes = (d, kv * group * m), (d, kv * m)
    weights = [size * rng.normal(size=shape) for shape in shapes]
    biases = [rng.normal(size=shape[1]) if rng.random() < 0.4 else None for shape in shapes]
    source = apv.AttentionLayer(
        *weights, *biases, heads=kv * group, kv_heads=kv, mask=_visible(rng, n),
        rope=apv.RoPE(50.0, ("half", "interleaved")[rng.integers(2)]) if rng.random() < 0.5 else None,
        window=int(rng.integers(1, 4)) if rng.random() < 0.2 else None,
        alibi=rng.random(kv * group) if rng.random() < 0.3 else None,
    )  # fmt: skip
    masks = tuple(np.ones(shape) if rng.random() < 0.5 else rng.integers(0, 2, size=shape) * 1.0 for shape in shapes)
    return source, X, masks, "QK"[rng.integers(2)]


def _masks(rng: Generator, size: int, ones: int) -> list[NDArray[Any]]:
    """Every 0/1 vector with so many ones where they are few, else some."""
    if 2**size <= 2**7:
        places = [np.array(each, dtype=int) for each in combinations(range(size), ones)]
    else:
        places = [rng.choice(size, ones, replace=False) for _ in range(_MOST_MASKS)]
    found = np.zeros((len(places), size))
    for row, each in zip(found, places, strict=True):
        row[each] = 1.0
    return list(found)


def _compare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, X, masks, on = _drawn(rng)
    place = 1 if on == "K" else 0
    size = masks[place].size
    ones = int(rng.integers(0, size + 1))
    layered = not isinstance(source, apv.Instance)
    moved = np.zeros(size)
    moved[rng.choice(size, ones, replace=False)] = 1.0
    given = tuple(moved.reshape(mask.shape) if i == place else mask for i, mask in enumerate(masks))
    found = apv.certified_mask_gap(
        source, X if layered else None, masks=given if layered else given[0], on=on, steps=int(rng.integers(0, 30))
    )
    dense = _attention(source, X, tuple(np.ones(mask.shape) for mask in masks))
    all_ones = [(mask if i != place else None) for i, mask in enumerate(given)]
    small = float("inf")
    for flat in _masks(rng, size, ones):
        these = tuple(flat.reshape(masks[place].shape) if M is None else M for M in all_ones)
        small = min(small, _divergence(dense, _attention(source, X, these)))
    slack = 1e-13 * (1 + 30 * size)  # of the comparison, whose logarithms of float64 know no divergence below it
    assert found.bound <= small + slack, (seed, found.bound, small)
    assert found.certified and found.ones == ones == found.best.sum()
    best = tuple(found.best if i == place else M for i, M in enumerate(given))
    for mask_set, said in ((given, found.kl), (best, found.best_kl)):
        assert said == pytest.approx(_divergence(dense, _attention(source, X, mask_set)), rel=1e-6, abs=1e-11)
    assert found.bound <= found.best_kl <= found.kl * (1 + 1e-9) + 1e-12


def test_no_mask_is_below_the_bound() -> None:
    for seed in range(40):
        _compare(seed)


@pytest.mark.thorough
def test_no_mask_of_many_instances_is_below_the_bound() -> None:
    for seed in range(1000, 2200):
        _compare(seed)


def test_of_four_features_no_mask_is_below_the_bound() -> None:
    """All masks of all sizes up to 4 x 4: `python -m tests.algorithms.every_mask` does it ten thousand times."""
    for seed in range(20):
        found = compared(seed)
        assert found.bound <= found.least + found.slack, seed


@pytest.mark.thorough
def test_of_four_features_no_mask_of_many_instances_is_below_the_bound() -> None:
    for seed in range(10_000, 11_500):
        found = compared(seed)
        assert found.bound <= found.least + found.slack, seed


def _heads() -> tuple[apv.AttentionLayer, NDArray[Any]]:
    rng = np.random.default_rng(7)
    layer = apv.AttentionLayer(
        rng.normal(size=(6, 8)), rng.normal(size=(6, 4)), rng.normal(size=8), rng.normal(size=4),
        heads=2, kv_heads=1, rope=apv.RoPE(), mask="causal", alibi=[0.5, 0.1],
    )  # fmt: skip
    return layer, rng.normal(size=(2, 9, 6))


@pytest.mark.parametrize("on", ["Q", "K", ("Q", 1), ("K", 0)])
def test_balls_and_paid_rounding_agree_with_the_gradient_in_floats(on: Any) -> None:
    layer, X = _heads()
    problem = posed(layer, X, None, on)
    function = problem.divergence()
    ones = problem.mask.size // 2
    Y = relaxed(function, ones, 30).at
    plain = floor(*function.value_and_gradient(Y), Y, ones)
    in_balls = divergence_floor(problem.at(Y), problem.place, ones)
    paid = floor_with_rounding(function, Y, ones)
    assert plain > 1e-4
    assert in_balls == pytest.approx(plain, rel=1e-9)
    assert paid <= in_balls <= paid + 1e-8
    assert (
        divergence(problem.at(Y)).contains(function.value(Y))
        or abs(function.value(Y) - float(divergence(problem.at(Y)).midpoint)) < 1e-13
    )


@pytest.mark.parametrize("on", ["Q", "K"])
def test_slope_and_curvature_are_those_of_the_value(on: str) -> None:
    layer, X = _heads()
    function = posed(layer, X, None, on).divergence()
    rng = np.random.default_rng(1)
    mask, direction, h = rng.random(function.weight.shape), rng.normal(size=function.weight.shape), 1e-5
    values = [function.value_and_gradient(mask + step * direction) for step in (-h, h)]
    gradient = function.value_and_gradient(mask)[1]
    assert np.vdot(gradient, direction) == pytest.approx((values[1][0] - values[0][0]) / (2 * h), rel=1e-6)
    product = function.product(function.curved(mask), direction)
    assert product == pytest.approx((values[1][1] - values[0][1]) / (2 * h), rel=1e-5, abs=1e-9)


def test_rounding_is_paid_where_it_is_felt() -> None:
    """Tokens so large that float64 gets the bound wrong by more than it is worth: what is paid keeps it below."""
    rng = np.random.default_rng(3)
    X, W = 300.0 * rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    problem = posed(apv.Instance(X, W), None, None, "W")
    function = problem.divergence()
    Y = relaxed(function, 6, 100).at
    exact = divergence_floor(problem.at(Y), 0, 6)
    assert floor_with_rounding(function, Y, 6) <= exact + 1e-12 * exact


def test_projection_is_the_nearest_mask() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        point, metric = rng.normal(size=(3, 4)), rng.uniform(0.1, 3, (3, 4))
        nearest = projected(point, metric, 5)
        assert nearest.sum() == pytest.approx(5) and nearest.min() >= 0 and nearest.max() <= 1
        others = rng.dirichlet(np.ones(12), size=50).reshape(-1, 3, 4) * 5
        others = others[others.max(axis=(1, 2)) <= 1]
        slopes = ((nearest - point) * metric * (others - nearest)).sum(axis=(1, 2))
        assert (slopes >= -1e-9).all()


def test_one_head_of_a_layer_is_bounded_alone() -> None:
    layer, X = _heads()
    parts = [apv.certified_mask_gap(layer, X, keep=12, on=("Q", head), steps=10) for head in (0, 1)]
    both = apv.certified_mask_gap(layer, X, keep=24, on="Q", steps=10)
    masks = np.concatenate([part.best for part in parts], axis=1), np.ones((6, 4))
    joined = apv.certified_mask_gap(layer, X, masks=masks, on="Q", steps=0).kl
    assert joined == pytest.approx(sum(part.kl for part in parts))
    assert both.bound <= joined and parts[0].best.shape == (6, 4)
    keys = apv.certified_mask_gap(layer, X, keep=12, on=("K", 0), steps=5)
    assert keys.bound == pytest.approx(apv.certified_mask_gap(layer, X, keep=12, on="K", steps=5).bound)


def test_trivial_counts() -> None:
    layer, X = _heads()
    nothing = apv.certified_mask_gap(layer, X, rho=0.0)
    assert nothing.kl == 0.0 and nothing.ratio == 1.0
    everything = apv.certified_mask_gap(layer, X, rho=1.0)
    assert everything.best.sum() == 0 and everything.bound == pytest.approx(everything.kl, rel=1e-9)


def test_given_masks_are_judged_and_their_count_is_kept() -> None:
    layer, X = _heads()
    mask = (np.arange(48) % 3 == 0).reshape(6, 8) * 1.0
    found = apv.certified_mask_gap(layer, X, masks=(mask, np.ones((6, 4))), steps=10)
    assert found.ones == 16 and found.bound <= found.best_kl < found.kl and found.ratio > 1
    posed_ = apv.LayerInstance(layer, X, M_Q=mask, M_K=np.ones((6, 4)))
    assert apv.certified_mask_gap(posed_, steps=10).bound == found.bound
    assert apv.certified_mask_gap(layer, X, keep=16, steps=10).bound == found.bound
    other = 1 - mask, np.ones((6, 4))
    assert (
        apv.certified_mask_gap(posed_, masks=other, steps=0).kl
        == apv.certified_mask_gap(layer, X, masks=other, steps=0).kl
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": 0.5, "keep": 3}, "exactly one of masks, rho and keep"),
        ({}, "exactly one of masks, rho and keep"),
        ({"keep": 49}, "at most the 48 entries"),
        ({"rho": 0.5, "on": "V"}, "on must be"),
        ({"rho": 0.5, "on": ("Q", 2)}, "must be below 2"),
        ({"rho": 1.5}, "rho must be"),
        ({"masks": (np.full((6, 8), 0.5), np.ones((6, 4)))}, "must be of 0 and 1"),
        ({"masks": np.ones((6, 8))}, "must be a pair"),
        ({"masks": (np.ones((6, 7)), np.ones((6, 4)))}, "M_Q"),
        ({"rho": 0.5, "steps": -1}, "steps must be"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    layer, X = _heads()
    with pytest.raises(apv.InvalidInstance, match=message):
        apv.certified_mask_gap(layer, X, **arguments)


def test_a_softcap_is_refused() -> None:
    layer = apv.AttentionLayer(np.eye(2), np.eye(2), softcap=3.0)
    with pytest.raises(apv.InvalidInstance, match="softcap"):
        apv.certified_mask_gap(layer, np.eye(2), rho=0.5)
    with pytest.raises(apv.InvalidInstance, match="comes with its tokens"):
        apv.certified_mask_gap(layer, rho=0.5)


def test_one_head_has_the_keys_of_its_group() -> None:
    rng = np.random.default_rng(8)
    layer = apv.AttentionLayer(rng.normal(size=(3, 4)), rng.normal(size=(3, 2)), heads=4, kv_heads=2)
    X = rng.normal(size=(4, 3))
    alone = apv.AttentionLayer(layer.W_Q[:, 1:2], layer.W_K[:, :1])
    assert apv.certified_mask_gap(layer, X, keep=1, on=("Q", 1)).kl == pytest.approx(
        apv.certified_mask_gap(alone, X, keep=1).kl
    )
