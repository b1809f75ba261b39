"""Numbers with a guaranteed radius and an unlimited exponent: the arithmetic of every constant in this folder.

A ball (python-flint's `arb`) is a midpoint and a radius; every operation keeps the true value inside. Its exponent is
unlimited, so that mu = 1e-400 or T = 1e447 need no special case: they only over- or underflow when they leave as
floats.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
from flint import arb, arb_mat, ctx

from attnprune_verify.instance.validate import Array
from attnprune_verify.oracle.enclosure import working_precision
from attnprune_verify.theory.numbers.arithmetic import PRECISION

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LARGEST = sys.float_info.max
_UNIT = 2.0**-53  # the unit roundoff of float64


@contextmanager
def precision(bits: int = PRECISION) -> Iterator[None]:
    """Work with `bits` bits inside the block; flint's precision is a global, so it is guarded and put back."""
    with working_precision(bits):
        yield


def precise(formula: Callable[_P, _T]) -> Callable[_P, _T]:
    """Evaluate `formula` at the folder's precision."""

    @wraps(formula)
    def evaluated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with precision(max(PRECISION, ctx.prec)):
            return formula(*args, **kwargs)

    return evaluated


def nearest(ball: arb) -> float:
    """The double nearest to the ball's midpoint (inf or 0.0 beyond the range of doubles)."""
    return float(ball.mid()) if ball.is_finite() else float(ball)


def upper(ball: arb) -> float:
    """A double that is certainly not below the number in the ball."""
    value = float(ball.upper())
    return value if arb(value) >= ball else math.nextafter(value, math.inf)


def lower(ball: arb) -> float:
    """A double that is certainly not above the number in the ball."""
    value = float(ball.lower())
    return value if arb(value) <= ball else math.nextafter(value, -math.inf)


def log10(ball: arb) -> float:
    """log10 of a positive ball: finite wherever a double can hold it, else the largest finite double with its sign."""
    mid = arb(ball.mid())
    if not mid.is_finite() or not mid > 0:
        return math.nan if not ball > 0 else math.inf
    return min(max(float(mid.log() / arb(10).log()), -_LARGEST), _LARGEST)


def between(low: arb | float, high: arb | float) -> arb:
    """The smallest ball around both ends."""
    return arb(low).union(arb(high))


def power_of_two(exponent: int) -> arb:
    """2^exponent, exactly, for any integer."""
    return arb((1, exponent))


def exponential(exponent: float) -> arb:
    """e^exponent, also for exponents like -1e300, for which `arb.exp` returns a wide ball around 0.

    Beyond 2^60 the fraction of the binary exponent is below the resolution of the argument and left out.
    """
    if abs(exponent) < 2.0**60:
        return arb(exponent).exp()
    return power_of_two(int(exponent) * 10**18 // 693147180559945309)


def matrix(array: Array) -> arb_mat:
    """The exact matrix of the given floats."""
    return arb_mat(np.asarray(array, dtype=np.float64).tolist())


def doubles(*arrays: Array) -> tuple[Array, ...]:
    """Return the numbers in float64; exact, as no array is wider."""
    return tuple(np.asarray(array, dtype=np.float64) for array in arrays)


def normalised(array: Array) -> tuple[Array, int]:
    """`array` = scaled * 2^exponent with the largest |scaled| in [1/2, 1); (zeros, 0) for an array of zeros.

    Exact, but for entries more than 2^1000 times smaller than the largest one, which lose at most 2^-1074.
    """
    double = np.asarray(array, dtype=np.float64)
    largest = float(np.abs(double).max())
    if largest == 0.0:
        return double.copy(), 0
    exponent = math.frexp(largest)[1]
    # two steps, because 2^-exponent itself may overflow
    half = -exponent // 2
    return np.ldexp(np.ldexp(double, half), -exponent - half), exponent


def frobenius(array: Array) -> arb:
    """Enclosure of ||array||_F: the float sum of the scaled squares with its rounding error as radius."""
    scaled, exponent = normalised(array)
    if not scaled.any():
        return arb(0)
    flat = scaled.ravel()
    total = float(flat @ flat)
    # gamma_N of a dot product in any order of summation, and one underflow per term
    radius = (flat.size + 4) * _UNIT * 1.01 * total + flat.size * 2.0**-1060
    return (arb(total, radius)).sqrt() * power_of_two(exponent)
