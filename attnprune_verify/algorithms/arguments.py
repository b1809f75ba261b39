"""Checks of the arguments that pruning programs share."""

import math
from fractions import Fraction

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, as_reals, check_shapes
from attnprune_verify.values import as_count

_LINEAR = {"weight": ("out", "in"), "X": ("tokens", "in")}


def pruned_count(rho: float | Fraction, size: int) -> int:
    """Number of entries, of `size`, that the ratio `rho` prunes: floor(rho * size), the product taken in float64.

    Python's ``int(rho * size)`` and the original programs give the same. A decimal literal is therefore taken as its
    float: 0.29 * 100 = 28.999999999999996 prunes 28, while 0.7 * 10 = 7.0 prunes 7.

    Examples
    --------
    >>> pruned_count(0.5, 9), pruned_count(0.7, 10), pruned_count(0.29, 100), pruned_count(1.0, 7)
    (4, 7, 28, 7)
    """
    return min(math.floor(rho * size), size)


def check_groups(prune_n: object, prune_m: object, columns: int) -> tuple[int, int]:
    """(n, m) of an N:M pattern in which n of every m consecutive inputs are PRUNED; (0, 0) when there is none."""
    n, m = as_count("prune_n", prune_n), as_count("prune_m", prune_m)
    if n > m:
        raise InvalidInstance(f"prune_n (pruned per group) must be <= prune_m (group size); got {n} > {m}")
    if m and columns % m:
        raise InvalidInstance(f"the number of inputs must be a multiple of prune_m; got {columns} and {m}")
    return n, m


def linear_layer(weight: object, X: object) -> tuple[Array, Array]:
    """`weight` (out, in) and its inputs as (sequences, tokens, in), in one dtype; two dimensions are one sequence."""
    weights, inputs = as_reals(weight=weight, X=X)
    check_shapes(_LINEAR, {"weight": weights, "X": inputs})
    return weights, inputs if inputs.ndim == 3 else inputs[None]


def refuse_powers(X: Array, power: int) -> None:
    """Refuse tokens X (..., d) of which sums of products of `power` entries leave the normal numbers of float64.

    N products, each rounded by at most 2^-1075 where it is subnormal, are off by at most 2^-1075 N in sum. This is less
    than a rounding, 2^-53, of the sum where the largest entry a of the feature has a^power >= 2^-1022 N. No sum
    overflows where N a^power is at most the largest number.

    Raises
    ------
    InvalidInstance

    Examples
    --------
    >>> refuse_powers(np.array([[1.0, 1e-170], [2.0, 0.0]]), 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: X^T X must fit into float64; the largest |X| of feature 1 is 1e-170, and...
    """
    largest = np.abs(X).reshape(-1, X.shape[-1]).max(axis=0).astype(np.float64)
    count, range_ = X.size // X.shape[-1], np.finfo(np.float64)
    least, most = (range_.tiny * count) ** (1 / power), (range_.max / count) ** (1 / power)
    wrong = (largest > most) | ((largest > 0) & (largest < least))
    if wrong.any():
        at = int(np.argmax(wrong))
        feature = f" of feature {at}" if len(largest) > 1 else ""
        powers = "X^T X" if power == 2 else f"products of {power} entries of X"
        raise InvalidInstance(
            f"{powers} must fit into float64; the largest |X|{feature} is {largest[at]:.3g}, and must be 0 or "
            f"from {least:.3g} to {most:.3g}"
        )
