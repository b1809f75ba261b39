"""Symmetric matrices of numbers: definite or not by the pivots of LDL^T, and g^T A^-1 g by one more step of it."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from proofs_check.checker.interval import Interval, Number, Undecided, enclose, lower, square, total, upper
from proofs_check.checker.questions import Answer

Symmetric = Sequence[Sequence[Number]]


def _pivots(matrix: Symmetric) -> Iterator[Number]:
    """One after the other, ending with the first that is not certainly positive."""
    a = [list(row) for row in matrix]
    size = len(a)
    for k in range(size):
        pivot = a[k][k]
        yield pivot
        if lower(pivot) <= 0:
            return
        inverse = 1 / pivot
        for i in range(k + 1, size):
            for j in range(i, size):
                drop = square(a[i][k]) * inverse if i == j else a[i][k] * a[j][k] * inverse
                a[i][j] = a[j][i] = a[i][j] - drop


def definite(matrix: Symmetric) -> Answer:
    """Report whether every matrix in the enclosure is positive definite; no, where none is."""
    pivots: list[Number] = list(_pivots(matrix)) or [Fraction(0)]
    if len(pivots) == len(matrix) and lower(pivots[-1]) > 0:
        return True
    return False if upper(pivots[-1]) <= 0 else None


def inverse_form(matrix: Symmetric, g: Sequence[Number]) -> Number:
    """g^T A^-1 g >= 0: minus the last pivot of [[A, g], [g^T, 0]]."""
    bordered = [[*row, x] for row, x in zip(matrix, g, strict=True)] + [[*g, Fraction(0)]]
    found = list(_pivots(bordered))
    if len(found) <= len(matrix):
        raise Undecided("a matrix is not certainly positive definite")
    form = -found[-1]
    return Interval(max(form.lo, 0), max(form.hi, 0), form.bits) if isinstance(form, Interval) else form


def shifted(matrix: Symmetric, metric: Symmetric, t: Fraction) -> list[list[Number]]:
    """A - t P."""
    return [[x - t * p for x, p in zip(xs, ps, strict=True)] for xs, ps in zip(matrix, metric, strict=True)]


def opposite(matrix: Symmetric) -> list[list[Number]]:
    return [[-x for x in row] for row in matrix]


def gram(vectors: Sequence[Sequence[Fraction]], bits: int) -> list[list[Number]]:
    """sum_k v_k v_k^T, entries enclosed."""
    columns = [[enclose(entry, bits) for entry in column] for column in zip(*vectors, strict=True)]
    return [[total(p * q for p, q in zip(one, other, strict=True)) for other in columns] for one in columns]
