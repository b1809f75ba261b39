"""Exact LDL^T: A >= 0 if and only if every pivot is >= 0 and a zero pivot has a zero column below it."""

from fractions import Fraction
from math import lcm
from operator import mul

from proofs_check.checker.fields import Matrix
from proofs_check.checker.reject import GaveUp, Reject

_WORK = 2 * 10**9  # of elimination, in products of 64-bit words


def gram_pivots(X: Matrix, beta: Fraction) -> list[Fraction]:
    """The pivots of LDL^T of X X^T - beta I, rows in their order."""
    n = len(X)
    scales = [lcm(beta.denominator, *(entry.denominator for entry in row)) for row in X]
    rows = [[int(entry * scale) for entry in row] for row, scale in zip(X, scales, strict=True)]
    longest = max(entry.bit_length() for row in rows for entry in row)
    shifted = max(int(beta * scale**2).bit_length() for scale in scales)
    _require_affordable(n, max(2 * longest + n.bit_length(), shifted))
    gram = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            gram[i][j] = gram[j][i] = sum(map(mul, rows[i], rows[j]))
    for i in range(n):
        gram[i][i] -= int(beta * scales[i] ** 2)
    return [pivot / scale**2 for pivot, scale in zip(ldl_pivots(gram), scales, strict=True)]


def _require_affordable(n: int, bits: int) -> None:
    """Minors of an n x n integer matrix with entries of that length are up to n times as long."""
    words = 1 + bits * n // 64
    if n**3 * words**1.6 > _WORK:
        raise GaveUp("the entries of X are too long for an exact LDL^T of this size")


def ldl_pivots(matrix: list[list[int]]) -> list[Fraction]:
    """Pivots of a symmetric positive semidefinite integer matrix by fraction-free elimination;
    Reject if it is not semidefinite.

    After eliminating indices S, entry (i, j) is det A[S+i, S+j]: the pivot is the ratio of two consecutive
    principal minors.
    """
    n = len(matrix)
    a = [row[:] for row in matrix]
    _require_affordable(n, max(entry.bit_length() for row in a for entry in row))
    pivots, minor = [], 1
    for k in range(n):
        pivot = a[k][k]
        pivots.append(Fraction(pivot, minor))
        if pivot < 0:
            raise Reject(f"X X^T - beta I is not positive semidefinite: pivot {k} is negative")
        if pivot == 0:
            if any(a[i][k] for i in range(k + 1, n)):
                raise Reject(f"X X^T - beta I is not positive semidefinite: pivot {k} is 0 and its column is not")
            continue
        for i in range(k + 1, n):
            for j in range(i, n):
                a[i][j] = a[j][i] = (a[i][j] * pivot - a[i][k] * a[j][k]) // minor
        minor = pivot
    return pivots
