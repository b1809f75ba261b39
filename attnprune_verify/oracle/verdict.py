"""One judgement from all oracles: is this array the gradient of the loss at M?

Every comparison divides by the size of the gradient, so `value` and `tolerance` are relative errors, and both are those
of the entry (or direction) where the comparison is worst. The tolerance comes from the running-error bound B of the
instance's precision; where B is coarser than 1e-4 of the gradient, from the measured resolution T <= B
(`attnprune_verify.oracle.resolution`).

* **failed**: a value that is not finite, or an error above B. Then ``value > tolerance``.
* **passed**: within T everywhere, and T is finer than a hundredth of the gradient. Then ``value <= tolerance``.
* **inconclusive**: between T and B, or T too coarse, or the comparison was not affordable (value and tolerance NaN).

For the Taylor slope, `value` is how far the slope falls short of 2 and `tolerance` is 0.5.

A gradient that is zero as far as 192 bits can tell has no relative error: errors are then absolute.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.oracle import autodiff, ball, multiprecision, taylor
from attnprune_verify.oracle.resolution import Resolution, resolution
from attnprune_verify.oracle.running_error import gradient_bound

__all__ = ["ORACLES", "OracleVerdict", "Status", "against", "judge_gradient"]

Status: TypeAlias = Literal["passed", "failed", "inconclusive"]
_Array: TypeAlias = NDArray[np.float64]

ORACLES = ("autodiff", "taylor-slope", "multiprecision", "ball")

_BITS = 192  # of the balls, to begin with
_FINE = 1e-4  # a bound this fine needs no measured resolution
_WORTH = 1e-2  # a comparison this coarse decides nothing
_SIGMAS = 6.0  # of a sum with random signs (Hoeffding: exceeded with probability 3e-8)


@dataclass(frozen=True)
class OracleVerdict:
    """What one oracle says about a gradient; see the module for `value` and `tolerance`."""

    oracle: str
    status: Status
    value: float
    tolerance: float
    note: str


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
    size = 1.0 if zero else _length(wanted)
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
    blur = _length(fine) / size
    if not zero and not blur <= _WORTH:
        return OracleVerdict(
            oracle, "inconclusive", value, tolerance, f"{note}; rounding may hide errors of {blur:.1g}".lstrip("; ")
        )
    return OracleVerdict(oracle, "passed", value, tolerance, note)


def judge_gradient(
    instance: Instance,
    M: ArrayLike,
    gradient: ArrayLike,
    *,
    rng: np.random.Generator,
    effort: float = 30.0,
    progress: Callable[[str], None] | None = None,
) -> tuple[OracleVerdict, ...]:
    """Let the oracles autodiff, taylor-slope, multiprecision and ball (in this order) judge a gradient.

    Parameters
    ----------
    instance : Instance
        The problem; its dtype is the precision in which the gradient is assumed to have been computed.
    M : (d, d) array
        Where the gradient was taken.
    gradient : (d, d) array
        The claimed gradient of the loss at M.
    rng : numpy.random.Generator
        For random directions.
    effort : float
        Nominal seconds on one core that the expensive oracles may take together; it decides by a fixed cost model,
        not by the clock, what is compared: every entry, a stated number of random directions, or nothing.
    progress : callable, optional
        Called with the name of each oracle before it starts.

    Returns
    -------
    tuple of OracleVerdict

    Raises
    ------
    InvalidInstance
        If `gradient` or `M` does not have the shape of W.

    Examples
    --------
    >>> import numpy as np
    >>> instance = Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), lam=0.1)
    >>> M = np.array([[0.5, 1.0], [0.25, 0.0]])
    >>> from attnprune_verify.oracle.loops import gradient
    >>> right = gradient(M, instance.X, instance.W, instance.lam)
    >>> [v.status for v in judge_gradient(instance, M, right, rng=np.random.default_rng(0))]
    ['passed', 'passed', 'passed', 'passed']
    >>> [v.status for v in judge_gradient(instance, M, -right, rng=np.random.default_rng(0))]
    ['failed', 'failed', 'failed', 'failed']
    """
    return _Judge(instance, M, gradient, rng, effort, progress or (lambda name: None)).verdicts()


class _Judge:
    def __init__(
        self,
        instance: Instance,
        M: ArrayLike,
        gradient: ArrayLike,
        rng: np.random.Generator,
        effort: float,
        progress: Callable[[str], None],
    ) -> None:
        self.instance, self.rng, self.effort, self.progress = instance, rng, effort, progress
        self.M, self.given = np.asarray(M, dtype=np.float64), np.asarray(gradient, dtype=np.float64)
        shapes = {self.M.shape, self.given.shape, instance.W.shape}
        if len(shapes) > 1:
            raise InvalidInstance(
                f"M and gradient must have the shape {instance.W.shape} of W; got {self.M.shape} and {self.given.shape}"
            )
        k, n, d = instance.samples.shape
        self.logits, self.products = k * int(instance.allowed.sum()), k * n * d * (n + d)
        self.size = d * d
        self.bits = _BITS

    @property
    def problem(self) -> tuple[_Array, _Array, _Array, float, NDArray[np.bool_]]:
        # The instance was validated: its mask goes to every oracle as the array it stands for.
        instance = self.instance
        samples, weight = instance.samples.astype(np.float64), instance.W.astype(np.float64)
        return self.M, samples, weight, instance.lam, instance.allowed

    def verdicts(self) -> tuple[OracleVerdict, ...]:
        if not np.isfinite(self.given).all():
            return tuple(OracleVerdict(name, "failed", math.inf, 0.0, "an entry is not finite") for name in ORACLES)
        self.progress("autodiff")
        differentiated = autodiff.gradient(*self.problem)
        dtype = self.instance.X.dtype
        own = gradient_bound(*self.problem)
        bound = own if dtype == np.float64 else gradient_bound(*self.problem, float(np.finfo(dtype).eps) / 2)
        self.progress("ball")
        exact = self._enclosure(bound)
        reference = differentiated if exact is None else np.where(_contains_zero(exact), 0.0, exact.midpoint)
        fine = Resolution(bound, _SIGMAS * _length(bound))
        if not _length(bound) <= _FINE * _length(reference) and reference.any():
            M, samples, W, lam, allowed = self.problem
            arrays = M.astype(dtype), samples.astype(dtype), W.astype(dtype)
            trials = 8 if self.products < 1e9 else 2
            fine = resolution(*arrays, lam, allowed, reference, bound, self.rng, trials)
        # Reverse mode rounds where the closed form does, and twice as often: its own error counts, too.
        automatic = against(
            "autodiff", self.given, differentiated, bound + 2 * own, fine.entries + 2 * own, "all entries, float64"
        )
        rigorous = self._ball(exact, bound, fine.entries)
        self.progress("taylor-slope")
        slope = self._taylor(bound, fine)
        self.progress("multiprecision")
        return automatic, slope, self._multiprecision(reference, bound, fine), rigorous

    def _enclosure(self, bound: _Array) -> ball.Enclosure | None:
        if 8e-6 * self.logits + 2e-8 * self.products > self.effort:
            return None
        exact = ball.gradient(*self.problem, prec=self.bits)
        if (exact.radius <= bound).all():
            return exact
        self.bits *= 8  # astronomically large logits
        return ball.gradient(*self.problem, prec=self.bits)

    def _ball(self, exact: ball.Enclosure | None, bound: _Array, fine: _Array) -> OracleVerdict:
        if exact is None:
            return _unaffordable("ball", self.logits)
        middle = np.where(_contains_zero(exact), 0.0, exact.midpoint)
        slack = np.maximum(exact.upper - middle, middle - exact.lower)
        note = f"all {self.size} entries"
        if 2e-5 * self.logits + 2e-8 * self.products <= self.effort / 2:
            direction = self.rng.choice([-1.0, 1.0], size=self.M.shape)
            M, samples, W, lam, allowed = self.problem
            series = ball.directional_derivative(M, direction, samples, W, lam, allowed, prec=self.bits)
            ends = (
                np.where(direction > 0, exact.lower, -exact.upper),
                np.where(direction > 0, exact.upper, -exact.lower),
            )
            lower, upper = (
                math.nextafter(math.fsum(part.ravel()), sign * math.inf)
                for part, sign in zip(ends, (-1, 1), strict=True)
            )
            if series.upper < lower or series.lower > upper:
                return OracleVerdict(
                    "ball", "inconclusive", math.nan, math.nan, "closed form and power series disagree"
                )
            if series.radius <= (bound + slack).sum() < math.inf:
                note += "; closed form confirmed by a power series of the loss along 1 random direction"
        if not (slack <= bound).all():
            return OracleVerdict(
                "ball", "inconclusive", math.nan, math.nan, "the enclosure is wider than rounding errors"
            )
        return against("ball", self.given, middle, bound + slack, fine + slack, note)

    def _taylor(self, bound: _Array, fine: Resolution) -> OracleVerdict:
        M, samples, W, lam, allowed = self.problem
        count = 4 if self.logits * 1.6e-5 < self.effort else 1
        found = taylor.taylor_verdict(
            M,
            self.given,
            samples,
            W,
            lam,
            allowed,
            rng=self.rng,
            directions=count,
            bound=bound,
            usual=fine.entries,
            usual_norm=fine.norm,
        )
        slope = math.nan if math.isnan(found.slope) else max(0.0, 2 - found.slope)
        power = (
            ""
            if not found.detection_power < 1
            else f", would have seen a relative error of {found.detection_power:.1g}"
        )
        note = f"{found.reason}; {count} direction{'s'[: count - 1]}{power}"
        if found.status == "passed" and math.isnan(slope):
            slope = 0.0  # a constant loss
        return OracleVerdict("taylor-slope", found.status, slope, 2 - taylor.THRESHOLD, note)

    def _multiprecision(self, reference: _Array, bound: _Array, fine: Resolution) -> OracleVerdict:
        start = 3.5e-6 * self.logits + 1e-8 * self.products
        each = 1.2e-5 * self.logits + 1.3e-8 * self.products + 4e-6 * self.size
        M, samples, W, lam, allowed = self.problem
        if start + each > self.effort:
            return _unaffordable("multiprecision", self.logits)
        literal = multiprecision.Literal(M, samples, W, lam, allowed)
        if start + (each + 1e-3) * self.size <= min(1.0, self.effort):
            slopes = np.array([float(literal.slope(unit)) for unit in _units(self.M.shape)]).reshape(self.M.shape)
            slopes = np.where(np.abs(slopes) < 1e-12 * bound, 0.0, slopes)
            return against(
                "multiprecision", self.given, slopes, bound, fine.entries, f"all {self.size} entries at 50 digits"
            )
        count = int(min(4, max(1, (self.effort / 2 - start) / each)))
        size = _length(reference) or 1.0
        # Signs drawn after the errors were made: their sum is below 6 times its standard deviation, or the plain sum.
        limits = [min(float(part.sum()), _SIGMAS * _length(part)) for part in (bound, fine.entries)]
        limits = [limits[0] / size, min(limits[1], fine.norm) / size]
        errors = []
        for _ in range(count):
            direction = self.rng.choice([-1.0, 1.0], size=self.M.shape)
            errors.append(abs(math.fsum((self.given * direction).ravel()) - float(literal.slope(direction))) / size)
        worst, note = max(errors), f"{count} random direction{'s'[: count - 1]} at 50 digits"
        status: Status = "passed" if worst <= limits[1] else "failed" if worst > limits[0] else "inconclusive"
        if status == "passed" and not limits[1] <= (_WORTH if reference.any() else sys.float_info.max):
            status, note = "inconclusive", f"{note}; rounding may hide errors of {limits[1]:.1g}"
        return OracleVerdict("multiprecision", status, worst, limits[0] if status == "failed" else limits[1], note)


def _length(array: _Array) -> float:
    """The Frobenius norm, also of numbers whose squares under- or overflow."""
    return math.hypot(*array.ravel())


def _contains_zero(exact: ball.Enclosure) -> NDArray[np.bool_]:
    return np.asarray((exact.lower <= 0) & (exact.upper >= 0))


def _units(shape: tuple[int, ...]) -> list[_Array]:
    return list(np.eye(math.prod(shape)).reshape(-1, *shape))


def _unaffordable(oracle: str, logits: int) -> OracleVerdict:
    note = f"not run: {logits} logits are more than the effort allows"
    return OracleVerdict(oracle, "inconclusive", math.nan, math.nan, note)
