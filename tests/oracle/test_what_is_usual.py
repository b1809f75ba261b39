"""Limits that several terms make together: every term alone decides once, and the lesser of two is taken."""

import math
from typing import Any

import numpy as np
import pytest

from attnprune_verify.instance.problem import Instance
from attnprune_verify.oracle import ball, loops, multiprecision, taylor, verdict
from attnprune_verify.oracle import resolution as measured
from attnprune_verify.oracle.comparison import GradientClaim, Resolution
from attnprune_verify.oracle.enclosure import Enclosure
from attnprune_verify.oracle.inputs import OracleInput, posed
from attnprune_verify.oracle.running_error import gradient_error

UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def problem(dtype: Any = np.float64, lam: float = 0.25) -> tuple[OracleInput, np.ndarray]:
    """A problem and its right gradient, one vector."""
    rng = np.random.default_rng(0)
    X, W, M = (part.astype(dtype) for part in (rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), rng.random((3, 3))))
    at = posed(Instance(X, W, M=M, lam=lam))
    return at, at.flat(loops.gradient(at.floats())).astype(np.float64)


# --- resolution: 10 (spread + u |reference|), entry by entry and in norm ----------------------------------------------


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("off", [0.0, 1e-3])
def test_the_resolution_is_the_spread_and_a_rounding_of_the_value(
    dtype: Any, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trusted code that is exact, so that nothing but the rounding of the value is left, or wrong by `off`."""
    at, right = problem(dtype)
    right = np.round(right * 2**10) / 2**10  # exact in float32, so that the code below is

    def trusted(moved: OracleInput, tokens: Any) -> list[np.ndarray]:
        """Return the reference in the order of the features asked for, found by where each weight has gone."""
        places = [int(np.flatnonzero(at.weights[0].ravel() == w)[0]) for w in moved.weights[0].ravel()]
        return [(right[places] + off).reshape(3, 3)]

    monkeypatch.setattr(measured, "_gradient", trusted)
    found = measured.resolution(at, right, np.full(9, 1e9), np.random.default_rng(1), trials=2)
    entries = 10 * (off + UNITS[dtype] * np.abs(right))
    np.testing.assert_allclose(found.entries, entries, rtol=1e-6)
    assert found.norm == pytest.approx(10 * (3 * off + UNITS[dtype] * math.hypot(*right)), rel=1e-6, abs=0)
    small = measured.resolution(at, right, np.full(9, 1e-30), np.random.default_rng(1), trials=2)
    assert (small.entries == 1e-30).all()


# --- the slope of the remainder: what is known of the gradient judged, and the noise of the judge itself --------------


def noise(**known: Any) -> tuple[np.ndarray, np.ndarray]:
    at, right = problem()
    found = taylor.slope(at, at.parted(right), [np.ones((3, 3))], taylor.Known(**known))
    return found.floor / found.steps, right


def test_the_floor_of_a_gradient_without_error_is_the_judge_s_own_noise() -> None:
    """At most what long double loses: 2^11 times less than the bound in float64, times 4 (1 + d/n) and some."""
    own, right = noise(bound=np.zeros(9), usual=np.zeros(9), norm=0.0)
    bound = gradient_error(problem()[0]).sum() + 2.0**-53 * np.abs(right).sum()
    assert (own > 0).all() and np.ptp(own) < 1e-9 * own[0]
    assert bound * 2.0**-13 < own[0] < bound


@pytest.mark.parametrize(
    ("usual", "norm", "expected"),
    [(1e-6, np.inf, 9e-6), (1e-6, 1e-6, 3e-6), (1e-7, 1e-6, 9e-7), (0.0, 1.0, 0.0)],
)
def test_the_floor_is_the_lesser_of_the_sum_and_the_norm(usual: float, norm: float, expected: float) -> None:
    """Along ones: a sum of nine errors, or their norm times that of the direction, which is 3."""
    own, _ = noise(bound=np.ones(9), usual=np.zeros(9), norm=0.0)
    found, _ = noise(bound=np.ones(9), usual=np.full(9, usual), norm=norm)
    np.testing.assert_allclose(found - own, expected, rtol=1e-6, atol=1e-12)


# --- random directions at 50 digits: the lesser of the sum over entries and of the norm -------------------------------


@pytest.mark.parametrize(
    ("entries", "norm", "off", "status"),
    [
        (1e-6, 1.0, 5e-6, "passed"),  # below the sum of nine
        (1e-6, 1.0, 5e-5, "inconclusive"),
        (1e-4, 1e-6, 5e-7, "passed"),  # below the norm
        (1e-4, 1e-6, 5e-6, "inconclusive"),
        (1e-4, 1.0, 5e-1, "failed"),  # above the bound, nine times 1e-2
    ],
)
def test_a_direction_is_judged_by_the_lesser_limit(entries: float, norm: float, off: float, status: str) -> None:
    """One entry is wrong by `off` of the gradient's size, which any direction of signs shows in full."""
    at, right = problem()
    size = math.hypot(*right)
    given = right + off * size * np.eye(9)[4]
    fine = Resolution(np.full(9, entries * size), norm * size)
    claim = GradientClaim(
        at, given, right, None, 192, np.full(9, 1e-2 * size), np.zeros(9), fine, np.random.default_rng(0), 1e-9
    )
    found = multiprecision.judge(claim)
    assert "random direction" in found.note and found.status == status
    assert found.value == pytest.approx(off, rel=1e-6, abs=0)
    limit = 9e-2 if status == "failed" else min(9 * entries, norm)
    assert found.tolerance == pytest.approx(limit, rel=1e-6, abs=0)


@pytest.mark.parametrize(("n", "d"), [(4, 3), (2, 40)])
def test_the_judge_s_noise_counts_the_features_that_a_direction_sums(n: int, d: int) -> None:
    """Its logits are sums over d features, the gradient's over n tokens: 4 (1 + d/n) times the bound."""
    rng = np.random.default_rng(0)
    at = posed(Instance(rng.normal(size=(n, d)), rng.normal(size=(d, d)) / d, M=rng.random((d, d))))
    right = at.flat(loops.gradient(at))
    known = taylor.Known(bound=np.zeros(d * d), usual=np.zeros(d * d), norm=0.0)
    found = taylor.slope(at, at.parted(right), [np.ones((d, d))], known)
    unit = float(np.finfo(np.longdouble).eps) / 2
    assert found.floor[0] / found.steps[0] >= 4 * (1 + d / n) * unit / 2.0**-53 * gradient_error(at).sum()


# --- balls: every entry within its enclosure, and an enclosure that is finer than the bound ---------------------------


def balls(given: list[float], lower: list[float], upper: list[float], bound: float) -> str:
    """A gradient of two entries in its place, the others 0; too little effort for a power series."""
    at, _ = problem()
    ends = [np.r_[part, np.ones(7)] for part in (lower, upper)]
    exact, fine = Enclosure(*ends), Resolution(np.full(9, bound), 9 * bound)
    claim = GradientClaim(
        at, np.r_[given, np.ones(7)], exact.midpoint, exact, 192, np.full(9, bound), np.zeros(9), fine,
        np.random.default_rng(0), 1e-9,
    )  # fmt: skip
    return ball.judge(claim).status


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("beyond", "status"), [(0.99, "passed"), (1.01, "failed")])
def test_an_entry_may_be_anywhere_in_its_enclosure(sign: float, beyond: float, status: str) -> None:
    """[-3e-6, 1e-6] and its mirror image hold 0, which is taken as the middle: 3e-6 may be missing on one side."""
    lower, upper = sorted((-3e-6 * sign, 1e-6 * sign))
    given = -sign * (3e-6 + 1e-5) * beyond
    assert balls([given, 1.0], [lower, 1.0], [upper, 1.0], 1e-5) == status


