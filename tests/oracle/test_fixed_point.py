"""The products of the multiprecision oracle are exact, by integers and by limbs."""

from fractions import Fraction

import numpy as np
import pytest

from attnprune_verify.oracle import fixed_point
from attnprune_verify.oracle.fixed_point import FixedPoint, aligned, fixed, product


@pytest.fixture(params=["limbs", "integers"], autouse=True)
def way(request, monkeypatch):
    monkeypatch.setattr(fixed_point, "_FEW", 0 if request.param == "limbs" else 10**9)


def as_fractions(matrix):
    return matrix.integers * Fraction(2) ** matrix.exponent


@pytest.mark.parametrize("spread", [0, 30, 200])
def test_conversion_and_product_are_exact_when_enough_bits_are_allowed(spread):
    rng = np.random.default_rng(spread)
    for inner in (1, 2, 7, 60):
        left, right = (
            rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
            for shape in ((3, inner), (inner, 4))
        )
        exact = [fixed(matrix, 3000) for matrix in (left, right)]
        for matrix, found in zip((left, right), exact, strict=True):
            assert (as_fractions(found) == [[Fraction(value) for value in row] for row in matrix.tolist()]).all()
        expected = as_fractions(exact[0]) @ as_fractions(exact[1])
        assert (as_fractions(product(*exact, bits=6000)) == expected).all()


def test_limbs_at_their_largest_do_not_round():
    """Every limb full: all bits of every integer set, the longest sums."""
    for inner in (1, 3, 64, 1000):
        largest = (1 << 400) - 1
        left = FixedPoint(np.full((2, inner), largest, dtype=object), 0)
        right = FixedPoint(np.full((inner, 2), -largest, dtype=object), 0)
        assert (product(left, right, bits=2000).integers == -inner * largest**2).all()


def test_rounding_is_relative_to_the_largest_entry():
    rng = np.random.default_rng(1)
    left, right = (fixed(rng.standard_normal((5, 5)), 200) for _ in range(2))
    exact, rounded = product(left, right, 1000), product(left, right, 60)
    error = abs(as_fractions(exact) - as_fractions(rounded)).max()
    assert 0 < error <= abs(as_fractions(exact)).max() / 2**59


def test_fractions_round_to_nearest_and_zero_stays_zero():
    third = fixed(np.array([[Fraction(1, 3), Fraction(-2, 3)]], dtype=object), 100)
    assert abs(as_fractions(third) - [[Fraction(1, 3), Fraction(-2, 3)]]).max() < Fraction(1, 2**99)
    assert not fixed(np.zeros((2, 2)), 100).integers.any()


def test_aligned_keeps_the_values():
    matrices = [FixedPoint(np.array([[3]], dtype=object), 5), FixedPoint(np.array([[7]], dtype=object), -2)]
    integers, exponent = aligned(matrices)
    assert [int(part[0, 0]) * Fraction(2) ** exponent for part in integers] == [96, Fraction(7, 4)]
