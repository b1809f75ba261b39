"""Ball arithmetic underneath `ball`: exact inputs in, enclosures out, the global precision guarded."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq
from numpy.typing import ArrayLike, NDArray

_MOST_BITS = 4096  # chosen: a value that is exactly 0 never gets a relative radius
_LOCK = threading.RLock()  # flint's working precision is one global: two threads would change it under each other


@dataclass(frozen=True)
class Enclosure:
    """Two float64 arrays that certainly enclose the exact value: ``lower <= value <= upper``, entry by entry.

    A value that could not be enclosed has the bounds -inf and inf.

    Examples
    --------
    >>> import numpy as np
    >>> interval = Enclosure(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    >>> interval.contains([0.5, 1.0]), interval.contains([0.5, 1.1])
    (True, False)
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def midpoint(self) -> NDArray[np.float64]:
        """The middle of the interval (itself rounded; `radius` accounts for that)."""
        with np.errstate(invalid="ignore"):
            middle = self.lower / 2 + self.upper / 2
        return np.where(np.isnan(middle), 0.0, middle)  # between -inf and inf

    @property
    def radius(self) -> NDArray[np.float64]:
        """An upper bound of the distance between `midpoint` and any value in the interval."""
        middle = self.midpoint
        with np.errstate(invalid="ignore"):
            reach = np.maximum(self.upper - middle, middle - self.lower)
        return np.where(np.isnan(reach), np.inf, np.where(reach == 0, 0.0, np.nextafter(reach, np.inf)))

    @property
    def magnitude(self) -> NDArray[np.float64]:
        """The largest absolute value in the interval."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def contains(self, values: ArrayLike) -> bool:
        """Return True where every entry of `values` lies between the bounds (a NaN never does)."""
        array = np.asarray(values)
        return bool(((self.lower <= array) & (array <= self.upper)).all())

    def distance(self, values: ArrayLike) -> NDArray[np.float64]:
        """An upper bound of |values - exact|, entry by entry (inf for NaN)."""
        array = np.asarray(values, dtype=np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.maximum(np.abs(array - self.lower), np.abs(array - self.upper))
        return np.where(np.isnan(reach), np.inf, np.where(reach == 0, 0.0, np.nextafter(reach, np.inf)))


@contextmanager
def working_precision(prec: int, cap: int = 10) -> Iterator[None]:
    """Hold flint's global precision (bits) and series length for one computation, and put the old ones back."""
    with _LOCK:
        before = ctx.prec, ctx.cap
        ctx.prec, ctx.cap = prec, cap
        try:
            yield
        finally:
            ctx.prec, ctx.cap = before


def as_ball(value: Any) -> arb:
    """A float, integer or fraction as a ball: exact, except for fractions that have no finite binary expansion."""
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return arb.nan()
    if isinstance(value, (float, np.float32, np.float16)):
        return arb(float(value))
    if isinstance(value, (np.bool_, np.integer)):
        value = int(value)
    fraction = Fraction(*value.as_integer_ratio())
    return arb(fmpq(fraction.numerator, fraction.denominator))


def as_balls(array: NDArray[Any]) -> arb_mat:
    """A matrix of floats, integers or fractions as a matrix of balls."""
    rows, columns = array.shape
    if array.dtype in (np.float64, np.float32) and np.isfinite(array).all():
        return arb_mat(rows, columns, array.astype(np.float64).ravel().tolist())
    return arb_mat(rows, columns, [as_ball(value) for value in array.flat])


def hadamard(left: arb_mat, right: arb_mat) -> arb_mat:
    """The entrywise product."""
    products = [a * b for a, b in zip(left.entries(), right.entries(), strict=True)]
    return arb_mat(left.nrows(), left.ncols(), products)


def enclose(balls: list[arb], shape: tuple[int, ...]) -> Enclosure:
    """Round balls outward to float64 bounds; `nextafter` pays for the rounding of the conversion itself."""
    with np.errstate(over="ignore", under="ignore"):
        lower = np.array([_end(ball.lower(), -np.inf) for ball in balls]).reshape(shape)
        upper = np.array([_end(ball.upper(), np.inf) for ball in balls]).reshape(shape)
    return Enclosure(lower, upper)


def _end(bound: arb, outward: float) -> float:
    nearest = float(bound)
    if np.isnan(nearest):
        return outward
    return nearest if arb(nearest) == bound else float(np.nextafter(nearest, outward))


def refined(compute: Callable[[], tuple[list[arb], tuple[int, ...]]], prec: int, target: float | None) -> Enclosure:
    """Run `compute` at `prec` bits; with a `target`, double the bits until ||radius|| <= target ||midpoint||.

    Gives the last enclosure after 4096 bits: a value that is exactly 0 has no relative radius.
    """
    while True:
        with working_precision(prec):
            enclosure = enclose(*compute())
        if target is None or prec >= _MOST_BITS:
            return enclosure
        size, blur = np.linalg.norm(enclosure.midpoint), np.linalg.norm(enclosure.radius)
        if blur <= target * size or blur == 0:
            return enclosure
        prec *= 2
