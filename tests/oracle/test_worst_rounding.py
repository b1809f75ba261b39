"""The running-error bound against exponentials that are wrong by 1 to 4 u and sums in adverse orders."""

import numpy as np
import pytest

from attnprune_verify.oracle import ball, error_propagation, running_error
from attnprune_verify.oracle.error_propagation import Rounding, Scores
from tests.oracle.problems import FLOAT32, FLOAT64, random_problem

UNITS = {np.float64: FLOAT64, np.float32: FLOAT32}
ORDERS = {
    "as they come": lambda terms: terms,
    "backwards": lambda terms: terms[::-1],
    "largest first": lambda terms: np.take_along_axis(terms, np.argsort(-np.abs(terms), axis=0), 0),
    "positive first": lambda terms: np.take_along_axis(terms, np.argsort(-terms, axis=0), 0),
}
SIGNS = {
    "all up": lambda z: np.ones_like(z),
    "every other down": lambda z: np.where(np.arange(z.shape[-1]) % 2, -1.0, 1.0) * np.ones_like(z),
    "small ones up, the largest down": lambda z: np.where(z == 0, -1.0, 1.0),
}


def chain(terms, order):
    """The sum over the first axis, one rounding a term, in that order; larger orders differ from entry to entry."""
    return np.add.accumulate(ORDERS[order](terms), axis=0)[-1]


def product(A, B, order):
    return chain(np.moveaxis(A[:, :, None] * B[None], 1, 0), order)


def gradient(problem, order, exponential):
    M, W, allowed = problem.M, problem.W, problem.allowed
    total = np.zeros_like(W)
    for X in problem.samples:
        rows = []
        for fused in (M * W, W):
            z = np.where(allowed, product(product(X, fused, order), np.ascontiguousarray(X.T), order), -np.inf)
            z = (z - z.max(axis=1, keepdims=True)).astype(W.dtype)
            weights = np.where(allowed, exponential(np.where(allowed, z, 0)), 0).astype(W.dtype)
            rows.append(weights / chain(weights.T, order)[:, None])
        f, c = rows[0], rows[0] - rows[1]
        p = c * f - chain((c * f).T, order)[:, None] * f
        total = total + product(np.ascontiguousarray(X.T), product(p, X, order), order)
    return W * (total / W.dtype.type(len(problem.samples))) + W.dtype.type(problem.lam) * M


def exponential(ulps, sign, unit):
    """exp with a relative error of up to `ulps` u: one of them is the rounding to the format."""

    def double(z):
        wide = np.exp(z.astype(np.longdouble))
        return (wide * (1 + SIGNS[sign](z) * (ulps - 1) * unit)).astype(z.dtype)

    return double


@pytest.mark.parametrize("dtype", UNITS)
def test_the_bound_holds_for_every_exponential_within_four_ulp_and_every_order(dtype):
    rng, worst = np.random.default_rng(17), 0.0
    for index in range(8):
        problem = random_problem(rng, index, largest=6, dtype=dtype)
        truth = ball.gradient(*problem.args)
        bound = running_error.gradient_bound(*problem.args, UNITS[dtype])
        for ulps in (1, 2, 3, 4):
            for sign in SIGNS:
                for order in ORDERS:
                    found = gradient(problem, order, exponential(ulps, sign, UNITS[dtype]))
                    ratio = truth.distance(found) / bound
                    assert ratio.max() <= 1, (index, ulps, sign, order)
                    worst = max(worst, ratio.max())
    assert worst > 0.01


def test_an_exponential_that_is_off_by_much_more_is_noticed():
    """The doubles reach the bound: with 4,000 u in place of 4 it is exceeded."""
    problem = random_problem(np.random.default_rng(18), 1, largest=6, logits=1.0, dtype=np.float32)
    bound = running_error.gradient_bound(*problem.args, FLOAT32)
    found = gradient(problem, "as they come", exponential(4000, "every other down", FLOAT32))
    assert (ball.gradient(*problem.args).distance(found) > bound).any()


def long_and_short():
    """Two keys of equal score: a sum of 300 equal terms, rounded often, and a single term."""
    d = 300
    X, W = np.zeros((2, d), np.float32), np.full((d, d), 0.01, np.float32)
    X[0], X[1, 0] = 0.1, 30.0
    return X, W


def test_gamma_is_needed(monkeypatch):
    """Without k u / (1 - k u) the rounding of a sum of 300 terms is outside of the bound."""
    X, W = long_and_short()
    z = product(product(X, W, "as they come"), np.ascontiguousarray(X.T), "as they come")
    weights = np.exp(z - z.max(axis=1, keepdims=True))
    error = ball.attention(X, W).distance(weights / weights.sum(axis=1, keepdims=True))
    assert (error <= running_error.attention_bound(X, W, unit_roundoff=FLOAT32)).all()
    monkeypatch.setattr(Rounding, "gamma", lambda self, k: 2 * self.u)
    assert (error > running_error.attention_bound(X, W, unit_roundoff=FLOAT32)).any()


def test_expm1_is_needed(monkeypatch):
    """A weight of a thousandth whose logit may be off by 3 takes 1.7 % from its neighbour: e^3 - 1, not 3."""
    z, error = np.array([[0.0, -7.0]]), np.array([[0.0, 3.0]])
    moved = 1 / (1 + np.exp(-7)) - 1 / (1 + np.exp(-4))

    def bound():
        scores = Scores(z, np.zeros_like(z), error)
        return error_propagation.softmax(scores, np.ones_like(z, dtype=bool), Rounding(FLOAT64)).error[0, 0]

    assert bound() >= moved
    monkeypatch.setattr(error_propagation.np, "expm1", lambda x: x)
    assert bound() < moved
