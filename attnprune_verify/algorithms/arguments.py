"""Checks of the arguments that pruning programs share."""

from __future__ import annotations

import math
from fractions import Fraction

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, as_reals, check_shapes
from attnprune_verify.values import as_count

__all__ = ["check_groups", "linear_layer", "pruned_count"]

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
