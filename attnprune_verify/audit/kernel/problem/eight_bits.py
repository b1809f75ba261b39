"""Formats of eight bits: the number that each byte stands for, and the nearest one to any number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class EightBits:
    """A format with a sign, exponent bits and fraction bits in a byte, subnormal numbers kept.

    Attributes
    ----------
    fraction, bias : int
        Bits of the fraction, and what is subtracted from the exponent.
    largest : float
        The largest finite number.
    """

    name: str
    fraction: int
    bias: int
    largest: float

    @property
    def unit(self) -> float:
        """Unit roundoff: the largest relative error of a normal number that is rounded to the nearest."""
        return float(2.0 ** -(self.fraction + 1))

    @property
    def lost(self) -> float:
        """Half of the smallest subnormal number: the largest error below the normal numbers."""
        return float(2.0 ** -(self.bias + self.fraction))

    @cached_property
    def _values(self) -> Array:
        """The numbers of the bytes from 0 to that of the largest one; they increase."""
        bits = np.arange(2**7)
        exponent, fraction = bits >> self.fraction, bits % 2**self.fraction
        normal = (1 + fraction * 2.0**-self.fraction) * 2.0 ** (exponent - self.bias)
        values: Array = np.where(exponent > 0, normal, fraction * 2.0 ** (1 - self.bias - self.fraction))
        return np.asarray(values[values <= self.largest])

    def decoded(self, bits: Bytes) -> Array:
        """Return the numbers of bytes; nan where a byte stands for no finite one.

        Examples
        --------
        >>> EIGHT_BITS["float8_e4m3fn"].decoded(np.array([0, 1, 0x38, 0xFE], np.uint8)).tolist()
        [0.0, 0.001953125, 1.0, -448.0]
        """
        places = (bits & 0x7F).astype(int)
        finite = places < len(self._values)
        size = np.where(finite, self._values[np.where(finite, places, 0)], np.nan)
        return np.where(bits & 0x80, -size, size)

    def encoded(self, numbers: Array) -> Bytes:
        """Return the bytes of the nearest numbers, of two equally near that of the even byte; the largest beyond it."""
        size = np.abs(np.asarray(numbers, dtype=np.float64))
        middles = (self._values[1:] + self._values[:-1]) / 2
        places = np.searchsorted(middles, size, side="left")
        middle = middles[np.minimum(places, len(middles) - 1)] == size
        places = np.where(middle & (places % 2 == 1), places + 1, places).astype(np.uint8)
        return np.asarray(places | np.where(np.signbit(numbers), 0x80, 0).astype(np.uint8))

    def exact(self, numbers: Array) -> Array:
        """Return the nearest numbers of the format."""
        return self.decoded(self.encoded(numbers))


_FORMATS = EightBits("float8_e4m3fn", 3, 7, 448.0), EightBits("float8_e5m2", 2, 15, 57344.0)
EIGHT_BITS = {form.name: form for form in _FORMATS}
