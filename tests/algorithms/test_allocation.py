"""Zeros divided among matrices: the exact total, bounds, held matrices, and the least sum against brute force."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.matrix.allocation import FINE, GRID, allocate, curve_through
from attnprune_verify.errors import InvalidInstance

increments = st.lists(st.floats(0, 10), min_size=len(GRID), max_size=len(GRID))


@settings(max_examples=50)
@given(st.lists(increments, min_size=1, max_size=5), st.floats(0.05, 0.9), st.data())
def test_the_total_is_exact_and_bounds_hold(steps, rho, data):
    curves = {index: list(np.cumsum(part)) for index, part in enumerate(steps)}
    sizes = {index: data.draw(st.integers(20, 400)) for index in curves}
    held = data.draw(st.sets(st.sampled_from(sorted(curves)), max_size=len(curves) - 1))
    shares = allocate(curves, sizes, rho, held=held)
    zeros = {name: share * sizes[name] for name, share in shares.items()}
    assert all(count.denominator == 1 for count in zeros.values())
    assert all(zeros[name] == pruned_count(rho, sizes[name]) for name in held)
    assert all(0 <= share <= Fraction(95, 100) for name, share in shares.items())
    free = sum(int(0.95 * sizes[name]) for name in curves if name not in held) + sum(zeros[name] for name in held)
    assert sum(zeros.values()) == min(pruned_count(rho, sum(sizes.values())), free)


def test_bounds_between_two_counts_hold():
    """5 % and 95 % of 4096 are no whole numbers, and the curve has a corner below the least ratio."""
    curves = {"idle": curve_through(0.0, 0.5), "busy": curve_through(1.0, 0.5), "more": curve_through(5.0, 0.5)}
    shares = allocate(curves, dict.fromkeys(curves, 4096), 0.5, grid=FINE, least=0.05, most=0.95)
    assert shares["idle"] * 4096 == 3891
    assert all(205 <= share * 4096 <= 3891 for share in shares.values())


def test_the_least_sum_on_convex_curves():
    """Against every division of 12 zeros among three matrices of 8 weights, damage linear between eighths."""
    rng = np.random.default_rng(0)
    grid = tuple(np.arange(1, 9) / 8)
    for _ in range(20):
        curves = {name: list(np.cumsum(np.sort(rng.exponential(size=8)))) for name in "abc"}
        shares = allocate(curves, dict.fromkeys("abc", 8), 0.5, grid=grid, most=1.0)
        damage = {name: [0.0, *curve] for name, curve in curves.items()}
        choices = [counts for counts in product(range(9), repeat=3) if sum(counts) == 12]
        totals = [sum(damage[name][count] for name, count in zip("abc", counts, strict=True)) for counts in choices]
        got = sum(damage[name][int(shares[name] * 8)] for name in "abc")
        assert got == pytest.approx(min(totals), rel=1e-12)


def test_a_dent_in_a_measured_curve_does_not_trap():
    """A curve that falls for a moment (noise) counts as its convex minorant."""
    shares = allocate(
        {"noisy": [5.0, 0.0], "steep": [2.0, 9.0]}, {"noisy": 10, "steep": 10}, 0.5, grid=(0.5, 1.0), most=1.0
    )
    assert shares == {"noisy": 1, "steep": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rho": 1.5}, "rho must be"),
        ({"rho": 0.97}, "rho must lie between the bounds"),
        ({"sizes": {"b": 10}}, "same names"),
        ({"curves": {"a": [0.0]}}, "10 finite numbers"),
        ({"curves": {"a": [float("nan")] * 10}}, "10 finite numbers"),
    ],
)
def test_bad_input(change, message):
    arguments = {"curves": {"a": [0.0] * 10}, "sizes": {"a": 10}, "rho": 0.5} | change
    with pytest.raises(InvalidInstance, match=message):
        allocate(**arguments)
