"""The slope of the Taylor remainder |L(M + hD) - L(M) - h <g, D>| in h: 2 if g is the gradient along D, 1 if it is not.

The differences of the literal loss are evaluated without cancellation: with dz = X((hD)*W)X^T and e = expm1(dz),
F(M + hD) - F(M) = F*(e - (F*e)1) / (1 + (F*e)1), which follows from the definition of the softmax alone. So the
remainder is known to a relative precision at every step size, and the noise floor is linear in h: h times what
rounding may have done to <g, D> (in the implementation judged, and here).

* **failed**: at the six smallest step sizes the remainder stands above the noise floor and its slope is below 1.5.
  A wrong gradient always ends there, because its remainder is linear in h for small h.
* **passed**: at least six step sizes stand above the floor and the slope of the six smallest of them is at least 1.5.
* **inconclusive**: anything else; e.g. a flat or exactly linear loss, or a saturated softmax.

The verdict does not depend on the scale of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.inputs import Floats, floats
from attnprune_verify.oracle.running_error import gradient_bound

__all__ = ["SlopeVerdict", "taylor_slope", "taylor_verdict"]

Status: TypeAlias = Literal["passed", "failed", "inconclusive"]
_Array: TypeAlias = NDArray[np.floating[Any]]

THRESHOLD = 1.5
_FEWEST = 6  # step sizes a slope is fitted to
_STEPS = 40  # powers of two
_ABOVE = 8.0  # a remainder counts when it exceeds the noise floor this many times
_WORTH = 0.01  # a pass that would have missed an error of 1 % of the gradient is no pass
_BLOCK = 2**18  # logits per row block
_EXTENDED_LIMIT = 4e8  # multiplications above which long double is too slow


@dataclass(frozen=True)
class SlopeVerdict:
    """What the remainder's slope says about a gradient.

    `detection_power` is the smallest relative error of <g, D> that would have been seen (inf where <g, D> is 0);
    `steps`, `remainders` and `floor` are there to be plotted.
    """

    status: Status
    slope: float
    steps_used: int
    detection_power: float
    reason: str
    steps: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    remainders: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    floor: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)


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
    tolerance: ArrayLike | None = None,
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
    tolerance : (d, d) array, optional
        What rounding may have done to `gradient`, entry by entry; by default the running-error bound in the
        precision of `gradient`.

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
    >>> from attnprune_verify.oracle.loops import gradient
    >>> taylor_slope(M, gradient(M, X, W), [[1, 0], [0, 0]], X, W).status
    'passed'
    >>> taylor_slope(M, 1.001 * gradient(M, X, W), [[1, 0], [0, 0]], X, W).status
    'failed'
    """
    return _slopes(M, gradient, [np.asarray(direction)], X, W, lam, mask, scale, tolerance)[0]


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
    tolerance: ArrayLike | None = None,
) -> SlopeVerdict:
    """Judge `gradient` along itself (sees any error of its length) and along random directions of entries +-1.

    Entries of +-1 hide no single wrong entry. Failed along one direction is failed; passed needs one direction that
    would have shown an error of 1 %, and none that failed. A gradient that is exactly 0 passes where the loss is
    exactly constant along every direction tried.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.loops import gradient
    >>> X, W, M = np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2))
    >>> taylor_verdict(M, gradient(M, X, W), X, W, rng=np.random.default_rng(0)).status
    'passed'
    """
    given = np.asarray(gradient, dtype=np.float64)
    if not np.isfinite(given).all():
        return SlopeVerdict("failed", np.nan, 0, np.nan, "the gradient has entries that are not finite")
    tried = [rng.choice([-1.0, 1.0], size=given.shape) for _ in range(directions)]
    largest = np.abs(given).max()
    if largest > 0:
        tried[0] = given / largest
    verdicts = _slopes(M, gradient, tried, X, W, lam, mask, scale, tolerance)
    return _together(verdicts, bool(largest == 0))


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
    M: ArrayLike,
    gradient: ArrayLike,
    directions: Sequence[_Array],
    X: ArrayLike,
    W: ArrayLike,
    lam: float,
    mask: MaskLike,
    scale: float,
    tolerance: ArrayLike | None,
) -> list[SlopeVerdict]:
    problem = floats(X, mask, M=M, W=W, gradient=gradient)
    pruning, weight, given = problem.arrays
    k, n, d = problem.samples.shape
    kind = np.longdouble if k * n * n * d <= _EXTENDED_LIMIT else np.float64
    own_unit, unit = float(np.finfo(kind).eps) / 2, 2.0**-53
    own = gradient_bound(pruning, X, weight, lam, mask, unit)
    if tolerance is None:
        rough = np.asarray(gradient).dtype == np.float32
        allowed_error = gradient_bound(pruning, X, weight, lam, mask, 2.0**-24) if rough else own
        allowed_error = allowed_error + 4 * (2.0**-24 if rough else unit) * np.abs(given / scale)
    else:
        allowed_error = np.asarray(tolerance, dtype=np.float64) / abs(scale)
    # Here the direction's logits are summed over d features where the gradient sums over n tokens: hence 1 + d / n.
    # The bound is at least linear in the unit roundoff, so it may be scaled to a smaller one.
    noise = allowed_error + own * (own_unit / unit) * 4 * (1 + d / n)
    verdicts = []
    for direction, steps, differences in _differences(problem, directions, lam, kind):
        slope_given = (given.astype(kind) * np.asarray(direction, dtype=kind)).sum() / kind(scale)
        remainders = np.abs(differences - steps * slope_given).astype(np.float64)
        size = np.abs(direction).astype(np.float64)
        floor = np.asarray(
            steps.astype(np.float64) * float((noise * size).sum() + 4 * own_unit * (np.abs(given / scale) * size).sum())
        )
        verdicts.append(_judge(steps.astype(np.float64), remainders, floor, abs(float(slope_given))))
    return verdicts


