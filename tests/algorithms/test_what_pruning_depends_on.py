"""What a result depends on and what not: earlier problems, ends of pieces, ties at the ends of intervals, bounds."""

from itertools import product

import numpy as np
import pytest

from attnprune_verify.algorithms.baselines.wanda import wanda_report
from attnprune_verify.algorithms.descent import Run
from attnprune_verify.algorithms.gap import mask_gap
from attnprune_verify.algorithms.matrix.allocation import GRID, allocate
from attnprune_verify.algorithms.matrix.budget import Share
from attnprune_verify.algorithms.matrix.damping import MomentSum, second_moments
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.algorithms.readings import as_reading
from attnprune_verify.algorithms.refit import refit_pair
from attnprune_verify.algorithms.selection import smallest, undecided
from attnprune_verify.algorithms.trace import Settings
from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import factored_loss
from attnprune_verify.model.objective import Objective
from tests.algorithms.test_matrix_methods import problem


@pytest.mark.parametrize("name", MATRIX_METHODS)
def test_what_was_pruned_before_makes_no_difference(name):
    """Another shape empties what is kept, so that the second time it holds what belongs to a problem of this shape."""

    def pruned(seed, **sizes):
        weight, X, outputs = problem(seed, **sizes)
        return prune_matrix(name, weight, second_moments(X), outputs, Share(0.5))

    pruned(1, into=8)
    first = pruned(0)
    pruned(1, into=8)
    pruned(1)
    again = pruned(0)
    assert (first.weight == again.weight).all() and (first.kept == again.kept).all()


@pytest.mark.parametrize("sequences", [1, 2, 3, 8])
def test_the_damping_is_that_of_draws_of_one_length(sequences):
    """At every length of a sequence: pieces are of equal length, and what is left over is no draw."""
    rng = np.random.default_rng(sequences)
    for n in range(1, 40):
        X = rng.normal(size=(sequences, n, 3)) + 1.0
        moments = MomentSum(3, sequences)
        for one in X:
            moments.add(one)
        length = n // min(n, -(-8 // sequences))
        draws = [one[at : at + length] for one in X for at in range(0, n - length + 1, length)]
        H = [one.T @ one for one in draws]
        mean, k = sum(H) / len(H), len(H)
        expected = 1.0
        if k > 1:
            spread = sum(np.square(one - mean).sum() for one in H) / (k * (k - 1))
            around = np.square(mean - np.trace(mean) / 3 * np.eye(3)).sum()
            share = min(spread / around, 1.0)
            expected = 1.0 if share == 1 else min(1.0, max(0.01, share / (1 - share)))
        assert moments.finish().damping == pytest.approx(expected, rel=1e-6), n


def test_undecided_is_what_some_scores_within_the_spreads_choose_otherwise():
    """Whole numbers, so that ends of intervals touch often: intervals that meet, pair by pair, and all ends tried."""
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(150):
        scores, spread = rng.integers(0, 5, 4).astype(float), rng.integers(0, 2, 4).astype(float)
        count = int(rng.integers(1, 4))
        chosen = smallest(scores, count)
        found = undecided(scores, spread, chosen)
        meet = np.add.outer(scores, -scores) >= -np.add.outer(spread, spread)  # [i, j]: i may be as large as j
        assert (found == np.where(chosen, (meet & ~chosen).any(axis=1), (meet.T & chosen).any(axis=1))).all()
        for signs in product((-1, 1), repeat=4):
            moved = scores + np.array(signs) * spread
            threshold = np.sort(moved)[count - 1]
            tied = (moved == threshold) & ((moved <= threshold).sum() > count)
            assert not ((tied | (chosen != (moved <= threshold))) & ~found).any(), (scores, spread, count)
        seen |= {*found.tolist()}
    assert seen == {False, True}


