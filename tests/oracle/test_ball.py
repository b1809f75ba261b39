"""The enclosures enclose: against mpmath at 60 digits, against power series at 200, at the edges of the floats."""

import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from attnprune_verify.oracle import ball, multiprecision
from attnprune_verify.oracle.ball_forms import gradient_balls
from attnprune_verify.oracle.ball_series import slope_along
from attnprune_verify.oracle.enclosure import Enclosure, as_balls, enclose, hadamard, working_precision
from tests.oracle.problems import random_problem


def contains_multiprecision(enclosure, value):
    """The float64 ends against 60-digit numbers, compared in mpmath."""
    lower, upper, inner = (
        np.ravel(enclosure.lower),
        np.ravel(enclosure.upper),
        np.ravel(np.asarray(value, dtype=object)),
    )
    slack = mpmath.mpf(10) ** -35
    return all(
        mpmath.mpf(a) - slack * (1 + abs(x)) <= x <= mpmath.mpf(b) + slack * (1 + abs(x))
        for a, b, x in zip(lower, upper, inner, strict=True)
    )


def test_enclosures_contain_sixty_digits_and_are_tight():
    rng = np.random.default_rng(0)
    for index in range(30):
        problem = random_problem(rng, index, largest=3)
        for function, finest in (("loss", 60), ("gradient", 60)):
            enclosure = getattr(ball, function)(*problem.args)
            with mpmath.workdps(80):
                assert contains_multiprecision(enclosure, getattr(multiprecision, function)(problem.at, digits=finest))
            assert (enclosure.upper - enclosure.lower <= 4 * np.spacing(enclosure.magnitude) + 1e-30).all()


def test_closed_form_is_the_derivative_of_the_literal_loss_to_200_digits():
    """Not at float64 resolution: the balls themselves overlap, with radii below 1e-190."""
    rng = np.random.default_rng(1)
    for index in range(40):
        problem = random_problem(rng, index, largest=4)
        M, X, W, lam, mask = problem.args
        D = rng.standard_normal(W.shape)
        with working_precision(900):
            closed = sum(hadamard(gradient_balls(problem.at)[0], as_balls(D)).entries(), arb(0))
            closed += arb(lam) * sum(hadamard(as_balls(M), as_balls(D)).entries(), arb(0))
            literal = slope_along(problem.at, (D,))
            assert closed.overlaps(literal)
            assert (closed - literal).abs_upper() < arb(10) ** -190 * (1 + abs(literal.mid()))


def test_series_agree_with_gradient_and_hessian_product():
    rng = np.random.default_rng(2)
    for index in range(60):
        problem = random_problem(rng, index, largest=5)
        M, *rest = problem.args
        D = rng.choice([-1.0, 1.0], size=M.shape)
        gradient, product = ball.gradient(*problem.args), ball.hessian_vector_product(M, D, *rest)
        for enclosure, series in (
            (gradient, ball.directional_derivative(M, D, *rest)),
            (product, ball.second_directional_derivative(M, D, *rest)),
        ):
            slack = 1e-14 * np.abs(enclosure.magnitude).sum() + 1e-300
            assert abs(float((enclosure.midpoint * D).sum()) - float(series.midpoint)) <= slack


def test_an_underflowing_weight_keeps_a_sound_radius():
    """Logits 0 and -5000: the weight is exp(-5000), far below float64, and must not be enclosed by exactly 0."""
    F = ball.attention(np.eye(2), np.array([[0.0, -5000.0], [0.0, 0.0]]))
    assert F.lower[0, 1] <= 0 < F.upper[0, 1] <= 5e-324
    assert F.lower[0, 0] < 1 <= F.upper[0, 0]


def test_huge_logits_of_every_sign_give_finite_sound_bounds():
    rng = np.random.default_rng(3)
    for scale in (1e3, 1e6, 1e15, 1e100, 1e300):
        X, W = np.eye(3), scale * rng.standard_normal((3, 3))
        F = ball.attention(X, W, prec=2048)
        assert np.isfinite(F.lower).all() and np.isfinite(F.upper).all()
        order = W.argmax(axis=1)
        assert (F.upper[np.arange(3), order] >= 1 - 1e-12).all()


def test_nothing_pruned_gives_exactly_zero():
    rng = np.random.default_rng(4)
    X, W = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    found = ball.gradient(np.ones((3, 3)), X, W)
    assert (found.lower == 0).all() and (found.upper == 0).all()


