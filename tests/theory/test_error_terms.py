"""Errors that are paid for: every matrix handed to a certified eigenvalue is within its error of the exact one.

The exact matrices are formed here in fractions, from the definitions; the truths by mpmath with 50 digits.
"""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.quantities import gram, kappa, operator_norm
from attnprune_verify.theory.quantities.kappa import kappa_plus, kappa_zero_sum, row_eigenvalue
from attnprune_verify.theory.quantities.operator_norm import norm_bounds


def exact(array) -> list[list[Fraction]]:  # type: ignore[no-untyped-def]  # whatever NumPy makes an array of
    return [[Fraction(x) for x in row] for row in np.asarray(array, dtype=float).tolist()]


def logit_rows(instance: Instance) -> list[list[Fraction]]:
    """The matrix of Pi A of one sample, a row for every allowed position: w_ab x_ia (x_jb - mean_b)."""
    X, W, d = exact(instance.samples[0]), exact(instance.W), instance.d
    rows = []
    for x, allowed in zip(X, instance.allowed, strict=True):
        places = np.flatnonzero(allowed).tolist()
        mean = [sum(X[j][b] for j in places) / len(places) for b in range(d)]
        rows += [[W[a][b] * x[a] * (X[j][b] - mean[b]) for a in range(d) for b in range(d)] for j in places]
    return rows


def singular_values(rows: list[list[Fraction]]) -> list[mpmath.mpf]:
    """From the largest to the smallest."""
    with mpmath.workdps(60):
        A = mpmath.matrix([[mpmath.mpf(x.numerator) / x.denominator for x in row] for row in rows])
        values = mpmath.eigsy(A.T * A, eigvals_only=True)
        return sorted((mpmath.sqrt(max(value, 0)) for value in values), reverse=True)


def number(ball) -> mpmath.mpf:  # type: ignore[no-untyped-def]
    """The exact midpoint of a ball."""
    mantissa, exponent = ball.mid().man_exp()
    return mpmath.ldexp(mpmath.mpf(int(mantissa)), int(exponent))


def drawn(seed: int) -> Instance:
    """Small instances with and without a mask; every third has a token twice, so that Pi A loses rank."""
    rng = np.random.default_rng(seed)
    n, d = 3, 2
    X, W = rng.standard_normal((n, d)), rng.standard_normal((d, d))
    X[1] = X[0] if seed % 3 == 2 else X[1]
    return Instance(X, W, mask="causal" if seed % 2 else None)


@pytest.mark.parametrize("seed", range(12))
def test_smallest_and_largest_singular_values_are_bounded_on_their_side(seed: int) -> None:
    """Within some 1e-13 of the truth there is no room but for the error that is paid."""
    instance = drawn(seed)
    values = singular_values(logit_rows(instance))
    found, bounds = kappa_plus(instance), norm_bounds(instance)
    with mpmath.workdps(60):
        least = [value for value in values if value > values[0] * mpmath.mpf(10) ** -25][-1]
        assert number(found.upper()) <= least * (1 + mpmath.mpf(10) ** -30)
        assert float(found) >= 0.99 * float(least) or float(least) < 1e-6
        assert number(bounds.lower.lower()) <= values[0] * (1 + mpmath.mpf(10) ** -30)
        assert number(bounds.upper.upper()) >= values[0] * (1 - mpmath.mpf(10) ** -30)


def test_some_singular_values_come_out_too_large() -> None:
    """Without what is subtracted, half of the instances above would exceed the truth."""
    beyond = 0
    for seed in range(12):
        instance = drawn(seed)
        values = singular_values(logit_rows(instance))
        rank = sum(value > values[0] * mpmath.mpf(10) ** -25 for value in values)
        B, unit, gram = kappa._adjoint(instance)
        plain = np.linalg.svd(np.linalg.solve(np.linalg.cholesky(gram), B), compute_uv=False)[rank - 1]
        beyond += mpmath.mpf(float(plain)) * number(unit) > values[rank - 1]
    assert beyond >= 3


def handed_over(monkeypatch: pytest.MonkeyPatch, module, name: str):  # type: ignore[no-untyped-def]
    """Record every matrix and error that the module hands to a certified eigenvalue."""
    seen, right = [], getattr(module, name)

    def spied(S, error=0.0, *args, **more):  # type: ignore[no-untyped-def]
        seen.append((S.copy(), error))
        return right(S, error, *args, **more)

    monkeypatch.setattr(module, name, spied)
    return seen


def distance(one, other) -> float:  # type: ignore[no-untyped-def]
    """||one - other||_F of fractions, rounded up."""
    squares = sum(
        (a - b) ** 2 for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True)
    )
    return float(squares) ** 0.5 * (1 + 1e-12)