@pytest.mark.parametrize("place", [0, 1])
def test_one_wide_enclosure_decides_nothing(place: int) -> None:
    lower, upper = [1.0, 1.0], [1.0, 1.0]
    upper[place] += 1e-3
    assert balls([1.0, 1.0], lower, upper, 1e-5) == "inconclusive"
    assert balls([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], 1e-5) == "passed"


@pytest.mark.parametrize("wide", [(), (0,), (8,), tuple(range(9))])
def test_more_bits_where_one_entry_is_not_enclosed_finely(
    wide: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    at, right = problem()
    tried = []

    def enclosed(at: OracleInput, bits: int) -> Enclosure:
        tried.append(bits)
        radius = np.where(np.isin(np.arange(9), wide), 1.0, 0.0) * (len(tried) == 1)
        return Enclosure(right - radius, right + radius)

    monkeypatch.setattr(ball, "enclosed_gradient", enclosed)
    claim = verdict._claim(at, right, np.dtype(float), np.random.default_rng(0), 30.0)
    assert tried == ([192, 1536] if wide else [192]) and claim.bits == tried[-1]
    assert claim.fine.norm == pytest.approx(6 * math.hypot(*claim.bound), rel=1e-9, abs=0), (
        "six sigmas: nothing was measured"
    )
