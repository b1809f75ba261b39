"""Second-order jets: value, gradient and Hessian of a function of a few variables,
by the product and quotient rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from proofs_check.checker.attention import Mask, relative, softmax_row
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Matrix
from proofs_check.checker.interval import Interval, Number, enclose, lower, square, total

Triangle = dict[tuple[int, int], Number]


class Jet:
    """f, df and d2f (entries (s, t) with s <= t)."""

    __slots__ = ("first", "second", "value")

    def __init__(self, value: Number, first: Sequence[Number], second: Triangle) -> None:
        self.value, self.first, self.second = value, list(first), second

    def __add__(self, other: Jet) -> Jet:
        return Jet(
            self.value + other.value,
            [p + q for p, q in zip(self.first, other.first, strict=True)],
            {st: h + other.second[st] for st, h in self.second.items()},
        )

    def composed(self, value: Number, slope: Number, bend: Number) -> Jet:
        """phi(f) where phi(f.value) = value, phi' = slope, phi'' = bend."""
        first = [slope * p for p in self.first]
        second = {(s, t): slope * h + bend * self._product(s, t) for (s, t), h in self.second.items()}
        return Jet(value, first, second)

    def _product(self, s: int, t: int) -> Number:
        return square(self.first[s]) if s == t else self.first[s] * self.first[t]

    def exp(self, bits: int) -> Jet:
        value = exponential(self.value, bits)
        return self.composed(value, value, value)

    def inverse(self) -> Jet:
        value = 1 / self.value
        slope = -(value * value)
        return self.composed(value, slope, -2 * (slope * value))

    def squared(self) -> Jet:
        return self.composed(square(self.value), self.value + self.value, Fraction(2))

    def times(self, other: Jet) -> Jet:
        f, g = self, other
        second = {
            (s, t): f.value * g.second[s, t] + g.value * h + f.first[s] * g.first[t] + f.first[t] * g.first[s]
            for (s, t), h in f.second.items()
        }
        first = [f.value * q + g.value * p for p, q in zip(f.first, g.first, strict=True)]
        return Jet(f.value * g.value, first, second)

    def minus(self, constant: Number) -> Jet:
        return Jet(self.value - constant, self.first, self.second)


def linear(value: Number, first: Sequence[Number]) -> Jet:
    """A linear function."""
    size = len(first)
    return Jet(value, first, {(s, t): Fraction(0) for s in range(size) for t in range(s, size)})


def attention_jet(X: Matrix, W: Matrix, M: Sequence[Sequence[Number]], mask: Mask, bits: int) -> Jet:
    """L_attn = 1/2 ||F(M) - F(1)||_F^2 as a function of the d^2 entries of M, row by row."""
    n, d = len(X), len(W)
    loss = linear(Fraction(0), [Fraction(0)] * (d * d))
    entries = [entry for row in M for entry in row]
    for i in range(n):
        slopes = [[X[i][a] * W[a][b] * x[b] for a in range(d) for b in range(d)] for x in X]
        dense = [sum(s, Fraction(0)) for s in slopes]
        z = [total(s * m for s, m in zip(slope, entries, strict=True)) for slope in slopes]
        loss = loss + row_jet(z, slopes, dense, mask[i], bits)
    half = Fraction(1, 2)
    return Jet(half * loss.value, [half * p for p in loss.first], {st: half * h for st, h in loss.second.items()})


def row_jet(z: Sequence[Number], slopes: Matrix, dense: Sequence[Fraction], allowed: Sequence[bool], bits: int) -> Jet:
    """||softmax(z) - softmax(dense)||^2 of one row, its logits z being linear with these slopes."""
    target = softmax_row(relative([dense], [list(allowed)])[0], bits)
    columns = [j for j, keep in enumerate(allowed) if keep]
    top = max(lower(z[j]) for j in columns)
    weights = {j: linear(_interval(z[j] - top, bits), slopes[j]).exp(bits) for j in columns}
    found = mass = linear(Fraction(0), [Fraction(0)] * len(slopes[0]))
    for weight in weights.values():
        mass = mass + weight
    share = mass.inverse()
    for j, weight in weights.items():
        found = found + weight.times(share).minus(target[j]).squared()
    return found


def _interval(number: Number, bits: int) -> Number:
    return number if isinstance(number, Interval) else enclose(number, bits)


def certainly_above(hessian: Triangle, size: int, floor: Fraction) -> bool:
    """Report whether every symmetric matrix in the enclosure is > floor I: interval LDL^T with positive pivots."""
    A = [[hessian[min(s, t), max(s, t)] - (floor if s == t else 0) for t in range(size)] for s in range(size)]
    for k in range(size):
        pivot = A[k][k]
        if lower(pivot) <= 0:
            return False
        inverse = 1 / pivot
        for i in range(k + 1, size):
            for j in range(i, size):
                drop = square(A[i][k]) * inverse if i == j else A[i][k] * A[j][k] * inverse
                A[i][j] = A[j][i] = A[i][j] - drop
    return True