@pytest.mark.parametrize("far", [0.0, 2.0**12])
def test_a_gram_matrix_is_within_its_error(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formed in doubles or in balls; far from the origin tokens cancel, and half an ulp of each entry is lost."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3, 2)) + far
    instance = Instance(X, rng.standard_normal((2, 2)))
    rows = logit_rows(instance)
    gram = [[sum(row[p] * row[q] for row in rows) for q in range(4)] for p in range(4)]
    for form in (operator_norm.norm_bounds, operator_norm._ball_squares):
        seen = handed_over(monkeypatch, operator_norm, "largest_eigenvalue")
        form(instance)
        assert seen
        for S, error in seen:
            largest = max(max(map(abs, row)) for row in gram)
            unit = min((Fraction(2) ** e for e in range(-90, 90)), key=lambda u: abs(Fraction(S.max()) * u - largest))
            off = distance(exact(S), [[entry / unit for entry in row] for row in gram])
            assert 0 < off <= error, (form.__name__, off, error)
        monkeypatch.undo()


@pytest.mark.parametrize("seed", range(3))
def test_the_gram_matrix_of_tokens_is_within_its_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(seed).standard_normal((3, 5))
    seen = handed_over(monkeypatch, gram, "least_eigenvalue")
    assert gram.gram_floor(X).positive
    ((S, error),) = seen
    rows = exact(gram.normalised(X)[0])
    wanted = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in rows] for one in rows]
    assert 0 < distance(exact(S), wanted) <= error


@pytest.mark.parametrize("seed", range(4))
def test_the_matrix_behind_kappa_is_within_its_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """B B^T - theta E^T E in fractions; theta is the double that was tried."""
    rng = np.random.default_rng(seed)
    n, mask = (3, "causal") if seed % 2 else (2, None)  # rows with a choice less one token each: at most d^2 of them
    instance = Instance(rng.standard_normal((n, 2)), rng.standard_normal((2, 2)), mask=mask)
    tried, right = [], kappa.eigh
    monkeypatch.setattr(kappa, "eigh", lambda *args, **more: tried.append(right(*args, **more)) or tried[-1])
    seen = handed_over(monkeypatch, kappa, "least_eigenvalue")
    X, token_exponent = kappa.normalised(instance.samples[0])
    W, weight_exponent = kappa.normalised(instance.W)
    rows, sizes = [], []
    for x, allowed in zip(exact(X), instance.allowed, strict=True):
        places = np.flatnonzero(allowed).tolist()
        last = exact(X)[places[-1]]
        sizes.append(len(places) - 1)
        rows += [
            [
                w * a * (b - c)
                for a, line in zip(x, exact(W), strict=True)
                for w, b, c in zip(line, exact(X)[j], last, strict=True)
            ]
            for j in places[:-1]
        ]
    found = kappa_zero_sum(instance)
    ((S, error),) = seen
    theta = Fraction(float(tried[0][0]))
    of_row = np.repeat(np.arange(len(sizes)), sizes)
    wanted = [
        [
            sum(a * b for a, b in zip(one, other, strict=True)) - theta * (int(of_row[p] == of_row[q]) + (p == q))
            for q, other in enumerate(rows)
        ]
        for p, one in enumerate(rows)
    ]
    assert distance(exact(S), wanted) <= error
    assert float(found) >= 0


@pytest.mark.parametrize("rho", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("row", [[0.2, 0.2, 0.6], [1e-3, 1e-3, 0.998], [0.1, 0.1, 0.1, 0.7], [0.5, 0.5]])
def test_a_row_s_eigenvalue_holds_for_every_row_within_the_error(row: list[float], rho: float) -> None:
    """Two smallest weights that are equal and too large by rho: lambda_2 is the true weight, which is smaller."""
    found = row_eigenvalue(np.array([row]), np.ones((1, len(row)), dtype=bool), rho)
    tried = 0
    for signs in product((-1, 0, 1), repeat=len(row) - 1):
        true = [Fraction(x) * (1 + sign * Fraction(rho)) for x, sign in zip(row, signs, strict=False)]
        true.append(1 - sum(true))
        if abs(true[-1] - Fraction(row[-1])) > Fraction(rho) * Fraction(row[-1]):
            continue
        tried += 1
        with mpmath.workdps(40):
            sigma = [mpmath.mpf(x.numerator) / x.denominator for x in true]
            size = len(row)
            J = mpmath.matrix(size, size)
            for i in range(size):
                for j in range(size):
                    J[i, j] = (sigma[i] if i == j else 0) - sigma[i] * sigma[j]
            # the least value on vectors of zero sum: the basis e_1 - e_last, ..., made orthonormal
            basis = mpmath.matrix(size, size - 1)
            for k in range(1, size):
                length = mpmath.sqrt(k * (k + 1))
                for i in range(k):
                    basis[i, k - 1] = 1 / length
                basis[k, k - 1] = -k / length
            least = mpmath.eigsy(basis.T * J * basis, eigvals_only=True)[0]
            assert mpmath.mpf(found) <= least
    assert tried >= 3
