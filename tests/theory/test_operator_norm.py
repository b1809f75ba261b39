"""K = ||Pi A|| between its bounds, against the dense operator, against exact arithmetic, on masks and batches."""

import math
from fractions import Fraction

import numpy as np
import pytest

from attnprune_verify.instance import families
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.numbers.balls import log10, lower, upper
from attnprune_verify.theory.numbers.spectral import completes, largest_eigenvalue, least_eigenvalue, spectral_norm
from attnprune_verify.theory.quantities import cheap_norm as norms
from attnprune_verify.theory.quantities.logit_map import LogitMap
from attnprune_verify.theory.quantities.operator_norm import norm_bounds


def dense_norm(instance):
    """||Pi A|| from the definition: one column per entry of M, no shared code with the library."""
    X, W, allowed = instance.samples.astype(float), instance.W.astype(float), instance.allowed
    columns = []
    for a in range(instance.d):
        for b in range(instance.d):
            logits = W[a, b] * X[:, :, a, None] * X[:, None, :, b]
            kept = np.where(allowed, logits, 0.0)
            mean = kept.sum(axis=2, keepdims=True) / allowed.sum(axis=1)[:, None]
            columns.append(np.where(allowed, kept - mean, 0.0).ravel())
    return float(np.linalg.norm(np.array(columns), 2)) / math.sqrt(len(X))


def masks(n, rng):
    random = rng.random((n, n)) < 0.5
    random[np.arange(n), rng.integers(0, n, n)] = True
    return (None, "causal", random.astype(float))


@pytest.mark.parametrize("n, d, k", [(1, 2, 1), (2, 1, 1), (4, 3, 1), (3, 5, 2), (7, 4, 3), (12, 9, 1), (20, 16, 1)])
def test_certified_within_one_percent(n, d, k):
    rng = np.random.default_rng(n + 100 * d)
    for mask in masks(n, rng):
        instance = Instance(rng.standard_normal((k, n, d)), rng.standard_normal((d, d)), mask=mask)
        truth, found = dense_norm(instance), norm_bounds(instance)
        assert lower(found.lower) <= truth * (1 + 1e-12) + 1e-12
        assert upper(found.upper) >= truth * (1 - 1e-13)
        assert upper(found.upper) <= 1.0001 * truth + 1e-12
        assert lower(found.lower) >= 0.9999 * truth - 1e-12


