"""What a result depends on and what not: earlier problems, ends of pieces, ties at the ends of intervals, bounds."""

from itertools import product

import numpy as np
import pytest

from attnprune_verify.algorithms.matrix.allocation import GRID, allocate
from attnprune_verify.algorithms.matrix.budget import Share
from attnprune_verify.algorithms.matrix.damping import MomentSum, second_moments
from attnprune_verify.algorithms.matrix.methods import MATRIX_METHODS, prune_matrix
from attnprune_verify.algorithms.selection import smallest, undecided
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