def test_fractions_are_taken_exactly():
    """softmax(0, log-free): with W = 0 every weight is 1/n; and 1/3 is enclosed, not replaced by a float."""
    X = np.array([[Fraction(1, 3)], [Fraction(2, 3)], [Fraction(1)]], dtype=object)
    W, M = np.array([[Fraction(6, 7)]], dtype=object), np.array([[Fraction(1, 10)]], dtype=object)
    exact = ball.gradient(M, X, W, Fraction(1, 9))
    rounded = ball.gradient(*(np.asarray(a, dtype=float) for a in (M, X, W)), 1 / 9)
    assert np.abs(exact.midpoint - rounded.midpoint) < 1e-15
    regular = ball.gradient(M, X, np.array([[0]]), Fraction(1, 3))
    assert regular.lower[0, 0] <= Fraction(1, 30) <= regular.upper[0, 0] and regular.lower[0, 0] < regular.upper[0, 0]


def test_integers_float32_and_booleans_are_exact_inputs():
    X32 = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32)
    W, M = np.array([[1, 2], [3, 4]]), np.array([[True, False], [True, True]])
    same = ball.loss(M.astype(float), X32.astype(float), W.astype(float), 1)
    found = ball.loss(M, X32, W, np.int64(1))
    assert found.lower == same.lower and found.upper == same.upper


def test_non_finite_input_is_enclosed_by_everything():
    found = ball.loss(np.array([[np.nan]]), np.ones((2, 1)), np.ones((1, 1)), 0.1)
    assert found.lower == -np.inf and found.upper == np.inf


def test_target_doubles_the_precision():
    """Logits near 1e30 cancel 100 bits: 64 bits know nothing, the target is reached all the same."""
    rng = np.random.default_rng(5)
    X, W, M = np.eye(2), 1e30 * rng.standard_normal((2, 2)), rng.uniform(0.1, 0.9, (2, 2))
    X = X + 1e-30 * rng.standard_normal((2, 2))
    blurred = ball.gradient(M, X, W, 0.1, prec=64)
    sharp = ball.gradient(M, X, W, 0.1, prec=64, target=1e-12)
    assert np.linalg.norm(sharp.radius) <= 1e-12 * np.linalg.norm(sharp.midpoint)
    assert ((blurred.lower <= sharp.lower) & (sharp.upper <= blurred.upper)).all()


def test_precision_is_restored_also_after_an_error():
    before = ctx.prec, ctx.cap
    ball.loss(np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), prec=777)
    with pytest.raises(RuntimeError), working_precision(555):
        raise RuntimeError
    assert (ctx.prec, ctx.cap) == before


def test_threads_do_not_change_each_others_precision():
    rng = np.random.default_rng(6)
    problem = random_problem(rng, 1, largest=5)
    alone = {prec: ball.gradient(*problem.args, prec=prec) for prec in (64, 128, 512)}
    wrong = []

    def work(prec):
        for _ in range(20):
            found = ball.gradient(*problem.args, prec=prec)
            if not (found.lower == alone[prec].lower).all() or not (found.upper == alone[prec].upper).all():
                wrong.append(prec)

    threads = [threading.Thread(target=work, args=(prec,)) for prec in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_rounding_to_floats_is_outward():
    with working_precision(200):
        third, tiny, huge = arb(1) / 3, (arb(-100000)).exp(), (arb(100000)).exp()
        found = enclose([third, -third, tiny, -tiny, huge, -huge, arb(0.5)], (7,))
    assert found.lower[0] < 1 / 3 + 1e-17 and Fraction(found.lower[0]) < Fraction(1, 3) < Fraction(found.upper[0])
    assert found.lower[2] <= 0 < found.upper[2] and found.lower[3] < 0 <= found.upper[3]
    assert found.upper[4] == np.inf and np.isfinite(found.lower[4]) and found.lower[5] == -np.inf
    assert found.lower[6] == found.upper[6] == 0.5


def test_enclosure_measures():
    interval = Enclosure(np.array([1.0, -2.0]), np.array([2.0, -2.0]))
    assert interval.contains(interval.midpoint) and not interval.contains([np.nan, -2.0])
    assert (interval.midpoint - interval.radius <= interval.lower).all()
    assert interval.distance([1.0, -2.0])[0] >= 1.0 and interval.distance([np.nan, 0.0])[0] == np.inf
    assert (interval.magnitude == [2.0, 2.0]).all()


@pytest.mark.parametrize("scale", [1e20, 1e60, 1e150])
def test_series_of_astronomical_logits_are_enclosed_or_unbounded_but_never_refused(scale):
    """Where the precision does not reach the logits, exp is a ball around 0 and no quotient of series exists."""
    rng = np.random.default_rng(5)
    X, W = rng.standard_normal((4, 3)), scale * rng.standard_normal((3, 3))
    M, D = rng.uniform(0, 1, (3, 3)), np.ones((3, 3))
    for function in (ball.directional_derivative, ball.second_directional_derivative):
        rough = function(M, D, X, W, 0.5, prec=64)
        fine = function(M, D, X, W, 0.5, prec=4096)
        assert np.isfinite(fine.lower) and np.isfinite(fine.upper)
        assert rough.lower <= fine.lower and fine.upper <= rough.upper
