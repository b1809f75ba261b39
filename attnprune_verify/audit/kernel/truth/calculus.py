"""Two ways to add up rounding errors: as if all conspired, and as if they were independent.

`Worst` bounds: errors add, and a sum of k terms in any order errs by gamma_k = k u / (1 - k u) of its absolute terms
(Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). `Typical` is a root mean square: independent
errors add in squares, and a sum of k terms errs by about sqrt(k) u / 3 (Higham & Mary, SIAM J. Sci. Comput. 41 (2019)
A2815); it is used with a factor, and on random inputs only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array


class Calculus(Protocol):
    """Rules that combine errors, all non-negative."""

    @property
    def u(self) -> float:
        """Unit roundoff of the sums."""

    def chain(self, terms: int) -> float:
        """The error of a sum of `terms` terms, relative to the sum of their absolute values."""

    def repeated(self, times: Array) -> Array:
        """The error of a product of several factors, relative to the error of one."""

    def add(self, *errors: Array | float) -> Array:
        """The error of a sum whose terms have these errors."""

    def through(self, errors: Array, matrix: Array) -> Array:
        """The error of a matrix product whose left factor has these errors."""

    def along(self, errors: Array, axis: int) -> Array:
        """The error of a sum along an axis, which is kept."""

    def centred(self, errors: Array, matrix: Array, mean: Array, kept: Array | float = 1.0) -> Array:
        """The error of sum_j w_j (c_j x_j - sum_t w_t c_t x_t) when w has these errors, c is `kept`."""


def product(left: Array, right: Array) -> Array:
    """The matrix product, at no cost where a factor is 0."""
    if left.any() and right.any():
        return np.asarray(left @ right)
    return np.zeros((*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]))


def _none(error: Array | float) -> bool:
    return isinstance(error, float) and error == 0.0


def _summed(errors: Iterable[Array | float]) -> Array:
    """The sum in this order, without what is no array and 0; in the memory of the first sum."""
    found: Array | None = None
    own = False
    for error in errors:
        if _none(error):
            continue
        if found is None:
            found = np.asarray(error)
        elif own and found.shape == np.broadcast_shapes(found.shape, np.shape(error)):
            found += error
        else:
            found, own = np.asarray(found + error), True
    return np.zeros(()) if found is None else found


@dataclass(frozen=True)
class Worst:
    """Absolute values."""

    u: float

    def chain(self, terms: int) -> float:
        return terms * self.u / (1 - terms * self.u) if terms * self.u < 0.5 else float(np.inf)

    def repeated(self, times: Array) -> Array:
        return times

    def add(self, *errors: Array | float) -> Array:
        return _summed(errors)

    def through(self, errors: Array, matrix: Array) -> Array:
        return product(errors, np.abs(matrix))

    def along(self, errors: Array, axis: int) -> Array:
        return np.asarray(errors.sum(axis=axis, keepdims=True))

    def centred(self, errors: Array, matrix: Array, mean: Array, kept: Array | float = 1.0) -> Array:
        found, spread = np.empty_like(mean), np.empty_like(matrix)
        for i in range(mean.shape[-2]):  # one query at a time: (..., l, mv) is the largest array here
            own = matrix if isinstance(kept, float) else kept[..., i, :, None] * matrix
            np.abs(np.subtract(own, mean[..., i : i + 1, :], out=spread), out=spread)
            found[..., i : i + 1, :] = errors[..., i : i + 1, :] @ spread
        return found


class AtOnce(Worst):
    """Absolute values, of a kernel that takes a row at once: the row's largest logit is its only shift."""

    def centred(self, errors: Array, matrix: Array, mean: Array, kept: Array | float = 1.0) -> Array:
        """Bound |c_j x_j - mean| by the sum of both, which costs a product."""
        common: Array = errors.sum(axis=-1, keepdims=True) * np.abs(mean)
        return self.through(errors * kept, matrix) + common


@dataclass(frozen=True)
class Typical:
    """Root sums of squares."""

    u: float

    def chain(self, terms: int) -> float:
        return float(self.u * (1 + 0.5 * np.sqrt(terms)))

    def repeated(self, times: Array) -> Array:
        return np.sqrt(times)

    def add(self, *errors: Array | float) -> Array:
        total = _summed([np.square(error) for error in errors if not _none(error)])
        return np.asarray(np.sqrt(total, out=total if total.ndim else None))

    def through(self, errors: Array, matrix: Array) -> Array:
        return np.asarray(np.sqrt(product(errors**2, matrix**2)))

    def along(self, errors: Array, axis: int) -> Array:
        return np.asarray(np.sqrt((errors**2).sum(axis=axis, keepdims=True)))

    def centred(self, errors: Array, matrix: Array, mean: Array, kept: Array | float = 1.0) -> Array:
        squares = errors**2
        total = (squares * kept**2) @ matrix**2 - 2 * mean * ((squares * kept) @ matrix)
        total = total + mean**2 * squares.sum(-1, keepdims=True)
        return np.asarray(np.sqrt(np.maximum(total, 0.0)))
