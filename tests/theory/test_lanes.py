"""Lanes against exact fractions and balls: every enclosure holds the true value, and none is wide."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb

from attnprune_verify.theory.numbers.arithmetic import Undecidable, working_precision
from attnprune_verify.theory.numbers.lane_arithmetic import LANES, eigenvalues, stacked
from attnprune_verify.theory.numbers.lanes import Diverges, Lane, Slope, reach

RNG = np.random.default_rng(3)


def column(size=50, scale=1.0):
    return scale * RNG.standard_normal(size) * 10.0 ** RNG.integers(-6, 6, size)


def inside(lane, exact):
    low, high = reach(lane)
    return all(Fraction(float(a)) <= x <= Fraction(float(b)) for a, b, x in zip(low, high, exact, strict=True))


def fractions(values):
    return np.array([Fraction(float(value)) for value in values], dtype=object)


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, b, c: a * b + c,
        lambda a, b, c: (a - b) * (a + b) - c,
        lambda a, b, c: a / b - c / b + 3,
        lambda a, b, c: (a * b - c) * (a * b - c) / (c * c + 1),
        lambda a, b, c: 2 / (a * a + 1) - b**3,
        lambda a, b, c: abs(a - b) * c - 1,
    ],
)
def test_rational_formulas_hold_the_exact_value(formula):
    a, b, c = column(), column(), column()
    lane = formula(Lane(a), Lane(b), Lane(c))
    assert inside(lane, formula(fractions(a), fractions(b), fractions(c)))


def test_functions_hold_what_balls_hold():
    a = np.concatenate([RNG.uniform(-30, 30, 60), [0.0, -700.0]])
    with working_precision(200):
        for name, lane in (("exp", np.exp(Lane(a) * 1.1)), ("log", (Lane(np.abs(a) + 0.1) * 1.1).log())):
            for k, value in enumerate(a):
                x = (arb(value) if name == "exp" else arb(abs(value) + 0.1)) * arb(1.1)
                exact = getattr(x, name)()
                low, high = reach(lane)
                assert arb(low[k]) <= exact <= arb(high[k])
    root = (Lane(a) * Lane(a)).sqrt()
    assert inside(root, [abs(Fraction(float(value))) for value in a])


def test_a_lost_term_would_be_seen():
    """What would be wrong is outside: the enclosure is no wider than rounding."""
    a = RNG.uniform(1, 2, 30)
    assert not inside(Lane(a) * Lane(a), [Fraction(float(x)) ** 2 * (1 + Fraction(1, 10**14)) for x in a])


def test_the_logarithm_reaches_as_far_as_its_argument():
    """Below the middle it falls further than above it rises; the least radius that holds is rounded up."""
    share = np.linspace(0.05, 0.95, 40)
    found = Lane(np.ones(40), share).log()
    assert (found.mid == 0).all()
    for radius, part in zip(found.rad, share, strict=True):
        with mpmath.workdps(40):
            least = -mpmath.log(1 - mpmath.mpf(float(part)))
            assert least <= mpmath.mpf(float(radius)) <= least * (1 + mpmath.mpf(10) ** -4)


def test_comparisons_part_the_instances_or_answer_for_all():
    a = Lane(np.array([1.0, 2.0, 3.0]))
    assert a > 0.5 and not a > 3 and a <= 3
    with pytest.raises(Diverges) as way:
        bool(a > 1.5)
    assert way.value.first.tolist() == [False, True, True]
    assert not a * 0.1 * 10 == a  # rounded: never certainly equal
    with pytest.raises(Undecidable):
        float(a)


def test_numpy_spreads_lanes_over_object_arrays():
    X = RNG.standard_normal((40, 3, 2))
    product = stacked(X).T @ stacked(X)
    assert product.shape == (2, 2)
    for k in (0, 17):
        assert abs(product[0, 1].mid[k] - (X[k].T @ X[k])[0, 1]) <= product[0, 1].rad[k] * 2 + 1e-15


def test_slopes_are_derivatives():
    a = RNG.uniform(0.5, 2, 20)
    x = Slope(Lane(a), LANES.lift(1.0))
    found = ((x * x * 3 - 1) / (x + 2) + np.exp(-x)).slope
    wanted = (6 * a * (a + 2) - (3 * a * a - 1)) / (a + 2) ** 2 - np.exp(-a)
    assert (np.abs(found.mid - wanted) <= found.rad + 1e-14).all()


def test_eigenvalues_carry_their_entries_radii():
    A = RNG.standard_normal((6, 3, 3))
    lanes = stacked(A)
    least, _, largest = eigenvalues(lanes + lanes.T)
    for k in range(6):
        wanted = np.linalg.eigvalsh(A[k] + A[k].T)
        assert abs(least.mid[k] - wanted[0]) <= least.rad[k] and abs(largest.mid[k] - wanted[-1]) <= largest.rad[k]
    assert (least.rad >= (lanes + lanes.T)[0, 1].rad).all()


def test_an_instance_gets_the_same_bits_whatever_stands_beside_it():
    a, b = RNG.uniform(-20, 20, 1031), column(1031)
    together = np.exp(Lane(a)) * Lane(b) / (Lane(b) * Lane(b) + 1)
    for k in (0, 1, 511, 1030):
        x, y = Lane(a[k : k + 1]), Lane(b[k : k + 1])
        alone = np.exp(x) * y / (y * y + 1)
        assert alone.mid[0] == together.mid[k] and alone.rad[0] == together.rad[k]


def test_the_ends_of_the_narrowest_enclosure_are_outside_of_its_middle():
    """A radius far below the last place, at powers of two, where sums are rounded to the middle most easily."""
    mid = np.outer([-1.0, 1.0], np.outer(2.0 ** np.arange(-5, 6), [1.0, 1 + 2.0**-52, 1.5])).ravel()
    low, high = reach(Lane(mid, np.full(mid.shape, 1e-300)))
    assert (low < mid).all() and (mid < high).all()
