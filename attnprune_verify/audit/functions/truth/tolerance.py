"""Right or wrong relative to the instance: passed, failed, suspect or inconclusive, by rounding-error analysis.

1. The truth is an enclosure by ball arithmetic, on the exact numbers the implementation received.
2. *failed*: something is not finite, or off by more than the running-error bound B in some entry.
3. *inconclusive*: the resolution ``T = min(||B||, K (spread + u ||g||))`` is coarser than 1 % of ||g||, where spread is
   the error of a trusted implementation in the same precision over random orders of summation.
4. *passed* within T; *suspect* (within B, beyond T) counts as failed on benign instances and is only noted on
   stability instances, where correct formulas differ more among each other than orders of summation do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.layer.sample import LayerSample
from attnprune_verify.audit.functions.truth.formulas import RIGHT, Array, attention_part
from attnprune_verify.audit.functions.truth.reference import Component, reference, spread
from attnprune_verify.audit.functions.truth.samples import Sample

# CHECKING's K = 10 was calibrated on NumPy alone; log-sum-exp, blocked, torch and jax styles need the rest
# (tests/audit/test_calibration.py measures the largest error of right implementations in units of spread + u ||g||).
RESOLUTION_FACTOR = 30.0
COARSE = 0.01  # chosen: one hundredth of the result is the least that a verdict must see
_NORMWISE, _MOST_NORMWISE = 4.0, 64.0  # chosen: room for a decomposition of the weights, and its limit
_FAR = 4.0  # times the resolution: what is wrong by most of itself is wrong, however coarse the look

# Formats of 16 bits round what is stored, and nothing else: fewer roundings, each of half a percent.
_SHORT, _FACTOR_16, _COARSE_16 = 2.0**-20, 6.0, 0.25

Verdict = Literal["passed", "failed", "suspect", "inconclusive"]


@dataclass(frozen=True)
class ValueJudgement:
    """The verdict on one returned value.

    Attributes
    ----------
    error, bound : float
        The largest error and the bound in that entry.
    resolution : float
        The smallest relative error, in norm, that would have been noticed: the detection power.
    """

    verdict: Verdict
    error: float
    bound: float
    resolution: float
    reason: str


def judge(function: str, sample: Sample, parts: tuple[NDArray[Any], ...], *, stability: bool = False) -> ValueJudgement:
    """Judge what `function` returned on `sample`; the worst of its parts decides."""
    truth = reference(function, sample)
    verdicts = [
        compare(part, component, spread(function, sample)[index], sample.unit_roundoff, sample.n, stability=stability)
        for index, (part, component) in enumerate(zip(parts, truth, strict=True))
    ]
    verdicts = [_normwise(function, sample, one) for one in verdicts]
    worst = max(verdicts, key=lambda one: (_RANK[one.verdict], one.resolution))
    names = FUNCTIONS[function].part_names
    wrong = [name for name, one in zip(names, verdicts, strict=False) if one.verdict == worst.verdict]
    reason = (
        f"{' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong: {worst.reason}" if names else worst.reason
    )
    reason = reason if _RANK[worst.verdict] > 1 else worst.reason
    return ValueJudgement(worst.verdict, worst.error, worst.bound, max(one.resolution for one in verdicts), reason)


def _normwise(function: str, sample: Sample, one: ValueJudgement) -> ValueJudgement:
    """A result just beyond the entrywise bound decides nothing: a program may be stable in norm only."""
    if one.verdict != "failed" or not one.error <= normwise_factor(function, sample) * one.bound:
        return one
    reason = (
        f"off by {one.error:.3g} where entrywise rounding explains {one.bound:.3g}, as code may be that is stable in "
        "norm only (logits through a decomposition of the weights)"
    )
    return replace(one, verdict="inconclusive", reason=reason)


def normwise_factor(function: str, sample: Sample) -> float:
    """Return the factor of errors of logits that are small next to ||x_i|| ||A|| ||x_j||, not |x_i||A||x_j|."""
    key = ("normwise", function.startswith(("factored", "layer")))
    if key not in sample.memo:
        X = sample.X.astype(float)
        if isinstance(sample, LayerSample):
            fused = _fused_heads(sample)
        elif key[1]:
            query, mask = sample.W_Q.astype(float), sample.M_Q
            fused = [query @ sample.W_K.T.astype(float), (mask * query) @ (sample.M_K * sample.W_K).T.astype(float)]
        else:
            fused = [sample.W.astype(float), sample.M * sample.W.astype(float)]
        norms = np.linalg.norm(X, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = [
                norms[..., :, None] * norms[..., None, :] * np.linalg.norm(A)
                / (np.abs(X) @ np.abs(A) @ np.swapaxes(np.abs(X), -1, -2))
                for A in fused
            ]  # fmt: skip
        finite = [ratio[np.isfinite(ratio)] for ratio in ratios]
        sample.memo[key] = _NORMWISE * max((float(ratio.max(initial=1.0)) for ratio in finite), default=1.0)
    found: float = sample.memo[key]
    return min(found, _MOST_NORMWISE)


def _fused_heads(sample: LayerSample) -> list[NDArray[np.float64]]:
    """The fused weight of every head, dense and pruned."""
    m, group = sample.m, sample.heads // sample.kv_heads
    pairs = (
        [W.astype(float) for W in (sample.W_Q, sample.W_K)],
        [M * W.astype(float) for M, W in ((sample.M_Q, sample.W_Q), (sample.M_K, sample.W_K))],
    )
    return [
        query[:, h * m : (h + 1) * m] @ key[:, h // group * m : (h // group + 1) * m].T
        for query, key in pairs
        for h in range(sample.heads)
    ]


def resolution_factor(unit_roundoff: float) -> float:
    """K in the resolution K (spread + u ||g||)."""
    return _FACTOR_16 if unit_roundoff > _SHORT else RESOLUTION_FACTOR


_RANK: dict[Verdict, int] = {"passed": 0, "inconclusive": 1, "suspect": 2, "failed": 3}


def compare(
    part: NDArray[Any],
    truth: Component,
    spread_of_trusted: float,
    unit_roundoff: float,
    tokens: int,
    *,
    stability: bool = False,
) -> ValueJudgement:
    """Compare one array, of the right shape, with its enclosure."""
    size = float(np.linalg.norm(truth.value))
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.maximum(np.abs(np.asarray(part, dtype=np.float64) - truth.value) - truth.radius, 0.0)
    # The value is stored in the precision of the implementation: half a unit of that is nobody's fault.
    bound = truth.bound + unit_roundoff * np.abs(truth.value)
    # n^2 additions one after the other wander about n roundings away.
    scale = resolution_factor(unit_roundoff) * (spread_of_trusted + unit_roundoff * size * max(1.0, tokens / 8))
    resolution = min(float(np.linalg.norm(bound)), scale)
    power = resolution / size if size > 0 else np.inf
    wrong = ~(errors <= bound)
    if wrong.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(wrong, np.nan_to_num(errors / bound, nan=np.inf), -1.0)
        where = np.unravel_index(int(np.argmax(excess)), wrong.shape)
        got, error, allowed = np.asarray(part)[where], float(errors[where]), float(bound[where])
        place = f" at {tuple(int(i) for i in where)}" if wrong.ndim else ""
        if not np.isfinite(got):
            return ValueJudgement("failed", np.inf, allowed, power, f"returns {got}{place}")
        return ValueJudgement(
            "failed",
            error,
            allowed,
            power,
            f"off by {error:.3g}{place} ({_relative(error, size)} of the norm), where rounding explains {allowed:.3g}; "
            f"{np.count_nonzero(wrong)} of {wrong.size} entries are wrong",
        )
    total = float(np.linalg.norm(errors))
    if size == 0:  # no error is relative to 0: the rounding bound decides
        said = "exactly zero" if total == 0 else "zero, up to rounding"
        return ValueJudgement("passed", total, float(np.max(bound, initial=0.0)), 0.0, said)
    coarse = _COARSE_16 if unit_roundoff > _SHORT else COARSE
    if not resolution <= coarse * size:
        if total > max(0.5 * size, _FAR * resolution) and not stability:
            reason = f"suspect: off by {_relative(total, size)} of the norm, with a resolution of {power:.2g}"
            return ValueJudgement("suspect", total, resolution, power, reason)
        return ValueJudgement(
            "inconclusive",
            total,
            resolution,
            power,
            f"the resolution {resolution:.3g} is coarser than {coarse:.0%} of {size:.3g}",
        )
    if total > resolution and not stability:
        return ValueJudgement(
            "suspect",
            total,
            resolution,
            power,
            f"suspect: off by {total:.3g} in norm, within the rounding bound where correct code shows {resolution:.3g}",
        )
    return ValueJudgement("passed", total, resolution, power, "")


def _relative(error: float, size: float) -> str:
    return f"{error / size:.2g}" if size > 0 else "inf"


_ROOM = 10.0  # chosen: a term shows where it is so many times the resolution


def hidden_terms(function: str, decided: list[Sample]) -> str | None:
    """The name of a term that no decided instance shows well above its resolution, or None."""
    names = set().union(*(_terms(function, sample) for sample in decided)) if decided else set()
    for name in sorted(names):
        if not any(_shows(function, sample, name) for sample in decided):
            return name
    return None


def _shows(function: str, sample: Sample, name: str) -> bool:
    parts = _terms(function, sample).get(name, ())
    truth, noise = reference(function, sample), spread(function, sample)
    room = (1.0 if sample.precision.short else _ROOM) * resolution_factor(sample.unit_roundoff)
    return all(
        np.linalg.norm(part) > room * (noise[index] + sample.unit_roundoff * float(np.linalg.norm(truth[index].value)))
        for index, part in enumerate(parts)
    )


def _terms(function: str, sample: Sample) -> dict[str, tuple[Array, ...]]:
    key = ("terms", function)
    if key not in sample.memo:
        whole = tuple(part.value for part in reference(function, sample))
        attention = attention_part(function, sample, RIGHT)
        terms = {"the attention part": attention}
        if sample.lam > 0 and not function.endswith(("attention", "relative_error")):
            terms["the regulariser"] = tuple(a - b for a, b in zip(whole, attention, strict=True))
        if "gradient" in function or "hessian" in function:
            uncorrected = attention_part(function, sample, {**RIGHT, "p": lambda c, F, dense: c * F})
            terms["the softmax correction"] = tuple(a - b for a, b in zip(attention, uncorrected, strict=True))
        if function == "loss_and_gradient":
            terms["the softmax correction"] = (attention[0], terms["the softmax correction"][1])
        sample.memo[key] = terms
    found: dict[str, tuple[Array, ...]] = sample.memo[key]
    return found
