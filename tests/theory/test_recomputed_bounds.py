"""Row constants, kappa_+ and admissible betas, computed again from their definitions."""

import math

import numpy as np
import pytest
from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.assumptions import assumptions
from attnprune_verify.theory.pl_bounds import _admissible_beta
from attnprune_verify.theory.quantities.curvature import row_constants
from attnprune_verify.theory.quantities.gram import GramFloor
from attnprune_verify.theory.quantities.kappa import kappa_plus

C_PLUS, C_MINUS = (39 + 55 * math.sqrt(33)) / 1152, (55 * math.sqrt(33) - 39) / 1152


def rows(seed: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """A softmax row and the dense one: spread out, peaked, one-hot, close to each other."""
    rng = np.random.default_rng(seed)
    size = float(rng.choice([0.3, 1.0, 3.0]))
    sigma = np.exp(size * rng.standard_normal(m))
    f = np.exp(float(rng.choice([0.3, 3.0, 30.0])) * rng.standard_normal(m))
    sigma, f = sigma / sigma.sum(), f / f.sum()
    return sigma, sigma + 0.01 * (f - sigma) if seed % 3 == 0 else f


def extremal() -> list[tuple[np.ndarray, np.ndarray]]:
    """Two tokens, p = (15 -+ sqrt 33)/24, f one-hot: the curvatures C_+ and -C_-."""
    places = [(15 + sign * math.sqrt(33)) / 24 for sign in (-1, 1)]
    return [(np.array([p, 1 - p]), np.array(f)) for p in places for f in ([0.0, 1.0], [1.0, 0.0])]


ROWS = [rows(seed, m) for m in (2, 3, 6) for seed in range(40)] + extremal()


def hessian(sigma: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Of 1/2 ||softmax(s) - f||^2 in the logits s: J^2 + sum_j c_j d^2 sigma_j."""
    m, c = len(sigma), sigma - f
    J = np.diag(sigma) - np.outer(sigma, sigma)
    second = np.zeros((m, m))
    for j in range(m):
        e = np.eye(m)[j] - sigma
        second += c[j] * sigma[j] * (np.outer(e, e) - J)
    return J @ J + second


def test_the_hessian_of_a_row_is_its_second_difference() -> None:
    sigma, f = ROWS[50]
    s, h = np.log(sigma), 1e-4

    def value(t: np.ndarray) -> float:
        w = np.exp(t) / np.exp(t).sum()
        return float(np.sum((w - f) ** 2) / 2)

    units = h * np.eye(len(s))
    found = [
        [(value(s + a + b) - value(s + a - b) - value(s - a + b) + value(s - a - b)) / (4 * h * h) for b in units]
        for a in units
    ]
    np.testing.assert_allclose(hessian(sigma, f), found, atol=1e-6)


def test_row_constants_are_their_formula_and_enclose_the_curvature() -> None:
    for sigma, f in ROWS:
        c = sigma - f
        second, first = sorted(sigma)[-2:] if len(sigma) > 1 else (0.0, sigma[0])
        mean, b = float(c @ sigma), float(first * (1 - first + second))
        assert np.linalg.eigvalsh(np.diag(sigma) - np.outer(sigma, sigma))[-1] <= b + 1e-12
        a = np.outer(sigma, sigma) * (
            2 * (sigma[:, None] + sigma[None, :]) - f[:, None] - f[None, :] - 3 * sigma @ sigma + 2 * f @ sigma
        )
        np.fill_diagonal(a, 0.0)
        above = b * b + b * max(float((c - mean).max()), 0.0)
        below = b * max(float((mean - c).max()) - float(sigma.min()), 0.0)
        discs = [2 * float((sign * a).clip(min=0).sum(axis=1).max()) for sign in (1, -1)]
        (upper,), (lower,) = row_constants(sigma[None, :], f[None, :])
        assert upper == pytest.approx(min(C_PLUS, discs[0], above), abs=1e-12)
        assert lower == pytest.approx(min(C_MINUS, discs[1], below), abs=1e-12)
        values = np.linalg.eigvalsh(hessian(sigma, f))
        assert -lower - 1e-12 <= values[0] and values[-1] <= upper + 1e-12


def test_the_smallest_singular_value_that_is_not_zero() -> None:
    for n, d, mask in ((3, 2, None), (4, 2, "causal"), (2, 3, None), (5, 3, None)):
        rng = np.random.default_rng(n)
        X, W = rng.standard_normal((n, d)), rng.standard_normal((d, d))
        instance = Instance(X, W, mask=mask)
        lines = []
        for i in range(n):
            S = np.flatnonzero(instance.allowed[i])
            block = np.array([(W * np.outer(X[i], X[j])).ravel() for j in S])
            lines.append(block - block.mean(axis=0))
        values = np.linalg.svd(np.concatenate(lines), compute_uv=False)
        smallest = values[values > 1e-9 * values[0]][-1]
        assert len(values[values > 1e-9 * values[0]]) >= 2
        assert float(kappa_plus(instance)) == pytest.approx(smallest, rel=1e-9)
        assert float(kappa_plus(instance)) <= smallest * (1 + 1e-12)


def test_a_beta_must_fit_every_sample_and_be_certain() -> None:
    X = np.stack([2 * np.eye(2), np.diag([1.0, 3.0])])
    judged = {item.id: item for item in assumptions(Instance(X, np.ones((2, 2))), beta=2.0)}
    assert not judged["beta"].holds and "too large" in judged["beta"].reason
    assert {item.id: item.holds for item in assumptions(Instance(X, np.ones((2, 2))), beta=1.0)}["beta"]
    blurred = GramFloor(arb(1, 0.5), arb(1), "")
    assert _admissible_beta(np.eye(33), blurred) <= 0.5


def test_the_reason_for_a_singular_X_is_the_simplest() -> None:
    twice = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [1.0, 2.0, 3.0]])
    judged = {item.id: item for item in assumptions(Instance(twice, np.ones((3, 3))))}
    assert "rows 0 and 2 of X are equal" in judged["beta"].reason
