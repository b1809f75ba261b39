"""The arithmetic of lanes, in which the statements are judged on many instances at once.

Eigenvalues come from LAPACK, matrix by matrix, with 16 m u ||A||_F added to the radius for its backward error. That
constant is generous but not proved; what is close to the border is decided in balls anyway.
"""

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.theory.numbers.arithmetic import FLOAT, Arithmetic, Number, Undecidable
from attnprune_verify.theory.numbers.lanes import TINY, Lane, Slope, U, constant

_Vector = NDArray[np.float64]


class _Lanes(Arithmetic):
    """Arithmetic of lanes; constants are lanes of length 1, so that rounding of expressions in them is bounded, too."""

    name = "lanes"

    def lift(self, value: Number) -> Number:
        if isinstance(value, Lane | Slope):
            return value
        array = np.asarray(value)
        if array.dtype == object:
            lifted = np.empty(array.size, dtype=object)
            lifted[:] = [self.lift(entry) for entry in array.ravel()] if array.ndim else [constant(array.item())]
            return lifted.reshape(array.shape) if array.ndim else lifted[0]
        if not array.ndim:
            return constant(array.item())
        lifted = np.empty(array.size, dtype=object)
        lifted[:] = [constant(entry) for entry in array.ravel().tolist()]
        return lifted.reshape(array.shape)

    def sqrt(self, value: Number) -> Number:
        return self.lift(value).sqrt()

    def exp(self, array: Number) -> Number:
        return np.exp(array)

    def log(self, value: Number) -> Number:
        return self.lift(value).log()

    def lambertw(self, value: Number) -> Number:
        lane = self.lift(value)
        if lane.mid.size > 1:
            raise Undecidable("lambertw of many instances")
        # W is increasing with W'(x) <= 1 for x >= 0; one Newton step bounds what SciPy left
        x = float(lane.mid[0])
        w = FLOAT.lambertw(x)
        residual = abs(w * np.exp(w) - x) + 16 * U * (abs(x) + abs(w * np.exp(w)))
        return Lane(np.array([w]), np.array([residual + (0.0 if lane.rad is None else float(lane.rad[0])) + TINY]))

    def over(self, numerator: Number, denominator: Number) -> Number:
        if self.lift(denominator) == 0:
            raise Undecidable("a division by 0")
        return self.lift(numerator) / denominator

    def extreme_eigenvalues(self, symmetric: Number) -> tuple[Number, Number]:
        found = eigenvalues(symmetric)
        return found[0], found[-1]

    def smallest(self, values: Number) -> Number:
        entries = [self.lift(entry) for entry in np.ravel(np.asarray(values, dtype=object))]
        mid = entries[0].mid
        rads = [entry.rad for entry in entries if entry.rad is not None]
        for entry in entries[1:]:
            mid = np.minimum(mid, entry.mid)
        rad = None
        for one in rads:  # |min x - min y| <= max |x - y|
            rad = one if rad is None else np.maximum(rad, one)
        return Lane(mid, rad)

    def largest(self, values: Number) -> Number:
        return -self.smallest([-self.lift(entry) for entry in np.ravel(np.asarray(values, dtype=object))])


LANES = _Lanes()


def stacked(array: _Vector) -> Number:
    """Object array of lanes from an array whose first axis runs over the instances; a single lane of a vector.

    Examples
    --------
    >>> stacked(np.zeros((5, 2, 3))).shape, stacked(np.zeros(5)).mid.shape
    ((2, 3), (5,))
    """
    if array.ndim == 1:
        return Lane(np.ascontiguousarray(array, dtype=np.float64))
    flat = np.ascontiguousarray(array.reshape(len(array), -1).T, dtype=np.float64)
    lifted = np.empty(len(flat), dtype=object)
    lifted[:] = [Lane(row) for row in flat]
    return lifted.reshape(array.shape[1:])


def eigenvalues(symmetric: Number) -> list[Lane]:
    """Return all eigenvalues, least first; by Weyl they move by at most the Frobenius norm of the matrix of radii."""
    entries = [LANES.lift(entry) for entry in np.ravel(symmetric)]
    size = len(symmetric)
    table = np.stack(np.broadcast_arrays(*[entry.mid for entry in entries]), axis=-1).reshape(-1, size, size)
    table = (table + table.transpose(0, 2, 1)) / 2
    blur = np.zeros(len(table))
    for entry in entries:
        if entry.rad is not None:
            blur = blur + entry.rad**2
    off = np.sqrt(blur) + lapack_error(size) * np.sqrt((table * table).sum(axis=(1, 2)))
    values = np.linalg.eigvalsh(table)
    return [Lane(np.ascontiguousarray(values[:, k]), off) for k in range(size)]


def lapack_error(size: int) -> float:
    """Bound of the error of an eigenvalue or singular value of a matrix of that size, in units of the matrix's norm."""
    return 16 * size * U
