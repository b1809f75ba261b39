"""Arrays of intervals in float64; whoever compares adds a slack for rounding, as ends are rounded to nearest."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Interval:
    low: np.ndarray
    high: np.ndarray

    def __add__(self, right):
        right = _interval(right)
        return Interval(self.low + right.low, self.high + right.high)

    def __neg__(self):
        return Interval(-self.high, -self.low)

    def __sub__(self, right):
        return self + -_interval(right)

    def __rsub__(self, right):
        return _interval(right) - self

    def __mul__(self, right):
        right = _interval(right)
        ends = [left * end for left in (self.low, self.high) for end in (right.low, right.high)]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    __radd__, __rmul__ = __add__, __mul__

    def above(self, right):
        right = _interval(right)
        return Interval(np.maximum(self.low, right.low), np.maximum(self.high, right.high))

    def below(self, right):
        return -(-self).above(-_interval(right))

    def size(self):
        return self.above(-self).above(0)

    def squared(self):
        return self.size() * self.size()

    def cubed(self):
        return Interval(self.low**3, self.high**3)

    def root(self):
        return Interval(np.sqrt(self.low), np.sqrt(self.high))


def _interval(value):
    return value if isinstance(value, Interval) else Interval(value, value)
