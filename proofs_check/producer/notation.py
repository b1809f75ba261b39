"""Rationals and enclosures as the strings of the certificate format."""

from collections.abc import Sequence
from fractions import Fraction

from flint import arb, fmpq

Q = Fraction
Matrix = list[list[Fraction]]


def word(number: Fraction | int) -> str:
    """Always p/q, also for integers."""
    number = Q(number)
    return f"{number.numerator}/{number.denominator}"


def words(values: Sequence[Fraction | int]) -> list[str]:
    return [word(value) for value in values]


def table(matrix: Sequence[Sequence[Fraction | int]]) -> list[list[str]]:
    return [words(row) for row in matrix]


def ball(number: Fraction | int) -> arb:
    number = Q(number)
    return arb(fmpq(number.numerator, number.denominator))


def balls(matrix: Sequence[Sequence[Fraction | int]]) -> list[list[arb]]:
    return [[ball(entry) for entry in row] for row in matrix]


def exact_ends(number: arb) -> tuple[Fraction, Fraction]:
    """The exact end points of a ball."""
    return _dyadic(number.lower()), _dyadic(number.upper())


def _dyadic(point: arb) -> Fraction:
    mantissa, exponent = point.man_exp()
    return Q(int(mantissa)) * Q(2) ** int(exponent)


def enclosure(number: arb, digits: int = 18) -> list[str]:
    """[lo, hi] around a ball, widened outwards to decimal fractions with about `digits` significant digits."""
    low, high = exact_ends(number)
    size = max(abs(low), abs(high))
    if size == 0:
        return ["0/1", "0/1"]
    unit = Q(10) ** (_decimal_exponent(size) - digits)
    return [word((low // unit) * unit), word(-((-high) // unit) * unit)]


def _decimal_exponent(size: Fraction) -> int:
    """The k with 10^(k-1) <= size < 10^k."""
    k = len(str(size.numerator)) - len(str(size.denominator))
    while Q(10) ** k <= size:
        k += 1
    while Q(10) ** (k - 1) > size:
        k -= 1
    return k
