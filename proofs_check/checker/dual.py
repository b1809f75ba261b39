"""Forward dual numbers: a value and its slopes along a few directions.

The checker evaluates the loss on dual numbers, so the gradient comes from the quotient rule, the product rule and
exp' = exp alone; the paper's closed form appears nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from proofs_check.checker.exponential import exponential
from proofs_check.checker.interval import Number, square


class Dual:
    """value + sum_b slopes[b] eps_b with eps_b eps_c = 0."""

    __slots__ = ("slopes", "value")

    def __init__(self, value: Number, slopes: list[Number]) -> None:
        self.value, self.slopes = value, slopes

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, [p + q for p, q in zip(self.slopes, other.slopes, strict=True)])

    def __truediv__(self, other: Dual) -> Dual:
        """(u / v)' = (u' - (u / v) v') / v."""
        inverse = 1 / other.value
        ratio = self.value * inverse
        slopes = [(p - ratio * q) * inverse for p, q in zip(self.slopes, other.slopes, strict=True)]
        return Dual(ratio, slopes)

    def exp(self, bits: int) -> Dual:
        value = exponential(self.value, bits)
        return Dual(value, [value * p for p in self.slopes])


def zero(directions: int) -> Dual:
    return Dual(Fraction(0), [Fraction(0)] * directions)


def squared_distance(pairs: Sequence[tuple[Dual, Number]], mass: Dual) -> Dual:
    """sum_j (u_j / m - f_j)^2 of pairs (u_j, f_j).

    By the quotient rule its slopes are sum_j 2 c_j (u_j' - (u_j / m) m') / m with c_j = u_j / m - f_j; m' and 1 / m,
    common to the terms, are multiplied once.
    """
    share = 1 / mass.value
    value: Number = Fraction(0)
    pull: Number = Fraction(0)
    along: list[Number] = [Fraction(0)] * len(mass.slopes)
    for u, f in pairs:
        ratio = u.value * share
        c = ratio - f
        twice = c + c
        value = value + square(c)
        pull = pull + twice * ratio
        along = [total + twice * p for total, p in zip(along, u.slopes, strict=True)]
    return Dual(value, [(total - pull * q) * share for total, q in zip(along, mass.slopes, strict=True)])
