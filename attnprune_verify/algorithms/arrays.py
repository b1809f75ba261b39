"""Arrays of any library that follows the Python array API standard: NumPy, torch on any device, CuPy.

The solvers of `algorithms.matrix` are written once, with the standard's functions; they compute and return results in
the library, device and precision of their arguments.
"""

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array

__all__ = [
    "AnyArray",
    "diagonal",
    "dot",
    "eye_like",
    "inverse_factor",
    "is_definite",
    "is_large",
    "is_numpy_array",
    "like",
    "masked",
    "on_host",
    "swapped",
    "working_dtype",
    "xp_of",
    "zeros_like",
]

AnyArray: TypeAlias = Any
"""An array of any such library."""

_LARGE = 2**20
"""Weights of a matrix from which float32 is used throughout: chosen. Below it float64 costs a second or less, and the
stored experiments stay what they are; `benchmarks/paper_layer.py` shows what it saves above."""


def xp_of(*arrays: AnyArray | None) -> Any:
    """The namespace of the library that all these arrays belong to."""
    return array_namespace(*(one for one in arrays if one is not None))


def is_large(array: AnyArray) -> bool:
    """Return True where a weight is large enough for float32 to be worth its rounding."""
    size = 1
    for length in array.shape:
        size *= length
    return size >= _LARGE


def working_dtype(metric: AnyArray) -> Any:
    """float64 for NumPy, whatever is given; elsewhere the metric's own precision, float32 at least."""
    xp = xp_of(metric)
    if is_numpy_array(metric) or metric.dtype == xp.float64:
        return xp.float64
    return xp.float32


def eye_like(size: int, array: AnyArray) -> AnyArray:
    """The identity, of the array's library, precision and device."""
    return xp_of(array).eye(size, dtype=array.dtype, device=device(array))


def zeros_like(shape: tuple[int, ...], array: AnyArray, dtype: Any = None) -> AnyArray:
    """Zeros of a shape, of the array's library and device."""
    return xp_of(array).zeros(shape, dtype=dtype or array.dtype, device=device(array))


def swapped(array: AnyArray) -> AnyArray:
    """The last two axes exchanged."""
    return xp_of(array).matrix_transpose(array)


def diagonal(metric: AnyArray) -> AnyArray:
    """The diagonals of the last two axes."""
    return xp_of(metric).linalg.diagonal(metric)


def masked(kept: AnyArray, array: AnyArray) -> AnyArray:
    """The array with 0 where `kept` is False."""
    xp = xp_of(array)
    return xp.where(kept, array, xp.zeros((), dtype=array.dtype, device=device(array)))


def on_host(array: AnyArray) -> Any:
    """Return the numbers as a NumPy array."""
    return np.asarray(array.cpu() if is_torch_array(array) else array)


def like(numbers: Any, array: AnyArray) -> AnyArray:
    """A NumPy array as one of another array's library, on its device."""
    return xp_of(array).asarray(numbers, device=device(array))


def dot(one: AnyArray, other: AnyArray) -> float:
    """The sum of the products of all entries."""
    if is_numpy_array(one):
        return float(np.vdot(one, other))
    return float(xp_of(one).sum(one * other))


def inverse_factor(H: AnyArray) -> AnyArray:
    """The upper triangular U with U^T U = H^-1 (Cholesky of H with both orders reversed; no inverse is formed)."""
    xp = xp_of(H)
    upper = xp.flip(xp.linalg.cholesky(xp.flip(H)))
    if is_numpy_array(H):
        from scipy.linalg import solve_triangular  # a mask alone does not wait for it

        return np.asarray(solve_triangular(upper, np.eye(len(H), dtype=H.dtype), lower=False))
    if is_torch_array(H):
        return xp.linalg.solve_triangular(upper, eye_like(H.shape[0], H), upper=True)
    return xp.linalg.solve(upper, eye_like(H.shape[0], H))


def is_definite(metric: AnyArray) -> bool:
    """Return True where Cholesky's factor exists in the metric's precision."""
    xp = xp_of(metric)
    try:
        factor = xp.linalg.cholesky(metric)
    except (np.linalg.LinAlgError, RuntimeError):  # torch raises a RuntimeError
        return False
    return bool(xp.all(xp.isfinite(factor)))
