"""Every number of a certified stationary point on its safe side: with wide balls, a crude centre, one variable."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat
from scipy.optimize import brentq

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory import stationary
from attnprune_verify.theory.formulas import newton
from attnprune_verify.theory.numbers.balls import precision
from attnprune_verify.theory.quantities.reduced import ReducedLoss, ReducedPoint
from attnprune_verify.theory.stationary import StationaryPoint, certified_stationary_point

W, LAM = 1.5, 0.05
ONE = Instance([[1.0], [0.0]], [[W]], lam=LAM)


def slope(M: float) -> float:
    """L'(M) for X = (1, 0): one logit W M."""
    s, f = 1 / (1 + np.exp(-W * M)), 1 / (1 + np.exp(-W))
    return float(2 * (s - f) * s * (1 - s) * W + LAM * M)


ROOT = float(brentq(slope, 0.0, 1.0, xtol=1e-15))
CRUDE = [ROOT + part for part in (-0.04, -0.015, 0.01, 0.03)]


def near(M: float, **more: Any) -> StationaryPoint:
    return certified_stationary_point(ONE, [[M]], **more)


def said(found: StationaryPoint) -> list[float]:
    """The numbers of the sentence: nearly alone within, away, eta, factor."""
    return [float(text.rstrip(".")) for text in re.findall(r"\d[\d.e+-]*", found.says.partition("within")[2])]


@pytest.mark.parametrize("M", CRUDE)
def test_from_a_crude_centre_every_distance_is_one_from_the_point_itself(M: float) -> None:
    """Not from the centre, which is the error away: the ball is smaller by that, and M = 1 may be further off."""
    found = near(M)
    assert found.certified and abs(M - ROOT) <= found.error < found.radius
    assert found.error > 0.5 * abs(M - ROOT) > 1e-3
    assert found.basin <= found.radius - found.error * (1 - 1e-12)
    assert abs(1 - ROOT) <= found.from_ones <= abs(1 - M) + found.error * (1 + 1e-12)
    alone, away, eta, factor = said(found)
    assert alone == pytest.approx(found.basin, rel=5e-3) and away == pytest.approx(found.error, rel=5e-3)
    assert (eta, factor) == pytest.approx((found.eta, found.factor), rel=1e-3)


def test_descent_has_arrived_when_it_is_in_the_basin_of_the_point() -> None:
    """As the point is within `error` of the centre, the walk must come that much nearer to the centre."""
    later = 0
    for M in np.linspace(ROOT - 0.03, ROOT + 0.03, 25):
        found = near(float(M))
        walk = [1.0]
        while len(walk) < 100:
            walk.append(walk[-1] - found.eta * slope(walk[-1]))
        away = np.abs(np.array(walk) - M)
        first = int(np.argmax(away < found.basin - found.error))
        assert found.steps == first
        assert all(abs(x - ROOT) <= found.basin for x in walk[first:])
        later += int(np.argmax(away < found.basin)) < first
        assert near(float(M), steps=first).steps == first
        assert first == 0 or near(float(M), steps=first - 1).steps is None
    assert later, "a walk that is in the basin around the centre and not certainly in that of the point"


def widened(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], share: float) -> None:
    """What `newton` computes as balls whose radius is a share of their size."""
    for name in names:
        right: Callable[..., arb] = getattr(newton, name)

        def wide(*values: Any, right: Callable[..., arb] = right) -> arb:
            middle = arb(right(*values).mid())
            return middle + arb(0, 1) * middle * share

        monkeypatch.setattr(newton, name, wide)


def test_numbers_are_the_safe_ends_of_their_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    M, share = CRUDE[0], 0.01
    sharp_one = near(M)
    widened(monkeypatch, ("trusted_radius", "distance"), share)
    wide = near(M)
    assert wide.radius <= sharp_one.radius * (1 - share * 0.999)
    assert wide.error >= sharp_one.error * (1 + share * 0.999)
    assert wide.basin <= wide.radius - wide.error * (1 - 1e-9)
    assert wide.from_ones >= abs(1 - M) + wide.error * (1 - 1e-9)
    alone, away, *_ = said(wide)
    assert alone == pytest.approx(wide.basin, rel=5e-3) and away == pytest.approx(wide.error, rel=5e-3)


def test_a_gradient_that_is_only_enclosed_counts_with_its_whole_ball(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the point itself the gradient's middle is 0: it may be anything in the ball, and the point elsewhere."""
    right, blur = ReducedLoss.at, 1e-4

    def at(self: ReducedLoss, a: arb_mat) -> ReducedPoint:
        found = right(self, a)
        return found._replace(gradient=arb_mat([[g + arb(0, blur)] for g in found.gradient.entries()]))

    monkeypatch.setattr(ReducedLoss, "at", at)
    found = near(ROOT)
    step = 1e-5
    curvature = (slope(ROOT + step) - slope(ROOT - step)) / (2 * step)
    assert found.certified and found.error >= blur / curvature


@pytest.mark.parametrize(("blur", "steps"), [(0.13, 3), (0.14, None)])
def test_the_walk_to_the_basin_drifts(blur: float, steps: int | None) -> None:
    """A unit a step towards 3, each step off by `blur`: what was off grows by 1 + C_- where the loss bends down most.

    After three steps blur (1 + g + g^2) with g = 1.2404, that is 3.78 blur, must be below 1/2.
    """
    loss: Any = SimpleNamespace(
        K=arb(1), lam=arb(0), start=arb_mat([[0]]), gradient=lambda here: arb_mat([[arb(-1, blur)]])
    )
    with precision():
        assert stationary._arrival(loss, arb(1), arb_mat([[3]]), arb("0.5"), 10) == steps
