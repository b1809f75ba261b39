"""One formula, several arithmetics: float64, exact fractions, balls, and balls with a derivative.

NumPy's object arrays carry `Fraction` and python-flint's `arb` through `+ - * / @ sum exp sqrt`, so that the formulas
of `theory` and the quantities of `claims` are written once. Only what object arrays cannot do is here.
"""

import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from flint import arb, arb_series, ctx, fmpq

from attnprune_verify.oracle import enclosure

__all__ = ["BALL", "EXACT", "FLOAT", "PRECISION", "Number", "Arithmetic", "Undecidable", "working_precision"]

Number: TypeAlias = Any
"""Argument of a formula: a number of its arithmetic, or a plain number, which is lifted into the arithmetic."""

PRECISION = 128
"""Bits of the midpoints of every printed constant: more than twice a double's, so that radii never show."""


_AS_IT_IS = nullcontext()  # one for all: it may be entered any number of times


class Undecidable(Exception):
    """Raised when this arithmetic cannot evaluate a quantity (the root of a fraction, an eigenvalue not isolated)."""


class Arithmetic(ABC):
    """Lift plain numbers, and the few functions that differ."""

    name: str

    @abstractmethod
    def lift(self, value: Number) -> Number:
        """A number or array in this arithmetic, exactly."""

    @abstractmethod
    def sqrt(self, value: Number) -> Number:
        """Square root of a non-negative number."""

    @abstractmethod
    def exp(self, array: Number) -> Number:
        """Entrywise exponential."""

    def log(self, value: Number) -> Number:
        """Natural logarithm of a positive number."""
        raise Undecidable("log")

    def lambertw(self, value: Number) -> Number:
        """The principal branch of the Lambert W function at a non-negative number."""
        raise Undecidable("lambertw")

    def extreme_eigenvalues(self, symmetric: Number) -> tuple[Number, Number]:
        """(least, largest) eigenvalue of a symmetric matrix."""
        raise Undecidable("eigenvalues")

    def over(self, numerator: Number, denominator: Number) -> Number:
        """numerator / denominator, with x/0 = inf for x > 0 and 0/0 = nan where the arithmetic has them."""
        if denominator == 0:
            raise Undecidable("a division by 0")
        return numerator / denominator

    def power(self, base: Number, exponent: Number) -> Number:
        """base to a natural number, by products: the power of a ball around 0 would be nan."""
        result = self.lift(1)
        for _ in range(int(float(exponent))):
            result = result * base
        return result

    def precision(self) -> AbstractContextManager[None]:
        """Return the context in which a formula of `theory` is evaluated."""
        return _AS_IT_IS

    def smallest(self, values: Number) -> Number:
        """The minimum."""
        return min(np.ravel(values))

    def largest(self, values: Number) -> Number:
        """The maximum."""
        return max(np.ravel(values))


class _Float(Arithmetic):
    name = "float"

    def lift(self, value: Number) -> Number:
        if isinstance(value, (float, int)):
            return float(value)
        shaped = value.ndim if isinstance(value, np.ndarray) else np.ndim(value)
        return np.asarray(value, dtype=np.float64) if shaped else float(value)

    def sqrt(self, value: Number) -> Number:
        return math.sqrt(value) if value >= 0 else math.nan

    def exp(self, array: Number) -> Number:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(array)

    def log(self, value: Number) -> Number:
        return math.log(value) if value > 0 else -math.inf

    def lambertw(self, value: Number) -> Number:
        from scipy.special import lambertw

        return float(lambertw(value).real)

    def power(self, base: Number, exponent: Number) -> Number:
        return base**exponent

    def over(self, numerator: Number, denominator: Number) -> Number:
        if denominator == 0:
            return math.inf if numerator > 0 else math.nan
        return numerator / denominator

    def smallest(self, values: Number) -> Number:
        return float(np.minimum.reduce(values, axis=None))

    def largest(self, values: Number) -> Number:
        return float(np.maximum.reduce(values, axis=None))


