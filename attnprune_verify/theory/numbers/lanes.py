"""Lanes: one number for each of many instances at once, in float64, with a bound on its rounding error.

A `Lane` is an entry of an object array, as a ball is, but holds a vector: the value in every instance of a batch, and
beside it a radius. Code written for balls (`theory`'s formulas, the quantities and margins of `claims`) runs on lanes
unchanged, some thousand instances in one NumPy pass. Every operation is entry by entry, so the bits of an instance do
not depend on the other instances.

The radius is that of a running error analysis in the model of `oracle/running_error.py`: with u = 2^-53, + - * / and
sqrt err by u relatively, exp and log by 4 u. A radius is itself computed in float64 with a relative error of a few u a
step; decisions enlarge it by `WIDER`, which covers a billion steps. Underflow is bounded where it happens, in exp and
in quotients; a product of nonzero numbers below 1e-150 is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.theory.numbers.arithmetic import Undecidable

_Vector = NDArray[np.float64]

U = 2.0**-53  # the unit roundoff of float64
TINY = 1e-300
"""Far above what underflow takes away, far below anything that is compared."""
WIDER = 1.0 + 1e-6
"""By how much radii are enlarged before anything is decided by them."""


class Diverges(Exception):
    """Raised at a branch that some instances take and others do not; `first` is True for those that take it."""

    def __init__(self, first: NDArray[np.bool_]) -> None:
        super().__init__("the instances part here")
        self.first = first


class Lane:
    """A vector of values, and of radii where it is not exact; a constant has length 1.

    Examples
    --------
    >>> import numpy as np
    >>> third = Lane(np.array([1.0, 2.0])) / 3
    >>> third.mid.tolist(), bool(third * 3 == 1), bool(third < 1)
    ([0.3333333333333333, 0.6666666666666666], False, True)
    """

    __slots__ = ("mid", "rad")

    def __init__(self, mid: _Vector, rad: _Vector | None = None) -> None:
        self.mid = mid
        self.rad = rad

    # arithmetic

    def __add__(self, other: Any) -> Lane:
        if not isinstance(other, Lane):
            other = constant(other)
            if other is NotImplemented:
                return NotImplemented
        mid = self.mid + other.mid
        rad = np.abs(mid)
        rad *= U
        if self.rad is not None:
            rad += self.rad
        if other.rad is not None:
            rad += other.rad
        return Lane(mid, rad)

    __radd__ = __add__

    def __neg__(self) -> Lane:
        return Lane(-self.mid, self.rad)

    def __sub__(self, other: Any) -> Lane:
        other = other if isinstance(other, Lane) else constant(other)
        return other if other is NotImplemented else self.__add__(Lane(-other.mid, other.rad))

    def __rsub__(self, other: Any) -> Lane:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> Lane:
        if not isinstance(other, Lane):
            other = constant(other)
            if other is NotImplemented:
                return NotImplemented
        mid = self.mid * other.mid
        rad = np.abs(mid)
        rad *= U
        if other.rad is not None:
            rad += np.abs(self.mid) * other.rad
        if self.rad is not None:
            far = np.abs(other.mid)
            if other.rad is not None:
                far += other.rad
            rad += far * self.rad
        return Lane(mid, rad)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Lane:
        other = other if isinstance(other, Lane) else constant(other)
        if other is NotImplemented:
            return NotImplemented
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mid = self.mid / other.mid
            least = np.abs(other.mid) if other.rad is None else np.abs(other.mid) - other.rad * WIDER
            lost = np.zeros_like(mid) if self.rad is None else self.rad
            if other.rad is not None:
                lost = lost + np.abs(mid) * other.rad
            rad = np.where(least > 0, lost / least + np.abs(mid) * U + TINY, np.inf)
        return Lane(np.where(np.isfinite(mid), mid, 0.0), np.where(np.isfinite(mid), rad, np.inf))

    def __rtruediv__(self, other: Any) -> Lane:
        other = constant(other)
        return other if other is NotImplemented else other / self

    def __pow__(self, exponent: int) -> Lane:
        if not isinstance(exponent, int) or exponent < 1:
            raise Undecidable("a power that is no product")
        return self if exponent == 1 else self * self ** (exponent - 1)

    def __abs__(self) -> Lane:
        return Lane(np.abs(self.mid), self.rad)

    # functions, found by NumPy by these names

    def sqrt(self) -> Lane:
        """The square root of the part that is not negative."""
        low = np.maximum(self.mid, 0.0)
        mid = np.sqrt(low)
        rad = mid * U
        if self.rad is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                # |sqrt x - sqrt m| <= |x - m| / sqrt m, and never above sqrt |x - m|
                rad = rad + np.fmin(self.rad / mid, np.sqrt(self.rad))
        return Lane(mid, rad)

    def exp(self) -> Lane:
        """The exponential."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            mid = np.exp(self.mid)
            relative = 4 * U if self.rad is None else np.expm1(self.rad * WIDER) * WIDER + 4 * U
            rad = mid * relative + TINY
        good = np.isfinite(mid)
        return Lane(np.where(good, mid, 0.0), np.where(good, rad, np.inf))

    def log(self) -> Lane:
        """The natural logarithm."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mid = np.log(self.mid)
            rad = np.abs(mid) * (4 * U)
            if self.rad is not None:
                rad = rad - np.log1p(-self.rad * WIDER / self.mid)
        good = np.isfinite(mid) & np.isfinite(rad)
        return Lane(np.where(good, mid, 0.0), np.where(good, rad, np.inf))

    # decisions, which hold for every instance or part them

    def __lt__(self, other: Any) -> bool:
        return _everywhere(reach(self)[1] < reach(other)[0])

    def __gt__(self, other: Any) -> bool:
        return _everywhere(reach(self)[0] > reach(other)[1])

    def __le__(self, other: Any) -> bool:
        return _everywhere(reach(self)[1] <= reach(other)[0])

    def __ge__(self, other: Any) -> bool:
        return _everywhere(reach(self)[0] >= reach(other)[1])

    def __eq__(self, other: object) -> bool:
        (low, high), (least, most) = reach(self), reach(other)
        return _everywhere((low == high) & (least == most) & (low == least))

    def __ne__(self, other: object) -> bool:
        (low, high), (least, most) = reach(self), reach(other)
        return _everywhere((low > most) | (high < least))

    __hash__ = None  # type: ignore[assignment]  # equality is a decision about enclosures

    def __bool__(self) -> bool:
        return self != 0

    def __float__(self) -> float:
        if self.mid.size == 1 and self.rad is None:
            return float(self.mid[0])
        raise Undecidable("a number of many instances is no single float")


class Slope:
    """``value + t slope`` to first order in t, over any numbers: automatic differentiation of the same code."""

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any = 0) -> None:
        self.value = value
        self.slope = slope

    def __add__(self, other: Any) -> Slope:
        if isinstance(other, Slope):
            return Slope(self.value + other.value, self.slope + other.slope)
        return Slope(self.value + other, self.slope)

    __radd__ = __add__

    def __neg__(self) -> Slope:
        return Slope(-self.value, -self.slope)

    def __sub__(self, other: Any) -> Slope:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Slope:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> Slope:
        if isinstance(other, Slope):
            return Slope(self.value * other.value, self.value * other.slope + self.slope * other.value)
        return Slope(self.value * other, self.slope * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Slope:
        if isinstance(other, Slope):
            quotient = self.value / other.value
            return Slope(quotient, (self.slope - quotient * other.slope) / other.value)
        return Slope(self.value / other, self.slope / other)

    def __rtruediv__(self, other: Any) -> Slope:
        return Slope(other) / self

    def exp(self) -> Slope:
        """The exponential."""
        value = np.exp(self.value)
        return Slope(value, self.slope * value)


def middle(entry: Any) -> _Vector:
    """The values of a lane, or of a number, as a vector."""
    return entry.mid if isinstance(entry, Lane) else np.array([float(entry)])


def reach(entry: Any) -> tuple[_Vector, _Vector]:
    """(lower, upper) end of every instance's enclosure, rounded outwards."""
    if not isinstance(entry, Lane):
        entry = constant(entry)
        if entry is NotImplemented:
            raise Undecidable("a comparison with something that is no number")
    if entry.rad is None:
        return entry.mid, entry.mid
    wide = entry.rad * WIDER + np.abs(entry.mid) * (2 * U)
    return entry.mid - wide, entry.mid + wide


def _everywhere(answer: NDArray[np.bool_]) -> bool:
    if answer.all():
        return True
    if not answer.any():
        return False
    raise Diverges(answer)


_MOST_KNOWN = 4096  # chosen: bounds the memory of the store, about 1 MB
_KNOWN: dict[Any, Lane] = {}


def constant(value: Any) -> Any:
    """Return a number as a lane; NotImplemented for anything else, so that NumPy may spread it over an array."""
    found = _KNOWN.get(value) if isinstance(value, int | float) else None
    if found is not None:
        return found
    if isinstance(value, Lane):
        return value
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return _of_fraction(value)
    number = float(value)
    lane = Lane(np.array([number]), None if number == value else np.array([abs(number) * 2 * U]))
    if isinstance(value, int | float) and len(_KNOWN) < _MOST_KNOWN:
        _KNOWN[value] = lane
    return lane


def _of_fraction(value: Any) -> Any:
    parts: Callable[[], Any] | None = getattr(value, "as_integer_ratio", None)
    if parts is None:
        return NotImplemented
    number = float(value)
    return Lane(np.array([number]), np.array([abs(number) * 2 * U + TINY]))
