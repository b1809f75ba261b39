"""Claim and verdict of an oracle: comparison of arrays under a bound on rounding errors.

Every comparison divides by the size of the gradient, so `value` and `tolerance` are relative errors, and both are those
of the entry (or direction) where the comparison is worst. The tolerance comes from the running-error bound B of the
instance's precision; where B is coarser than 1e-4 of the gradient, from the measured resolution T <= B
(`attnprune_verify.oracle.resolution`).

* **failed**: a value that is not finite, or an error above B. Then ``value > tolerance``.
* **passed**: within T everywhere, and T is finer than a hundredth of the gradient. Then ``value <= tolerance``.
* **inconclusive**: between T and B, or T too coarse, or the comparison was not affordable (value and tolerance NaN).

For the Taylor slope, `value` is how far the slope falls short of 2 and `tolerance` is 0.5.

A gradient that is zero within 192 bits has no relative error: errors are then absolute.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.inputs import OracleInput

Status: TypeAlias = Literal["passed", "failed", "inconclusive"]
_Array: TypeAlias = NDArray[np.float64]

WORTH = 1e-2  # a comparison this coarse decides nothing
SIGMAS = 6.0  # of a sum with random signs (Hoeffding: exceeded with probability 3e-8)


class Resolution(NamedTuple):
    """The smallest error that counts, entry by entry, and the usual Frobenius norm of all errors together."""

    entries: _Array
    norm: float


@dataclass(frozen=True)
class GradientClaim:
    """A gradient to be judged: all entries in one vector, M_Q's before M_K's.

    Attributes
    ----------
    at : OracleInput
    given : (size,) array
        The claimed gradient.
    reference : (size,) array
        The best value available: the enclosure's middle, or automatic differentiation's.
    exact : Enclosure or None
        Enclosure of the gradient, if ball arithmetic is affordable; its bits are `bits`.
    bound, own : (size,) arrays
        Largest rounding error in the precision judged, and in float64.
    fine : Resolution
        Usual rounding error in the precision judged.
    rng : numpy.random.Generator
        For random directions.
    effort : float
        Nominal seconds for this oracle.
    """

    at: OracleInput
    given: _Array
    reference: _Array
    exact: Any
    bits: int
    bound: _Array
    own: _Array
    fine: Resolution
    rng: np.random.Generator
    effort: float


@dataclass(frozen=True)
class OracleVerdict:
    """Verdict of one oracle on a gradient; see the module for `value` and `tolerance`.

    `needs` is the effort with which the oracle runs, if it was skipped because the effort allowed was too small.
    """

    oracle: str
    status: Status
    value: float
    tolerance: float
    note: str
    needs: float | None = None


def against(
    oracle: str,
    values: ArrayLike,
    reference: ArrayLike,
    bound: ArrayLike,
    allowed: ArrayLike | None = None,
    note: str = "",
) -> OracleVerdict:
    """Compare `values` with `reference`: `bound` must not be exceeded, `allowed` (default: `bound`) should not be.

    Works for a loss, a gradient or a Hessian-vector product; all arguments have one shape.

    Examples
    --------
    >>> against("ball", [1.0, 2.0], [1.0, 2.5], [0.1, 0.1]).status
    'failed'
    """
    found, wanted, limit = (np.asarray(part, dtype=np.float64) for part in (values, reference, bound))
    fine = limit if allowed is None else np.asarray(allowed, dtype=np.float64)
    zero = not wanted.any()
    size = 1.0 if zero else length(wanted)
    if not np.isfinite(found).all():
        return OracleVerdict(oracle, "failed", math.inf, float(fine.max()) / size, "an entry is not finite")
    if not np.isfinite(fine).all():
        note = f"{note}; the bound on rounding errors overflows".lstrip("; ")
        return OracleVerdict(oracle, "inconclusive", math.nan, math.inf, note)
    error = np.abs(found - wanted)
    with np.errstate(all="ignore"):
        excess = np.where(error > 0, error / np.where(error > limit, limit, fine), 0.0)
    worst = np.unravel_index(int(np.argmax(np.where(error > limit, np.inf, excess))), error.shape)
    value = float(error[worst]) / size
    if (error > limit).any():
        return OracleVerdict(oracle, "failed", value, float(limit[worst]) / size, note)
    tolerance = float(fine[worst]) / size
    if (error > fine).any():
        return OracleVerdict(
            oracle, "inconclusive", value, tolerance, f"{note}; within rounding, larger than usual".lstrip("; ")
        )
    blur = length(fine) / size
    if not zero and not blur <= WORTH:
        return OracleVerdict(
            oracle, "inconclusive", value, tolerance, f"{note}; rounding may hide errors of {blur:.1g}".lstrip("; ")
        )
    return OracleVerdict(oracle, "passed", value, tolerance, note)


def unaffordable(oracle: str, cost: float, effort: float) -> OracleVerdict:
    """Return the verdict of an oracle that was skipped because it costs more than the effort allows."""
    note = f"not run: nominally {cost:.2g} s of exact arithmetic, of which {effort:.2g} s are allowed"
    return OracleVerdict(oracle, "inconclusive", math.nan, math.nan, note, needs=cost)


def declined(oracle: str, unknown: Sequence[str]) -> OracleVerdict:
    """Return the verdict of an oracle that has no formula of something that the layer does to its logits."""
    note = f"declined: it has no formula of {' and '.join(unknown)}"
    return OracleVerdict(oracle, "inconclusive", math.nan, math.nan, note)


def length(array: _Array) -> float:
    """The Frobenius norm, also of numbers whose squares under- or overflow."""
    return math.hypot(*array.ravel())