class _Exact(Arithmetic):
    name = "exact"

    def lift(self, value: Number) -> Number:
        if np.ndim(value):
            array = np.asarray(value)
            return np.array([_fraction(entry) for entry in array.ravel().tolist()], dtype=object).reshape(array.shape)
        return _fraction(value)

    def sqrt(self, value: Number) -> Number:
        numerator, denominator = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if Fraction(numerator, denominator) ** 2 != value:
            raise Undecidable(f"the square root of {value} is irrational")
        return Fraction(numerator, denominator)

    def exp(self, array: Number) -> Number:
        raise Undecidable("exp of a fraction is irrational")


class _Ball(Arithmetic):
    name = "ball"

    def lift(self, value: Number) -> Number:
        if not isinstance(value, (arb, float, int)) and np.ndim(value):
            array = np.asarray(value)
            return np.array([_ball(entry) for entry in array.ravel().tolist()], dtype=object).reshape(array.shape)
        return _ball(value)

    def sqrt(self, value: Number) -> Number:
        return arb(value).nonnegative_part().sqrt()

    def exp(self, array: Number) -> Number:
        return np.exp(array)

    def log(self, value: Number) -> Number:
        return value.log()

    def lambertw(self, value: Number) -> Number:
        return arb(value).lambertw()

    def over(self, numerator: Number, denominator: Number) -> Number:
        if denominator == 0:
            return arb.pos_inf() if numerator > 0 else arb.nan()
        return numerator / denominator

    def precision(self) -> AbstractContextManager[None]:
        return enclosure.working_precision(max(PRECISION, ctx.prec), ctx.cap)

    def smallest(self, values: Number) -> Number:
        entries = list(np.ravel(values))
        least = arb(entries[0])
        for entry in entries[1:]:
            least = arb.min(least, arb(entry))
        return least

    def largest(self, values: Number) -> Number:
        return -self.smallest([-arb(entry) for entry in np.ravel(values)])


FLOAT, EXACT, BALL = _Float(), _Exact(), _Ball()


def working_precision(bits: int = PRECISION) -> AbstractContextManager[None]:
    """Balls carry `bits` bits, and power series two terms, inside the block; flint's globals are put back."""
    return enclosure.working_precision(bits, cap=2)


def along(array: Number, direction: Number, arithmetic: Arithmetic) -> Number:
    """``array + t direction`` to first order in t, so that any formula also yields its derivative in t.

    Floats use a complex step of 1e-150 (exact to rounding: nothing is subtracted); balls use power series.
    """
    if arithmetic is FLOAT:
        return np.asarray(array, dtype=np.complex128) + 1e-150j * np.asarray(direction, dtype=np.float64)
    lifted = np.empty(np.size(array), dtype=object)  # filled one by one: NumPy would iterate over a series
    for index, (value, slope) in enumerate(zip(np.ravel(array), np.ravel(direction), strict=True)):
        lifted[index] = arb_series([arb(value), arb(slope)], 2)
    return lifted.reshape(np.shape(array))


def derivative_part(result: Number, arithmetic: Arithmetic) -> Number:
    """The coefficient of t in a result of `along`."""
    if arithmetic is FLOAT:
        return np.imag(result) / 1e-150
    if isinstance(result, arb_series):
        return result[1]
    entries = [entry[1] if isinstance(entry, arb_series) else arb(0) for entry in np.ravel(result)]
    return np.array(entries, dtype=object).reshape(np.shape(result))


def _fraction(value: Number) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(_plain(value))


def _ball(value: Number) -> arb:
    if isinstance(value, arb):
        return value
    if type(value) is float:
        return arb(value)
    if isinstance(value, Fraction):
        return arb(fmpq(value.numerator, value.denominator))
    plain = _plain(value)
    return arb(int(plain) if isinstance(plain, (bool, int)) else plain)


def _plain(value: Number) -> Number:
    """A NumPy scalar, or an array that is one number, as Python's."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value
