"""What is said to be an upper bound is one in rationals; two ways that disagree decide nothing."""

from fractions import Fraction

import numpy as np
import pytest

from attnprune_verify.instance.problem import Instance
from attnprune_verify.oracle import ball
from attnprune_verify.oracle.enclosure import Enclosure
from attnprune_verify.oracle.inputs import posed
from attnprune_verify.oracle.verdict import judge_gradient


def test_distances_and_radii_are_rounded_outward():
    """Where a difference of doubles is rounded down, the bound still lies above it."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.standard_normal((2, 500)) * 10.0 ** rng.integers(-8, 9, (2, 500)), axis=0)
    values = rng.standard_normal(500) * 10.0 ** rng.integers(-8, 9, 500)
    one = Enclosure(*ends)
    rounded_down = 0
    for low, high, value, middle, distance, radius in zip(
        *ends, values, one.midpoint, one.distance(values), one.radius, strict=True
    ):
        for at, bound in ((value, distance), (middle, radius)):
            exact = max(abs(Fraction(at) - Fraction(end)) for end in (low, high))
            assert exact <= Fraction(bound)
            rounded_down += Fraction(max(abs(at - low), abs(at - high))) < exact
    assert rounded_down > 50


@pytest.mark.parametrize("share", [0.5, 2.0, -1.0])
def test_a_closed_form_that_a_power_series_contradicts_decides_nothing(share, monkeypatch):
    """Above it and below it alike."""
    rng = np.random.default_rng(1)
    instance = Instance(rng.standard_normal((4, 3)), rng.standard_normal((3, 3)), M=rng.uniform(size=(3, 3)), lam=0.1)
    right = ball.enclosed_gradient(posed(instance)).midpoint.reshape(3, 3)
    series = ball.slope_along

    def judged():
        return judge_gradient(instance, right, rng=np.random.default_rng(2))[-1]

    assert judged().status == "passed" and "power series" in judged().note
    monkeypatch.setattr(ball, "slope_along", lambda at, directions: series(at, directions) * share)
    assert judged().status == "inconclusive" and "disagree" in judged().note
