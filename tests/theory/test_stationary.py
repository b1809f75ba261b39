"""Certified stationary points: against a root in one variable, known minima, a real head, and what must be refused."""

from pathlib import Path

import mpmath
import numpy as np
import pytest
from flint import arb, arb_mat

import attnprune_verify as apv
from attnprune_verify.check import instance_of_model
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.statements.landscape import _spurious
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.heads import head_weights, tokens_of
from attnprune_verify.theory.numbers.balls import precision
from attnprune_verify.theory.quantities.reduced import ReducedLoss, largest_above, least_below, triangular
from attnprune_verify.theory.stationary import certified_stationary_point

LLAMA = Path(__file__).parents[1] / "data" / "small_llama"
TEXT = Path(__file__).parents[2] / "LICENSE"


def head(layer: int, n: int, lam: float) -> Instance:
    """Head 0 of a layer of the small Llama on the first n tokens of a text, its rotations left out."""
    instance = instance_of_model(str(LLAMA), layer=layer, text=str(TEXT), n=n)
    queries, keys = head_weights(instance)[0]
    return Instance(tokens_of(instance)[0], queries @ keys.T, mask="causal", lam=lam)


@pytest.mark.parametrize("lam", [1e-3, 0.05, 2.0])
def test_one_variable(lam: float) -> None:
    """X = (1, 0), causal: only the second row has a choice, and none of its logits depends on M; full: one logit wM."""
    w = 1.5
    found = certified_stationary_point(Instance([[1.0], [0.0]], [[w]], lam=lam))
    with mpmath.workdps(40):

        def slope(M: mpmath.mpf) -> mpmath.mpf:
            s, f = 1 / (1 + mpmath.exp(-w * M)), 1 / (1 + mpmath.exp(-mpmath.mpf(w)))
            return 2 * (s - f) * s * (1 - s) * w + lam * M

        root = mpmath.findroot(slope, found.M[0, 0])
        assert found.certified and abs(root - mpmath.mpf(found.M[0, 0])) <= found.error < 1e-14
        # no other root within the radius, which a sign change would show
        signs = {
            mpmath.sign(slope(root + sign * found.radius * mpmath.mpf(part) / 8)) * sign
            for sign in (-1, 1)
            for part in range(1, 8)
        }
        assert signs == {1}
    assert found.steps is not None or lam < 0.01


@pytest.mark.parametrize("shape", [(3, 3, None), (5, 2, "causal"), (4, 3, "causal")])
def test_the_coordinates_lose_nothing(shape) -> None:  # type: ignore[no-untyped-def]
    n, d, mask = shape
    rng = np.random.default_rng(n)
    X, W, M = rng.standard_normal((n, d)), rng.standard_normal((d, d)), rng.uniform(size=(d, d))
    with precision():
        loss = ReducedLoss(Instance(X, W, mask=mask, lam=0.1))
        a = loss.coordinates(M)
        inside = np.array([float(x.mid()) for x in loss.mask(a)]).reshape(d, d)
        at = loss.at(a)
        bounds = float(least_below(at.hessian)), float(largest_above(at.hessian))
        q = Quantities(Case({"X": X, "W": W, "M": inside, "lam": 0.1, "mask": mask}, ""))
        assert float(at.loss) == pytest.approx(q.L, rel=1e-12)
        size = float(sum((x * x for x in at.gradient.entries()), arb(0)))
        assert size == pytest.approx(q.square(q.gradient), rel=1e-10)
        values = np.linalg.eigvalsh((q.curvature + q.curvature.T) / 2 + 0.1 * np.eye(d * d))
        assert bounds[1] == pytest.approx(values[-1], rel=1e-9) and bounds[0] >= values[0] - 1e-9
        assert float(loss.K) == pytest.approx(q.K, rel=1e-9)
        rows = q.PiA.reshape(n, n, d * d)
        assert float(loss.k) == pytest.approx(max(np.linalg.norm(row, 2) for row in rows), rel=1e-9)
        residual = max(np.linalg.norm(row) for row in q.c)
        assert float(at.residual) == pytest.approx(residual, rel=1e-9)


def test_known_spurious_minima_are_found_again() -> None:
    for case in _spurious():
        found = certified_stationary_point(Instance(case["X"], case["W"], mask=case["mask"]), case["M"])
        assert found.certified and found.error < 1e-9 and np.abs(found.M - case["M"]).max() < 1e-9
        assert found.from_ones > found.basin and found.steps is None


def test_negative_curvature_and_a_centre_that_is_too_far_prove_nothing() -> None:
    p = (15 + np.sqrt(33.0)) / 24
    bend = Instance([[1.0], [0.0]], [[20.0]], lam=1e-3)
    negative = certified_stationary_point(bend, [[-np.log(p / (1 - p)) / 20.0]])
    assert not negative.certified and "least curvature" in negative.says and np.isnan(negative.error)
    far = certified_stationary_point(Instance(np.eye(2), np.eye(2), lam=0.05), 3 * np.ones((2, 2)))
    assert not far.certified and "no point is proved" in far.says


