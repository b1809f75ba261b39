"""Checks of the arguments that pruning programs share."""

from __future__ import annotations

import math
import operator

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, as_reals, check_shapes

__all__ = ["as_count", "as_ratio", "as_positive", "check_groups", "linear_layer", "pruned_count"]

_LINEAR = {"weight": ("out", "in"), "X": ("tokens", "in")}


def as_ratio(rho: object, name: str = "rho") -> float:
    """The pruning ratio (or another share) as a float in [0, 1]."""
    value = _as_float(name, rho, "a real number in [0, 1]")
    if not 0.0 <= value <= 1.0:
        raise InvalidInstance(f"{name} must be in [0, 1]; got {value}")
    return value


def as_positive(name: str, value: object, *, zero: bool = False) -> float:
    """`value` as a finite float > 0 (>= 0 when `zero` is allowed)."""
    rule = f"finite and {'>= 0' if zero else '> 0'}"
    number = _as_float(name, value, rule)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InvalidInstance(f"{name} must be {rule}; got {number}")
    return number


def as_count(name: str, value: object, *, least: int = 0) -> int:
    """`value` as an integer >= `least`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything that knows how to be an index
    except TypeError as error:
        raise InvalidInstance(f"{name} must be an integer >= {least}; got {value!r:.60}") from error
    if number < least:
        raise InvalidInstance(f"{name} must be an integer >= {least}; got {number}")
    return number


def pruned_count(rho: float, size: int) -> int:
    """How many of `size` entries the ratio `rho` prunes: floor(rho * size), the product taken in float64.

    This is what ``int(rho * size)`` gives in Python and in the original programs. A decimal literal is therefore
    taken as the float it is: 0.29 * 100 = 28.999999999999996 prunes 28, while 0.7 * 10 = 7.0 prunes 7.

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


def _as_float(name: str, value: object, rule: str) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise InvalidInstance(f"{name} must be {rule}; got {value!r:.60}")
    try:
        return float(value)  # type: ignore[arg-type]  # anything that knows how to be a float
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInstance(f"{name} must be {rule}; got {value!r:.60}") from error
