"""Matrices of fractions."""

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

Q = Fraction
Vector = list[Fraction]
Matrix = list[list[Fraction]]


def dot(u: Sequence[Fraction], v: Sequence[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(u, v, strict=True)), Q(0))


def transpose(A: Matrix) -> Matrix:
    return [list(column) for column in zip(*A, strict=True)]


def times(A: Matrix, *factors: Matrix) -> Matrix:
    """Matrix product."""
    for B in factors:
        columns = transpose(B)
        A = [[dot(row, column) for column in columns] for row in A]
    return A


def apply(A: Matrix, v: Vector) -> Vector:
    return [dot(row, v) for row in A]


def entrywise(A: Matrix, B: Matrix, operation: Callable[[Fraction, Fraction], Fraction]) -> Matrix:
    return [[operation(p, q) for p, q in zip(r, s, strict=True)] for r, s in zip(A, B, strict=True)]


def hadamard(A: Matrix, B: Matrix) -> Matrix:
    return entrywise(A, B, lambda p, q: p * q)


def plus(A: Matrix, B: Matrix) -> Matrix:
    return entrywise(A, B, lambda p, q: p + q)


def minus(A: Matrix, B: Matrix) -> Matrix:
    return entrywise(A, B, lambda p, q: p - q)


def scaled(k: Fraction | int, A: Matrix) -> Matrix:
    return [[k * entry for entry in row] for row in A]


def outer(u: Vector, v: Vector) -> Matrix:
    return [[p * q for q in v] for p in u]


def diag(u: Vector) -> Matrix:
    return [[u[i] if i == j else Q(0) for j in range(len(u))] for i in range(len(u))]


def unit(i: int, n: int) -> Vector:
    return [Q(int(i == j)) for j in range(n)]


def identity(n: int) -> Matrix:
    return diag([Q(1)] * n)


def norm_sq(A: Matrix) -> Fraction:
    """||A||_F^2."""
    return sum((entry * entry for row in A for entry in row), Q(0))


def trace(A: Matrix) -> Fraction:
    return sum((A[i][i] for i in range(len(A))), Q(0))


def inner(A: Matrix, B: Matrix) -> Fraction:
    return sum((dot(r, s) for r, s in zip(A, B, strict=True)), Q(0))


def row_sums(A: Matrix) -> Vector:
    return [sum(row, Q(0)) for row in A]


def largest(A: Matrix) -> Fraction:
    return max(abs(entry) for row in A for entry in row)


def smallest(A: Matrix) -> Fraction:
    return min(abs(entry) for row in A for entry in row)


def total(matrices: Sequence[Matrix]) -> Matrix:
    result = matrices[0]
    for A in matrices[1:]:
        result = plus(result, A)
    return result


def root_at_most_sum(a: Fraction, b: Fraction, c: Fraction) -> bool:
    """sqrt(a) <= sqrt(b) + sqrt(c) for nonnegative rationals, decided exactly."""
    rest = a - b - c
    return rest <= 0 or rest * rest <= 4 * b * c


def semidefinite(A: Matrix) -> bool:
    """A >= 0 for a symmetric rational matrix, by elimination."""
    if not A:
        return True
    head, *rest = A
    if head[0] < 0 or (head[0] == 0 and any(head)):
        return False
    if head[0] == 0:
        return semidefinite([row[1:] for row in rest])
    return semidefinite([[x - row[0] * y / head[0] for x, y in zip(row[1:], head[1:], strict=True)] for row in rest])


def shown(A: Matrix) -> str:
    """[[1/2, 0], [3, 1]]."""
    return "[" + ", ".join("[" + ", ".join(map(str, row)) + "]" for row in A) + "]"


def matrix(rng: random.Random, n: int, m: int, low: int = -6, high: int = 6, unit_: int = 3) -> Matrix:
    return [[Q(rng.randint(low, high), unit_) for _ in range(m)] for _ in range(n)]


def matrices(n: int, m: int, count: int = 12, seed: int = 0) -> Iterator[Matrix]:
    rng = random.Random(seed)
    for _ in range(count):
        yield matrix(rng, n, m)
