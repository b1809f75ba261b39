"""Fixed-point interval arithmetic with outward rounding.

`Interval(lo, hi, bits)` encloses every real x with lo <= x * 2^bits <= hi, lo and hi integers. A number that is
known exactly stays a `Fraction`; mixed operations give an interval, except that an exact 0 times anything is
exactly 0. `Number = Fraction | Interval`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isqrt

from proofs_check.checker.reject import Reject


class Interval:
    """All reals between lo / 2^bits and hi / 2^bits."""

    __slots__ = ("bits", "hi", "lo")

    def __init__(self, lo: int, hi: int, bits: int) -> None:
        self.lo, self.hi, self.bits = lo, hi, bits

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo, self.bits)

    def __add__(self, other: Number | int) -> Interval:
        if not isinstance(other, Interval):
            if other == 0:
                return self
            other = enclose(other, self.bits)
        return Interval(self.lo + other.lo, self.hi + other.hi, self.bits)

    __radd__ = __add__

    def __sub__(self, other: Number | int) -> Interval:
        if not isinstance(other, Interval):
            if other == 0:
                return self
            other = enclose(other, self.bits)
        return Interval(self.lo - other.hi, self.hi - other.lo, self.bits)

    def __rsub__(self, other: Fraction | int) -> Interval:
        return -(self - other)

    def __mul__(self, other: Number | int) -> Number:
        if not isinstance(other, Interval):
            return self._scaled(other)
        a, b, c, d, bits = self.lo, self.hi, other.lo, other.hi, self.bits
        if a >= 0 and c >= 0:
            return Interval((a * c) >> bits, -((-b * d) >> bits), bits)
        products = (a * c, a * d, b * c, b * d)
        return Interval(min(products) >> bits, -((-max(products)) >> bits), bits)

    __rmul__ = __mul__

    def _scaled(self, factor: Fraction | int) -> Number:
        if factor == 0:
            return Fraction(0)
        top, bottom = factor.numerator, factor.denominator
        low, high = (self.lo, self.hi) if top > 0 else (self.hi, self.lo)
        return Interval((low * top) // bottom, -((-high * top) // bottom), self.bits)

    def __truediv__(self, other: Number | int) -> Number:
        if not isinstance(other, Interval):
            return self._scaled(1 / Fraction(other))
        return _quotient(self.lo, self.hi, other)

    def __rtruediv__(self, other: Fraction | int) -> Number:
        if other == 0:
            return Fraction(0)
        dividend = enclose(other, self.bits)
        return _quotient(dividend.lo, dividend.hi, self)


Number = Fraction | Interval


def _quotient(lo: int, hi: int, divisor: Interval) -> Interval:
    if divisor.lo <= 0:
        raise Undecided("a divisor is not certainly positive")
    bits = divisor.bits
    low = (lo << bits) // (divisor.hi if lo >= 0 else divisor.lo)
    high = -((-hi << bits) // (divisor.lo if hi >= 0 else divisor.hi))
    return Interval(low, high, bits)


class Undecided(Exception):
    """Raised when a comparison is undecided at this precision; the caller doubles it."""


def enclose(number: Fraction | int, bits: int) -> Interval:
    top, bottom = number.numerator << bits, number.denominator
    return Interval(top // bottom, -(-top // bottom), bits)


def lower(number: Number) -> Fraction:
    return Fraction(number.lo, 1 << number.bits) if isinstance(number, Interval) else number


def upper(number: Number) -> Fraction:
    return Fraction(number.hi, 1 << number.bits) if isinstance(number, Interval) else number


def bounds(number: Number) -> tuple[Fraction, Fraction]:
    return lower(number), upper(number)


def square(number: Number) -> Number:
    """x^2, never below 0."""
    if not isinstance(number, Interval):
        return number * number
    low, high = (number.lo, number.hi) if number.lo + number.hi >= 0 else (-number.hi, -number.lo)
    least = max(low, 0)
    return Interval((least * least) >> number.bits, -((-high * high) >> number.bits), number.bits)


def total(numbers: Iterable[Number]) -> Number:
    result: Number = Fraction(0)
    for number in numbers:
        result = result + number
    return result


def exactly(rows: Sequence[Sequence[Number]]) -> list[list[Fraction]]:
    """Return the matrix as one whose entries are all exact."""
    result = []
    for row in rows:
        exact = [entry for entry in row if not isinstance(entry, Interval)]
        if len(exact) != len(row):
            raise TypeError("an exact matrix is needed")
        result.append(exact)
    return result


def square_root(number: Number, bits: int) -> Number:
    """sqrt(x) for x >= 0; exact when x is the square of a rational."""
    if not isinstance(number, Interval):
        if number < 0:
            raise Reject("square root of a negative number")
        top, bottom = isqrt(number.numerator), isqrt(number.denominator)
        if top * top == number.numerator and bottom * bottom == number.denominator:
            return Fraction(top, bottom)
        number = enclose(number, bits)
    if number.hi < 0:
        raise Reject("square root of a negative number")
    low, high = isqrt(max(number.lo, 0) << number.bits), isqrt(number.hi << number.bits)
    return Interval(low, high + 1, number.bits)


def hull(numbers: Iterable[Number], largest: bool) -> tuple[Fraction, Fraction]:
    """Bounds of the maximum (or the minimum) of some numbers."""
    ends = [bounds(number) for number in numbers]
    pick = max if largest else min
    return pick(low for low, _ in ends), pick(high for _, high in ends)