def test_no_share_is_below_its_bound_whatever_the_sizes():
    """Sizes of which the bound is no whole number of weights."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        sizes = {name: int(rng.integers(3, 40)) for name in "abcde"}
        curves = {name: np.cumsum(rng.uniform(0, 1, len(GRID))).tolist() for name in sizes}
        least, most = sorted(rng.uniform(0.05, 0.9, 2).tolist())
        rho = 0.5 * (least + most)
        shares = allocate(curves, sizes, rho, least=least, most=most)
        if sum(np.ceil(least * size) for size in sizes.values()) <= int(rho * sum(sizes.values())):
            assert min(shares.values()) >= least, (sizes, least, most)


@pytest.mark.parametrize("form", ["heavy-ball", "ema"])
def test_momentum_that_leads_uphill_is_forgotten(form):
    """By the step taken and by the next one alike: from a velocity against the gradient, both start from none."""
    rng = np.random.default_rng(4)
    objective = Objective(rng.normal(size=(5, 3)), rng.normal(size=(3, 3)), 0.1)
    settings = Settings(0.5, 0.1, as_reading("theorem"), None, 0.9, form, False)
    begin = rng.random((3, 3))
    still, uphill = (Run(objective, settings, None, [begin]) for _ in range(2))
    gradient = objective.loss_and_gradient_at([begin])[1][0]
    uphill.velocity = [-100 * gradient]
    for run in (still, uphill):
        run.descend(1)
    np.testing.assert_array_equal(uphill.velocity[0], gradient)
    share = 1.0 if form == "heavy-ball" else 0.1
    np.testing.assert_allclose(still.velocity[0], share * gradient, rtol=1e-12)
    np.testing.assert_allclose(uphill.masks[0], still.masks[0], rtol=1e-9)


@pytest.mark.parametrize("balls", [0, mask_gap.BALLS])
def test_no_bound_is_above_what_was_judged(balls, monkeypatch):
    """A floor that comes out too large, by rounding or by mistake, is no more than the mask's own divergence."""
    rng = np.random.default_rng(5)
    instance = Instance(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
    monkeypatch.setattr(mask_gap, "BALLS", balls)
    plain = mask_gap.certified_mask_gap(instance, rho=0.5, steps=5)
    assert plain.bound < plain.kl and plain.arithmetic == ("balls" if balls else "rounding")
    for name in ("divergence_floor", "floor_with_rounding"):
        monkeypatch.setattr(mask_gap, name, lambda *_: 1e9)
    found = mask_gap.certified_mask_gap(instance, rho=0.5, steps=5)
    assert found.bound == found.kl and found.ratio == 1.0


def test_an_entry_that_float32_could_decide_otherwise_is_undecided():
    """Scores a ten-millionth apart, and as far apart as no rounding brings together."""
    weight = np.array([[1.0, 1.0 + 1e-8, 3.0, 5.0]])
    found = wanda_report(weight, np.ones((1, 2, 4)), 0.25)
    np.testing.assert_array_equal(found.pruned, [[True, False, False, False]])
    np.testing.assert_array_equal(found.undecided, [[True, True, False, False]])


@pytest.mark.parametrize("rate", [0.02, 0.5, 2.0])
def test_tuned_weights_are_those_of_the_least_loss_that_was_seen(rate):
    """Also where large steps make the loss rise again, still below its start."""
    rng = np.random.default_rng(6)
    X, W_Q, W_K = rng.normal(size=(8, 5, 4)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    kept = (np.abs(W_Q) > 0.5).astype(float), (np.abs(W_K) > 0.5).astype(float)
    found = refit_pair(X, W_Q, W_K, *kept, rate=rate, steps=60)
    least = found.validation[found.validation[:, 1].argmin()]
    assert found.steps == least[0]
    ratios = [
        np.where(keep == 1, tuned / W, 0.0)
        for tuned, W, keep in zip((found.W_Q, found.W_K), (W_Q, W_K), kept, strict=True)
    ]
    assert factored_loss(*ratios, X[6:], W_Q, W_K) == pytest.approx(least[1], rel=1e-9)