def test_a_gradient_of_zero_is_no_nan() -> None:
    """lam = 0 at M = 1: the gradient's balls contain 0, and a root of what reaches below 0 would be nan."""
    mask = [[1, 1, 1], [0, 1, 0], [1, 1, 1]]
    X = [[-3.25, 0.4375], [-4.125, 1.0625], [-0.25, 2.625]]
    found = certified_stationary_point(Instance(X, [[0.36, -0.92], [-0.34, 1.0]], mask=mask))
    assert found.certified and 0 <= found.error < 1e-14 and found.steps == 0
    two = certified_stationary_point(Instance(np.eye(2), [[0.1, -0.3], [-0.7, 0.9]]), np.ones((2, 2)))
    assert two.certified and 0 <= two.error < 1e-14


def test_a_real_head() -> None:
    """At lam = 1e-6 the loss need not be convex everywhere, and descent from M = 1 certainly reaches the basin."""
    found = certified_stationary_point(head(0, 8, 1e-6))
    assert found.certified and not found.convex_everywhere and found.error < 1e-12
    assert found.steps is not None and 0 < found.steps <= 20 and found.from_ones > found.basin
    small = certified_stationary_point(head(0, 8, 1e-6), np.ones((64, 64)))
    assert not small.certified, "at M = 1 itself lam is too large for the curvature there"
    trivial = certified_stationary_point(head(0, 8, 1e-2), np.ones((64, 64)))
    assert trivial.certified and trivial.convex_everywhere


def test_descent_on_the_real_head_in_floats() -> None:
    """The other path: the library's gradient, step by step; the distance in the range falls at least by the factor."""
    instance = head(0, 8, 1e-6)
    found = certified_stationary_point(instance)
    objective = apv.Objective(instance.X, instance.W, instance.lam, "causal")
    X, allowed = instance.X, np.tri(8, dtype=bool)
    centred = [X[: i + 1] - X[: i + 1].mean(axis=0) for i in range(8)]
    rows = np.concatenate(
        [(instance.W * X[i][:, None] * y[:, None, :]).reshape(i + 1, -1) for i, y in enumerate(centred)]
    )
    span = np.linalg.svd(rows, full_matrices=False)[2][: int(allowed.sum() - 8)]
    M, away = np.ones((64, 64)), []
    for _ in range(found.steps + 4):
        away.append(np.linalg.norm(span @ (M - found.M).ravel()))
        M = M - found.eta * objective.loss_and_gradient(M)[1]
    assert away[0] <= found.from_ones * (1 + 1e-9) and away[found.steps] <= found.basin
    for before, after in zip(away[found.steps :], away[found.steps + 1 :], strict=False):
        assert after <= found.factor * before + 1e-12


@pytest.mark.parametrize(
    ("instance", "why"),
    [
        (Instance(np.ones((2, 2, 2)), np.eye(2)), "one sample"),
        (Instance([[1.0]], [[1.0]]), "two positions"),
        (Instance(np.eye(2), np.zeros((2, 2))), "certainly moves"),
        (Instance(np.ones((3, 2)), np.eye(2)), "certainly moves"),
        (Instance(np.random.default_rng(0).standard_normal((20, 13)), np.ones((13, 13))), "at most 160; got 169"),
        (Instance(np.ones((13, 13)) + np.eye(13)[[0] * 4 + [1] * 9], np.eye(13)), "at most 160"),
    ],
)
def test_refusals(instance: Instance, why: str) -> None:
    with pytest.raises(InvalidInstance, match=why):
        certified_stationary_point(instance)


def test_a_centre_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidInstance, match="near must be finite"):
        certified_stationary_point(Instance(np.eye(2), np.eye(2)), np.ones((3, 2)))


def test_eigenvalue_bounds_hold_for_every_matrix_in_the_balls() -> None:
    """Wide balls: the bound is below the least eigenvalue of each end, and no factor that might not exist."""
    wide = arb_mat([[arb(2, 0.5), arb(1, 0.25)], [arb(1, 0.25), arb(2, 0.5)]])
    worst = np.linalg.eigvalsh([[1.5, 1.25], [1.25, 1.5]])[0]
    assert float(least_below(wide)) <= worst
    assert float(largest_above(wide)) >= np.linalg.eigvalsh([[2.5, 1.25], [1.25, 2.5]])[1]
    assert triangular(arb_mat([[arb(1, 1), 0], [0, 1]])) is None


def below(polynomial, limit: str, low: float, high: float) -> bool:  # type: ignore[no-untyped-def]
    """Return True where the polynomial is below the limit on [low, high]: boxes as balls, halved where that is open."""
    middle, half = (low + high) / 2, (high - low) / 2
    if polynomial(arb(middle, half)) < arb(limit):
        return True
    return half > 1e-6 and below(polynomial, limit, low, middle) and below(polynomial, limit, middle, high)


def test_the_two_polynomials_of_the_third_derivative_on_boxes() -> None:
    def two(t: arb) -> arb:
        return 4 * t * t * (1 - t) * (2 * t - 1)

    def three(t: arb) -> arb:
        return 8 * t * t * t * (1 - t) * (1 - t) * (3 - 2 * t)

    with precision():
        assert below(two, "0.31", 0.5, 1.0) and below(three, "0.513", 0.5, 1.0)
        assert not below(two, "0.309", 0.5, 1.0) and not below(three, "0.511", 0.5, 1.0)
        assert arb("0.155").sqrt() < arb(2) / 5 and arb("0.2565").sqrt() < arb(51) / 100
