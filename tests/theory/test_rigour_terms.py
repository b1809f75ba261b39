"""Each term that pays for rounding in a certified eigenvalue or norm, on an instance that needs it.

The doubles round as badly as the theorem behind the term allows. With the term the bound still holds; the same double
against the bound without the term shows that it would not. Terms that no instance can need are listed, with the
reason, at the end of proofs_check/PROOFS.md.
"""

import numpy as np
import pytest
from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory import bounds
from attnprune_verify.theory.numbers import spectral
from attnprune_verify.theory.quantities import curvature, operator_norm
from attnprune_verify.theory.quantities.logit_map import LogitMap
from attnprune_verify.theory.quantities.measure import logit_norm

SIZE = 150
U = 2.0**-53


def lenient_cholesky(A):
    """Completes wherever Rump's theorem lets a Cholesky decomposition of the diagonal A complete."""
    gamma = (SIZE + 1) * U / (1 - (SIZE + 1) * U)
    return bool(np.diagonal(A).min() >= -gamma / (1 - gamma) * np.trace(A))


def bound_of_one(monkeypatch):
    """largest_eigenvalue of diag(1, 0, ..., 0), whose first guess lies as low as the lenient decomposition accepts."""
    monkeypatch.setattr(spectral, "completes", lenient_cholesky)
    S = np.zeros((SIZE, SIZE))
    S[0, 0] = 1.0
    lowest = 1 - 0.99 * (SIZE + 1) * U * (SIZE - 1)
    assert lenient_cholesky(lowest * np.eye(SIZE) - S)
    return spectral.largest_eigenvalue(S, estimate=lowest - 8 * SIZE * U)[0]


def test_the_trace_term_pays_for_a_decomposition_that_should_not_have_completed(monkeypatch):
    assert bound_of_one(monkeypatch) >= 1
    monkeypatch.setattr(spectral, "_alpha", lambda size: 0.0)
    assert bound_of_one(monkeypatch) < 1


def cancelling():
    """Two blocks of nearly equal tokens 4096 away: rounding is 3e-7 of K^2, and K is known in balls."""
    small = np.random.default_rng(5).integers(-4, 5, (4, 2)).astype(float)
    X = small + np.repeat([[2.0**12, 0.0], [0.0, -(2.0**12)]], 2, axis=0)
    instance = Instance(X, np.array([[1.0, -2.0], [0.5, 3.0]]), mask=np.kron(np.eye(2), np.ones((2, 2))))
    low, high = operator_norm._ball_squares(instance)
    return instance, low.sqrt(), high.sqrt()


def test_the_rounding_of_the_gram_matrix_is_paid_for(monkeypatch):
    """A Gram matrix that is too small by 0.99 of what its rounding may be."""
    instance, K, _ = cancelling()
    gram, rounding = operator_norm._gram, LogitMap(instance).rounding()
    monkeypatch.setattr(operator_norm, "_gram", lambda maps: gram(maps) - 0.99 * rounding * np.eye(4))
    assert operator_norm.norm_bounds(instance).upper >= K
    monkeypatch.setattr(LogitMap, "rounding", lambda self: 0.0)
    assert operator_norm.norm_bounds(instance).upper < K


def test_the_rounding_of_the_quotient_is_paid_for(monkeypatch):
    """An operator that is too large by 0.99 of what its rounding may be."""
    instance, _, K = cancelling()
    normal, rounding = LogitMap.normal, LogitMap(instance).rounding()
    monkeypatch.setattr(LogitMap, "normal", lambda self, N: normal(self, N) + 0.99 * rounding * N)
    assert operator_norm.norm_bounds(instance).lower <= K
    monkeypatch.setattr(LogitMap, "rounding", lambda self: 0.0)
    assert operator_norm.norm_bounds(instance).lower > K


@pytest.mark.parametrize("size", [1, 2, 30, 400])
def test_the_trace_term_holds_the_rounding_of_the_diagonal_as_well(size):
    """_alpha is by 2 u above Rump's alpha, so 2 u trace also covers u (|theta| + max |S_ii|): see PROOFS.md."""
    gamma = (size + 1) * U / (1 - (size + 1) * U)
    assert spectral._alpha(size) >= gamma / (1 - gamma) + 2 * U


@pytest.mark.parametrize("far", ["M", "1"])
def test_the_curvature_pays_for_the_errors_of_both_attention_matrices(far, monkeypatch):
    """F(M) and F(1) are rounded by amounts of their own: the larger of the two counts, whichever it is."""
    rng = np.random.default_rng(3)
    instance = Instance(rng.standard_normal((4, 3)), 0.3 * rng.standard_normal((3, 3)), M=np.zeros((3, 3)))
    exact = curvature.local_curvature(instance)
    error = {"M": lambda M: 1e-5 * (not M.all()), "1": lambda M: 1e-5 * bool(M.all())}[far]
    monkeypatch.setattr(curvature, "weight_error", lambda _, M: error(M))
    rounded = curvature.local_curvature(instance)
    K = float(logit_norm(instance).upper)
    assert rounded.upper - exact.upper >= 28e-5 * K**2 and exact.lower - rounded.lower >= 28e-5 * K**2


@pytest.mark.parametrize(
    ("whole", "attention", "status"),
    [
        (arb(4), arb(4), "holds"),
        (arb(4, 2), arb(2), "holds"),  # the triangle inequality is enough
        (arb(6), arb(2), "holds"),  # so is it where the sum seems too large: one of the two numbers is a bound
        (arb(4), arb(9), "holds"),
        (arb(6), arb(5), "violated"),
        (arb(6), arb(3, 2), "violated"),
        (arb(5, 1), arb(9), "undecided"),  # a change of the whole gradient that may be too large, and may not
        (arb(5, 1), arb(4, 1), "undecided"),
    ],
    ids=str,
)
def test_a_lipschitz_bound_is_judged_by_the_whole_gradient(whole, attention, status):
    """lam = 2 and a constant of 3: whole <= 5, or attention <= 3, proves it; whole > 5 alone refutes it."""
    found = bounds._lipschitz("name", bounds._Steepest(whole, attention, "here"), 2.0, arb(3))
    assert found.status == status
