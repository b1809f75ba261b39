"""Rounding of a real mask to a 0/1 mask."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, as_real
from attnprune_verify.values import as_choice, as_ratio

ThresholdReading = Literal["ascending-0", "ascending-1", "descending-0", "descending-1"]


def binary_mask(M: ArrayLike, rho: float) -> Array:
    """1 = kept, 0 = pruned: keep the largest entries of `M`; exactly ``floor(rho * M.size)`` zeros, ones elsewhere.

    The zeros are the smallest entries; of equal entries the one with the lower flat index (C order) is zeroed first.
    The product ``rho * M.size`` is the float64 product (see `pruned_count`).

    Parameters
    ----------
    M : (d, d) array
        Real mask; any shape is accepted.
    rho : float
        Pruning ratio in [0, 1].

    Returns
    -------
    array of M's shape
        1 = kept, 0 = pruned, so that ``binary_mask(M, rho) * W`` is the pruned weight.
        float32 if `M` is float32, else float64.

    Raises
    ------
    InvalidInstance
        If `M` is empty or not finite, or `rho` is outside [0, 1].

    Notes
    -----
    The intent of the last lines of alg:mask_gd; `threshold_mask` is what those lines literally say.

    Examples
    --------
    >>> binary_mask([[0.3, 0.1], [0.1, 0.9]], 0.5)
    array([[1., 0.],
           [0., 1.]])
    >>> binary_mask([[1.0, 1.0], [1.0, 1.0]], 0.25)
    array([[0., 1.],
           [1., 1.]])
    """
    values, ratio = as_real("M", M), as_ratio(rho)
    pruned = smallest(values.ravel(), pruned_count(ratio, values.size)).reshape(values.shape)
    return np.where(pruned, 0, 1).astype(values.dtype)


def threshold_mask(M: ArrayLike, rho: float, reading: ThresholdReading = "ascending-0") -> Array:
    """Rounding of alg:mask_gd to the letter: ``tau = sorted(M)[floor(rho d^2)]``, then 1 where ``M > tau``, else 0.

    The text leaves open how the entries are sorted and where indices start; its comments ("the rho-th largest
    element", "set the top rho entries to 1") ask for a descending order, which keeps rho instead of pruning it.

    * ``ascending-0``: ascending, first index 0. Without ties one entry too many is pruned.
    * ``ascending-1``: ascending, first index 1. Exact without ties.
    * ``descending-0``: descending, first index 0. Keeps ``floor(rho d^2)`` entries: prunes 1 - rho.
    * ``descending-1``: descending, first index 1. Keeps ``floor(rho d^2) - 1`` entries.

    In every reading all entries equal to tau are pruned: with M = 1 everything is.

    Raises
    ------
    InvalidInstance
        If the index lies outside the array (rho = 1 in 0-based readings, ``floor(rho d^2) = 0`` in 1-based ones),
        or an argument breaks a rule of `binary_mask`.

    Examples
    --------
    >>> threshold_mask([1.0, 2.0, 3.0, 4.0], 0.5)
    array([0., 0., 0., 1.])
    >>> threshold_mask([1.0, 2.0, 3.0, 4.0], 0.5, "ascending-1")
    array([0., 0., 1., 1.])
    """
    as_choice("reading", reading, get_args(ThresholdReading))
    values, ratio = as_real("M", M), as_ratio(rho)
    order, base = reading.split("-")
    position = pruned_count(ratio, values.size)
    index = position - int(base)
    if not 0 <= index < values.size:
        raise InvalidInstance(
            f"the threshold's index must exist: reading {reading} asks for entry {position} of {values.size}, "
            f"counted from {base}"
        )
    ranked = np.sort(values, axis=None)
    tau = (ranked if order == "ascending" else ranked[::-1])[index]
    return np.where(values > tau, 1, 0).astype(values.dtype)


def flipped_entries(mask: ArrayLike, other: ArrayLike) -> float:
    """The fraction of entries in which two 0/1 masks differ.

    Examples
    --------
    >>> flipped_entries([[1, 0], [0, 1]], [[1, 0], [1, 1]])
    0.25
    """
    first: NDArray[np.bool_] = np.asarray(mask) != 0
    second: NDArray[np.bool_] = np.asarray(other) != 0
    if first.shape != second.shape:
        raise InvalidInstance(f"masks must have one shape; got {first.shape} and {second.shape}")
    return float(np.mean(first != second))
