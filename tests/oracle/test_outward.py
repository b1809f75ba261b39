"""What is said to be an upper bound is one in rationals; two ways that disagree decide nothing."""

from fractions import Fraction

import numpy as np
import pytest

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.oracle import ball
from attnprune_verify.oracle.enclosure import Enclosure
from attnprune_verify.oracle.error_propagation import Rounding, Scores, _others, softmax
from attnprune_verify.oracle.inputs import posed
from attnprune_verify.oracle.score_errors import heads, scores
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


def test_the_sum_of_the_others_is_at_least_what_it_is_in_fractions():
    """Also where one entry is nearly the whole row, and the difference from the total cancels."""
    rng = np.random.default_rng(3)
    below = 0
    for _ in range(60):
        row = 10.0 ** rng.uniform(-18, 0, (1, int(rng.integers(2, 30))))
        plain = np.maximum(row.sum() - row, 0.0)
        for place, (bound, rough) in enumerate(zip(_others(row)[0], plain[0], strict=True)):
            exact = sum(Fraction(x) for x in np.delete(row[0], place))
            assert exact <= Fraction(bound) and bound <= float(exact) + 1e-13 * row.sum()
            below += Fraction(rough) < exact
    assert below > 60


@pytest.mark.parametrize("top", [0.0, 1e2, 1e4])
def test_the_weights_of_a_row_may_all_be_off_by_a_rounding_of_the_largest_score(top):
    """exp(z - logsumexp(z)) in float32: the logarithm is rounded relative to the largest score, for all alike."""
    rng, worst = np.random.default_rng(4), 0.0
    for _ in range(40):
        z = (np.float32(top) + rng.random((1, 5)).astype(np.float32)).astype(np.float32)
        whole = z.max() + np.log(np.exp(z - z.max()).sum())
        weights = np.exp(z - whole)
        assert weights.dtype == np.float32
        nothing = np.zeros((1, 5))
        found = softmax(Scores(z.astype(float), nothing, nothing), np.ones((1, 5), dtype=bool), Rounding(2.0**-24))
        off = abs(weights.astype(float).sum() - 1)
        assert off <= found.slip[0, 0]
        worst = max(worst, off)
    assert worst > top * 2.0**-26


def test_a_fall_that_underflows_is_lost():
    """ALiBi's slope times a distance below the least normal number of float32, which flushes it."""
    slope = 0.9 * float(np.finfo(np.float32).tiny)
    layer = AttentionLayer(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32), alibi=[slope])
    at = posed(LayerInstance(layer, np.ones((2, 1), np.float32))).floats()
    (head,) = heads(at, at.samples[0], None)
    found = scores(at, 0, head.dense, slice(0, 2), Rounding(2.0**-24))
    assert found.error[0, 1] >= slope and found.error[1, 0] >= slope
