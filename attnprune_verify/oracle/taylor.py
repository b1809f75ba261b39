"""The slope of the Taylor remainder |L(M + hD) - L(M) - h <g, D>| in h: 2 if g is the gradient along D, 1 if it is not.

The differences of the literal loss are evaluated without cancellation (`taylor_differences`), so the remainder is known
to a relative precision at every step size, and the noise floor is linear in h: h times what rounding may have done to
<g, D> (in the implementation judged, and here).

* **failed**: at the six smallest step sizes the remainder stands above what rounding can explain, and its slope is
  below 1.5. A wrong gradient always ends there, because its remainder is linear in h for small h.
* **passed**: at least six step sizes stand well above the noise floor and the slope of the six smallest of them is at
  least 1.5.
* **inconclusive**: anything else; e.g. a flat or exactly linear loss, or a saturated softmax.

The verdict does not depend on the scale of the loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.oracle.comparison import GradientClaim, OracleVerdict
from attnprune_verify.oracle.inputs import OracleInput, fused
from attnprune_verify.oracle.running_error import gradient_error
from attnprune_verify.oracle.taylor_differences import differences

Status: TypeAlias = Literal["passed", "failed", "inconclusive"]
_Array: TypeAlias = NDArray[np.floating[Any]]

THRESHOLD = 1.5  # halfway between 1, a wrong gradient's slope, and 2, a right one's
_FEWEST = 6  # step sizes a slope is fitted to
# Steps are 2**-k times the first: down through the range where curvature shows, then far below it, where only a
# wrong slope can stand above the floor.
_HALVINGS = np.r_[np.arange(34), np.arange(64, 64 + _FEWEST)]
_ABOVE = 8.0  # a remainder counts when it exceeds the noise floor this many times
_BEYOND = 1.25  # and contradicts the gradient when it exceeds the bound of rounding errors this many times
_SIGMAS = 6.0  # of a sum of errors with random signs (Hoeffding: exceeded with probability 3e-8)
_WORTH = 0.01  # a pass that would have missed an error of 1 % of the gradient is no pass
_TINY = 1e-290  # below, float64 loses digits
_EXTENDED_LIMIT = 3e7  # multiplications above which long double is too slow


@dataclass(frozen=True)
class SlopeVerdict:
    """Verdict on a gradient from the slope of the Taylor remainder.

    `detection_power` is the smallest relative error of <g, D> that would have been detected (inf if <g, D> is 0);
    `steps`, `remainders` and `floor` serve plots.
    """

    status: Status
    slope: float
    steps_used: int
    detection_power: float
    reason: str
    steps: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    remainders: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    floor: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)


class Known(NamedTuple):
    """Rounding errors of the gradient judged, entry by entry in one vector.

    `bound` is the largest possible error (by default the running-error bound in the gradient's precision), `usual` the
    typical one (by default `bound`), `norm` the error of all entries together in the Frobenius norm. `scale` is the
    factor on the loss.
    """

    scale: float = 1.0
    bound: ArrayLike | None = None
    usual: ArrayLike | None = None
    norm: float = np.inf


def taylor_slope(
    M: ArrayLike,
    gradient: ArrayLike,
    direction: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    *,
    scale: float = 1.0,
) -> SlopeVerdict:
    """Judge `gradient` along one direction.

    Parameters
    ----------
    M, W : (d, d) arrays
    gradient : (d, d) array
        Claimed gradient of ``scale * L`` at M.
    direction : (d, d) array
    X : (n, d) or (k, n, d) array
    lam : float
    mask : None, "causal" or (n, n) of 0 and 1
    scale : float
        The factor on the loss whose gradient is given.

    Returns
    -------
    SlopeVerdict

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> X, W, M = np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2))
    >>> from attnprune_verify.oracle import loops
    >>> right = loops.gradient(fused(M, X, W))[0]
    >>> taylor_slope(M, right, [[1, 0], [0, 0]], X, W).status
    'passed'
    >>> taylor_slope(M, 1.001 * right, [[1, 0], [0, 0]], X, W).status
    'failed'
    """
    return slope(fused(M, X, W, lam, mask), [gradient], [direction], Known(scale))


def taylor_verdict(
    M: ArrayLike,
    gradient: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    *,
    rng: np.random.Generator,
    directions: int = 4,
    scale: float = 1.0,
) -> SlopeVerdict:
    """Judge `gradient` along itself (sees any error of its length) and along random directions of entries +-1.

    Entries of +-1 hide no single wrong entry. Failed along one direction is failed; passed needs one direction that
    would have shown an error of 1 %, and none that failed. A gradient that is exactly 0 passes where the loss is
    exactly constant along every direction tried.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle import loops
    >>> X, W, M = np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2))
    >>> right = loops.gradient(fused(M, X, W))[0]
    >>> taylor_verdict(M, right, X, W, rng=np.random.default_rng(0)).status
    'passed'
    """
    return verdict(fused(M, X, W, lam, mask), [gradient], rng=rng, directions=directions, known=Known(scale))


def slope(
    at: OracleInput, gradient: Sequence[ArrayLike], direction: Sequence[ArrayLike], known: Known | None = None
) -> SlopeVerdict:
    """`taylor_slope` for any problem."""
    return _slopes(at, gradient, [at.flat(direction)], known or Known(), random_signs=False)[0]


def verdict(
    at: OracleInput,
    gradient: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    directions: int = 4,
    known: Known | None = None,
) -> SlopeVerdict:
    """`taylor_verdict` for any problem."""
    given = at.flat(gradient)
    if not np.isfinite(given).all():
        return SlopeVerdict("failed", np.nan, 0, np.nan, "the gradient has entries that are not finite")
    known, largest = known or Known(), np.abs(given).max()
    verdicts = []
    if largest > 0:
        verdicts += _slopes(at, gradient, [np.asarray(given / largest)], known, random_signs=False)
    signs: list[_Array] = [rng.choice([-1.0, 1.0], size=given.shape) for _ in range(directions - len(verdicts))]
    verdicts += _slopes(at, gradient, signs, known, random_signs=True)
    return _together(verdicts, bool(largest == 0))


def cost(at: OracleInput) -> float:
    """Nominal seconds along one direction: 40 steps with an exponential and a dozen products each, in long double."""
    return 4e-6 * at.logits


def judge(claim: GradientClaim) -> OracleVerdict:
    """Judge along the gradient and three directions of random signs; along the gradient alone if costs are high."""
    count = 4 if 4 * cost(claim.at) < claim.effort else 1
    known = Known(bound=claim.bound, usual=claim.fine.entries, norm=claim.fine.norm)
    parts = claim.at.parted(claim.given)
    found = verdict(claim.at, parts, rng=claim.rng, directions=count, known=known)
    short = math.nan if math.isnan(found.slope) else max(0.0, 2 - found.slope)
    seen = found.detection_power
    power = f", enough to detect a relative error of {seen:.1g}" if seen < 1 else ""
    note = f"{found.reason}; {count} direction{'s'[: count - 1]}{power}"
    if found.status == "passed" and math.isnan(short):
        short = 0.0  # a constant loss
    return OracleVerdict("taylor-slope", found.status, short, 2 - THRESHOLD, note)


def _together(verdicts: Sequence[SlopeVerdict], zero: bool) -> SlopeVerdict:
    by_slope = sorted(verdicts, key=lambda verdict: np.inf if np.isnan(verdict.slope) else verdict.slope)
    failed = [verdict for verdict in by_slope if verdict.status == "failed"]
    if failed:
        return failed[0]
    if zero and all((verdict.remainders == 0).all() for verdict in verdicts):
        reason = "the loss is constant along every direction tried, and the gradient is exactly 0"
        return _with(verdicts[0], "passed", reason, 0.0)
    passed = [verdict for verdict in by_slope if verdict.status == "passed"]
    if not passed:
        return verdicts[0]
    power = min(verdict.detection_power for verdict in passed)
    if _WORTH < power < 1:
        reason = f"rounding hides errors of the gradient below {power:.1g} of its size"
        return _with(passed[0], "inconclusive", reason, power)
    reason = passed[0].reason if power < 1 else "second order, and the gradient is zero within rounding"
    return _with(passed[0], "passed", f"{reason} ({len(passed)} of {len(verdicts)} directions decided)", power)


def _with(verdict: SlopeVerdict, status: Status, reason: str, power: float) -> SlopeVerdict:
    return SlopeVerdict(
        status, verdict.slope, verdict.steps_used, power, reason, verdict.steps, verdict.remainders, verdict.floor
    )


def _slopes(
    at: OracleInput, gradient: Sequence[ArrayLike], directions: Sequence[_Array], known: Known, random_signs: bool
) -> list[SlopeVerdict]:
    given = at.flat(gradient)
    rough = 2.0**-24 if np.asarray(gradient[0]).dtype == np.float32 else 2.0**-53
    at = at.floats()
    kind = np.longdouble if at.products <= _EXTENDED_LIMIT else np.float64
    own_unit, unit = float(np.finfo(kind).eps) / 2, 2.0**-53
    own = gradient_error(at, unit)
    if known.bound is None:
        at_most = own if rough == unit else gradient_error(at, rough)
        at_most = at_most + 4 * rough * np.abs(given / known.scale)
    else:
        at_most = np.asarray(known.bound, dtype=np.float64) / abs(known.scale)
    usually = at_most if known.usual is None else np.asarray(known.usual, dtype=np.float64) / abs(known.scale)
    # Here the direction's logits are summed over d features where the gradient sums over n tokens: hence 1 + d / n.
    # The bound is at least linear in the unit roundoff, so it may be scaled to a smaller one.
    _, n, d = at.samples.shape
    ours = own * (own_unit / unit) * 4 * (1 + d / n) + 4 * own_unit * np.abs(given / known.scale)
    verdicts = []
    for direction, steps, gaps in differences(at, directions, _HALVINGS, kind):
        slope_given = np.multiply(given, direction, dtype=kind).sum() / kind(known.scale)
        remainders = np.abs(gaps - steps * slope_given).astype(np.float64)
        size, hs = np.abs(direction).astype(np.float64), steps.astype(np.float64)
        own_noise = float((size * ours).sum())
        together = known.norm / abs(known.scale) * (1.0 if random_signs else math.hypot(*size))
        floor = hs * (min(_sum(size * usually, random_signs), together) + own_noise)
        limit = hs * (_sum(size * at_most, random_signs) + own_noise)
        verdicts.append(_judge(hs, remainders, floor, limit, abs(float(slope_given))))
    return verdicts


def _sum(errors: NDArray[np.float64], random_signs: bool) -> float:
    """Bound a sum of errors of at most these sizes; random signs are drawn after the errors were made."""
    plain = float(errors.sum())
    return min(plain, _SIGMAS * math.hypot(*errors.ravel())) if random_signs else plain


def _judge(
    steps: NDArray[np.float64],
    remainders: NDArray[np.float64],
    floor: NDArray[np.float64],
    limit: NDArray[np.float64],
    known: float,
) -> SlopeVerdict:
    seen = min(_ABOVE * floor[0], max(_BEYOND * limit[0], floor[0])) / steps[0]
    with np.errstate(over="ignore"):  # a slope of 1e-320: any error that is seen is infinitely large beside it
        power = float(seen / known) if known > 0 else np.inf
    last = slice(len(steps) - _FEWEST, len(steps))
    if (remainders[last] > _BEYOND * limit[last]).all() and remainders[-1] > _TINY:
        slope = _fit(steps[last], remainders[last])
        if slope < THRESHOLD:
            reason = "the remainder is of first order down to the smallest step"
            return SlopeVerdict("failed", slope, _FEWEST, power, reason, steps, remainders, floor)
    usable = np.isfinite(remainders) & (remainders > _ABOVE * floor) & (remainders > _TINY)
    used = np.flatnonzero(usable)[-_FEWEST:]  # the smallest; steps decrease
    if len(used) < _FEWEST:
        reason = f"only {len(used)} of {len(steps)} step sizes stand above the noise floor, {_FEWEST} are needed"
        return SlopeVerdict("inconclusive", np.nan, len(used), power, reason, steps, remainders, floor)
    slope = _fit(steps[used], remainders[used])
    if slope >= THRESHOLD:
        return SlopeVerdict(
            "passed", slope, _FEWEST, power, "the remainder is of second order", steps, remainders, floor
        )
    # Either a correct gradient whose remainder changes sign here, or an error that rounding might just explain.
    reason = "the remainder falls slowly, but rounding errors might explain it"
    return SlopeVerdict("inconclusive", slope, _FEWEST, power, reason, steps, remainders, floor)


def _fit(steps: NDArray[np.float64], remainders: NDArray[np.float64]) -> float:
    return float(np.polyfit(np.log(steps), np.log(remainders), 1)[0])