def test_wrong_norms_are_caught():
    """Uncentred, transposed (centring the wrong side) or averaged without the square: each leaves the window."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2, 5, 3)) + [3.0, 0.0, 0.0]
    X[1] *= 2
    instance = Instance(X, rng.standard_normal((3, 3)))
    truth = norm_bounds(instance)
    window = (lower(truth.lower), upper(truth.upper))
    one = [upper(norm_bounds(Instance(x, instance.W)).upper) for x in X]
    uncentred = np.sqrt(np.linalg.eigvalsh(sum(_gram(x, x, instance.W) for x in X) / 2)[-1])
    transposed = upper(norm_bounds(Instance(X, instance.W.T)).upper)
    for wrong in (uncentred, transposed, np.mean(one), np.sqrt(np.mean(np.square(one))) * 0.99):
        assert not window[0] <= wrong <= window[1]


def _gram(x, y, W):
    d = len(W)
    w = W.ravel()
    return np.outer(w, w) * np.kron(x.T @ x, y.T @ y).reshape(d * d, d * d)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_rank_one_bound_beyond_the_dense_limit(mask):
    rng = np.random.default_rng(2)
    instance = Instance(rng.standard_normal((2, 9, 34)), rng.standard_normal((34, 34)), mask=mask)
    truth, found = dense_norm(instance), norm_bounds(instance)
    assert "rank-one" in found.method
    assert lower(found.lower) <= truth * (1 + 1e-12) and lower(found.lower) > 0.99 * truth
    assert truth <= upper(found.upper) <= 4 * truth


def test_majorants_cover_the_weights_and_constant_weights_attain_the_bound():
    rng = np.random.default_rng(3)
    W = rng.standard_normal((6, 6)) * (rng.random((6, 6)) < 0.6)
    W[2] = 0.0
    for a, b in norms._majorants(np.abs(W)):
        assert (np.abs(W) <= np.outer(a, b)).all()
    X, signs = rng.standard_normal((5, 4)), rng.choice([-1.0, 1.0], 4)
    instance = Instance(X, 0.7 * np.outer(signs, signs))
    logits = LogitMap(instance)
    bound = np.sqrt(norms.rank_one_square(logits)) * float(logits.unit)
    assert bound == pytest.approx(dense_norm(instance), rel=1e-9)


def test_the_row_bound_is_sound_and_sharper_than_the_rank_one_bound():
    rng = np.random.default_rng(9)
    for n, d, mask in ((5, 4, None), (12, 5, "causal"), (9, 34, None)):
        W = rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-2, 1, (d, 1))
        W[d // 2] = 0.0
        instance = Instance(rng.standard_normal((n, d)) + 3.0, W, mask=mask)
        logits, truth = LogitMap(instance), dense_norm(instance)
        by_rows = np.sqrt(norms.row_square(logits.X, logits.Y, logits.W)) * float(logits.unit)
        by_columns = np.sqrt(norms.row_square(logits.Y, logits.X, logits.W.T)) * float(logits.unit)
        centred = instance.X - instance.X.mean(axis=0)
        plain = np.linalg.norm(instance.X * np.abs(W).max(axis=1), 2) * np.linalg.norm(centred, 2)
        assert truth <= min(by_rows, by_columns) and by_rows <= 1.02 * plain


def test_a_row_bound_with_rows_and_columns_mixed_up_is_refuted():
    """Only column 1 of X varies, and W reads it through row 0: the transposed weights see nothing."""
    X, W = np.array([[10.0, 0.0], [10.0, 1.0]]), np.array([[0.01, 1.0], [0.01, 0.01]])
    logits, truth = LogitMap(Instance(X, W)), dense_norm(Instance(X, W))
    assert truth <= np.sqrt(norms.row_square(logits.X, logits.Y, logits.W)) * float(logits.unit)
    assert truth > np.sqrt(norms.row_square(logits.X, logits.Y, logits.W.T)) * float(logits.unit)


@pytest.mark.parametrize("power", [0, 300, -300, 800, -800])
def test_exact_under_powers_of_two(power):
    rng = np.random.default_rng(4)
    X, W = rng.standard_normal((4, 3)), rng.standard_normal((3, 3))
    plain, scaled = norm_bounds(Instance(X, W)), norm_bounds(Instance(np.ldexp(X, power), W))
    assert log10(scaled.upper) == pytest.approx(log10(plain.upper) + 2 * power * math.log10(2), rel=1e-13)
    assert log10(scaled.lower) == pytest.approx(log10(plain.lower) + 2 * power * math.log10(2), rel=1e-13)


def test_cancellation_is_met_with_balls():
    """Two blocks of nearly equal tokens far apart: in floats the centred Gram matrix is all rounding error."""
    rng = np.random.default_rng(5)
    small = rng.integers(-4, 5, (4, 2)).astype(float)
    X = small + np.repeat([[2.0**40, 0.0], [0.0, -(2.0**41)]], 2, axis=0)
    W, mask = np.array([[1.0, -2.0], [0.5, 3.0]]), np.kron(np.eye(2), np.ones((2, 2)))
    found = norm_bounds(Instance(X, W, mask=mask))
    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    weights = [Fraction(v) for v in W.ravel().tolist()]
    gram = [[Fraction(0)] * 4 for _ in range(4)]
    for i in range(4):
        block = [rows[j] for j in range(4) if mask[i, j]]
        mean = [sum(v[b] for v in block) / 2 for b in range(2)]
        for v in block:
            image = [weights[2 * a + b] * rows[i][a] * (v[b] - mean[b]) for a in range(2) for b in range(2)]
            gram = [[g + p * q for g, q in zip(line, image, strict=True)] for line, p in zip(gram, image, strict=True)]
    truth = math.sqrt(np.linalg.eigvalsh(np.array([[float(g) for g in line] for line in gram]))[-1])
    assert "balls" in found.method
    assert lower(found.lower) <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= upper(found.upper) <= truth * 1.001


@pytest.mark.parametrize("name", sorted(families.FAMILIES))
def test_every_family_has_ordered_bounds(name):
    found = norm_bounds(families.FAMILIES[name](np.random.default_rng(6)))
    assert 0 <= lower(found.lower) <= upper(found.upper) < math.inf


def test_certified_eigenvalues_hold_against_exact_ones():
    rng = np.random.default_rng(7)
    for m in (1, 2, 5, 30):
        Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
        values = np.sort(rng.standard_normal(m))
        S = Q @ np.diag(values) @ Q.T
        S = (S + S.T) / 2
        high, _ = largest_eigenvalue(S, error=1e-13)
        low, _ = least_eigenvalue(S, error=1e-13)
        assert values[-1] <= high < values[-1] + 1e-9 and values[0] - 1e-9 < low <= values[0]
        B = rng.standard_normal((m, 3))
        assert np.linalg.norm(B, 2) * (1 - 1e-15) <= spectral_norm(B) < np.linalg.norm(B, 2) * (1 + 1e-9)
    assert not completes(np.diag([1.0, -1e-3])) and not completes(np.array([[np.nan]])) and completes(np.eye(2))
    assert least_eigenvalue(np.diag([3.0, 5.0]))[0] <= 3.0  # a negative bound must be widened downwards
    assert largest_eigenvalue(-np.diag([3.0, 5.0]))[0] >= -3.0


def test_the_normal_map_is_the_map_after_its_transpose():
    rng = np.random.default_rng(8)
    for mask in masks(5, rng):
        logits = LogitMap(Instance(rng.standard_normal((2, 5, 4)), rng.standard_normal((4, 4)), mask=mask))
        N, V = rng.standard_normal((2, 4, 4))
        found, wanted = np.vdot(V, logits.normal(N)), np.vdot(logits.apply(V), logits.apply(N)) / 2
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-14)
