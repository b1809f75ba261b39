"""Exact integer matrix products for the multiprecision oracle: numbers as integers over one power of two per matrix."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_FEW = 10_000
"""Products of entries up to which Python's integers beat limbs: `timeit` of both, 240 bits, four times at 20^3."""


class FixedPoint(NamedTuple):
    """The matrix ``integers * 2**exponent``; `integers` is an object array of Python integers."""

    integers: NDArray[Any]
    exponent: int

    @property
    def T(self) -> FixedPoint:
        """The transpose."""
        return FixedPoint(self.integers.T, self.exponent)


def fixed(array: NDArray[Any], bits: int) -> FixedPoint:
    """Convert floats exactly, other fractions to multiples of 2**-bits times the largest magnitude."""
    ratios = [value.as_integer_ratio() for value in array.astype(object).flat]
    largest = max((abs(top).bit_length() - bottom.bit_length() for top, bottom in ratios if top), default=0)
    places = bits - largest
    if all(bottom & (bottom - 1) == 0 for _, bottom in ratios):  # floats: at this many binary places
        places = max(bottom.bit_length() for _, bottom in ratios) - 1
    up, down = max(places, 0), max(-places, 0)
    integers = np.empty(len(ratios), dtype=object)
    integers[:] = [((top << (up + 1)) // (bottom << down) + 1) >> 1 for top, bottom in ratios]
    return FixedPoint(integers.reshape(array.shape), -places)


def aligned(matrices: list[FixedPoint]) -> tuple[list[NDArray[Any]], int]:
    """The integers of all matrices over one common power of two, and its exponent; nothing is rounded."""
    exponent = min(matrix.exponent for matrix in matrices)
    return [matrix.integers << (matrix.exponent - exponent) for matrix in matrices], exponent


def product(left: FixedPoint, right: FixedPoint, bits: int) -> FixedPoint:
    """The matrix product, exact up to the final rounding to `bits` bits below the largest entry."""
    few = left.integers.size * right.integers.shape[1] <= _FEW
    total = left.integers @ right.integers if few else _by_limbs(left.integers, right.integers)
    return rounded(FixedPoint(total, left.exponent + right.exponent), bits)


def _by_limbs(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """The product of integers that are cut into limbs so short that a float64 matrix product of limbs cannot round."""
    inner = left.shape[1]
    width = (53 - math.ceil(math.log2(inner + 1))) // 2
    total = np.zeros((left.shape[0], right.shape[1]), dtype=object)
    left_limbs, right_limbs = _limbs(left, width), _limbs(right, width)
    for place in range(len(left_limbs) + len(right_limbs) - 1):
        pairs = range(max(0, place - len(right_limbs) + 1), min(place + 1, len(left_limbs)))
        column = sum((left_limbs[i] @ right_limbs[place - i]).astype(np.int64) for i in pairs)
        total = total + (np.asarray(column).astype(object) << (width * place))
    return total


def _limbs(integers: NDArray[Any], width: int) -> list[NDArray[np.float64]]:
    signs = np.where(integers < 0, -1, 1).astype(object)
    rest = integers * signs
    limbs: list[NDArray[np.float64]] = []
    base = (1 << width) - 1
    while not limbs or (rest != 0).any():
        limbs.append((signs * (rest & base)).astype(np.float64))
        rest = rest >> width
    return limbs


def rounded(matrix: FixedPoint, bits: int) -> FixedPoint:
    """The matrix rounded to `bits` bits below its largest entry."""
    largest = max((abs(value) for value in matrix.integers.flat), default=0)
    excess = largest.bit_length() - bits
    if excess <= 0:
        return matrix
    return FixedPoint((matrix.integers + (1 << (excess - 1))) >> excess, matrix.exponent + excess)