def _judge(
    steps: NDArray[np.float64], remainders: NDArray[np.float64], floor: NDArray[np.float64], known: float
) -> SlopeVerdict:
    power = float(_ABOVE * floor[0] / steps[0] / known) if known > 0 else np.inf
    usable = np.isfinite(remainders) & (remainders > _ABOVE * floor) & (remainders > 1e-290)
    used = np.flatnonzero(usable)[-_FEWEST:]  # the smallest; steps decrease
    if len(used) < _FEWEST:
        reason = f"only {len(used)} of {len(steps)} step sizes stand above the noise floor, {_FEWEST} are needed"
        return SlopeVerdict("inconclusive", np.nan, len(used), power, reason, steps, remainders, floor)
    slope = float(np.polyfit(np.log(steps[used]), np.log(remainders[used]), 1)[0])
    status: Status
    if slope >= THRESHOLD:
        status, reason = "passed", "the remainder is of second order"
    elif used[0] == len(steps) - _FEWEST:
        status, reason = "failed", "the remainder is of first order down to the smallest step"
    else:  # a correct gradient whose remainder changes sign among the usable steps
        status, reason = "inconclusive", "the remainder falls irregularly and meets the noise floor"
    return SlopeVerdict(status, slope, len(used), power, reason, steps, remainders, floor)


def _differences(
    problem: Floats, directions: Sequence[_Array], lam: float, kind: type[np.floating[Any]]
) -> list[tuple[_Array, _Array, _Array]]:
    """For each direction D: D, the step sizes h (decreasing powers of two) and L(M + hD) - L(M)."""
    pruning, weight = (array.astype(kind) for array in problem.arrays[:2])
    samples = problem.samples.astype(kind)
    lines = [np.asarray(direction).astype(kind) for direction in directions]
    steps = [_steps(line, line * weight, samples) for line in lines]
    misfits = np.zeros((len(lines), _STEPS), dtype=kind)
    n = len(problem.allowed)
    width = max(1, _BLOCK // n)
    for tokens in samples:
        keys, dense_keys = (pruning * weight) @ tokens.T, weight @ tokens.T
        moves = [(line * weight) @ tokens.T for line in lines]
        for start in range(0, n, width):
            rows, positions = tokens[start : start + width], problem.allowed[start : start + width]
            f = _softmax(rows @ keys, positions)
            c = f - _softmax(rows @ dense_keys, positions)
            for misfit, move, hs in zip(misfits, moves, steps, strict=True):
                dz = np.where(positions, rows @ move, 0)
                dz = np.where(positions, dz - (f * dz).sum(axis=1, keepdims=True), 0)
                for index, h in enumerate(hs):
                    e = np.expm1(h * dz)
                    mean = (f * e).sum(axis=1, keepdims=True)
                    change = f * (e - mean) / (1 + mean)
                    misfit[index] += (change * (c + change / 2)).sum()
    found = []
    for line, hs, misfit in zip(lines, steps, misfits, strict=True):
        regular = kind(lam) * (hs * (pruning * line).sum() + hs**2 * (line * line).sum() / 2)
        found.append((line, hs, misfit / len(samples) + regular))
    return found


def _steps(line: _Array, move: _Array, samples: _Array) -> _Array:
    """Powers of two downwards from where the logits move by about 1 (or M by about 1, if they hardly move)."""
    reach = np.abs(line).max()
    for tokens in samples:
        lengths = np.sqrt((tokens**2).sum(axis=1)).max()
        reach = max(reach, np.sqrt(((tokens @ move) ** 2).sum(axis=1)).max() * lengths)
    first = np.exp2(-np.ceil(np.log2(reach))) if 0 < reach < np.inf else np.ones((), dtype=line.dtype)
    return np.asarray(first * np.exp2(-np.arange(_STEPS, dtype=line.dtype)))


def _softmax(logits: _Array, positions: NDArray[np.bool_]) -> _Array:
    shift = np.max(np.where(positions, logits, -np.inf), axis=1, keepdims=True)
    weights = np.exp(np.where(positions, logits - shift, -np.inf))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
