"""Right, wrong or undecidable: what was returned against the truth, with the errors of an honest kernel.

1. *failed*: not finite, or off by more than an honest kernel can be, in some entry.
2. *failed*: on random inputs, off by more than `ENTRY` times the typical error in an entry, or in the norm of a head by
   more than `NORM` times: honest roundings are independent there, a systematic error is not.
3. *inconclusive*: what is allowed exceeds `COARSE` of the value's norm; the condition number says how much rounding
   is magnified by this instance.
4. *passed* otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.truth import Value, truth

# Honest kernels reach at most 0.57 of these (docs/kernels.md, tests/audit/kernel/test_bounds.py).
NORM, ENTRY = 2.0, 6.0
COARSE = 0.25  # chosen: an instance that may move a result by a quarter of its norm decides nothing
_SQUARED = 1e-140  # chosen: squares of smaller errors come near 2.2e-308, where float64 underflows


@dataclass(frozen=True)
class KernelVerdict:
    """The verdict on one returned array, or on all arrays of a call.

    Attributes
    ----------
    error, bound : float
        The largest error (in an entry, or in norm) and what is allowed there.
    power : float
        The smallest relative error, in norm, that would have been noticed.
    """

    status: Literal["passed", "failed", "inconclusive"]
    part: str
    error: float
    bound: float
    power: float
    reason: str = ""


def judge(
    function: str, sample: KernelSample, parts: tuple[NDArray[Any], ...], precision: KernelPrecision | None = None
) -> KernelVerdict:
    """Judge what a function returned on a sample; the worst of its arrays decides."""
    verdicts = judge_parts(function, sample, parts, precision)
    rank = {"passed": 0, "inconclusive": 1, "failed": 2}
    return max(verdicts, key=lambda verdict: (rank[verdict.status], verdict.power))


def judge_parts(
    function: str, sample: KernelSample, parts: tuple[NDArray[Any], ...], precision: KernelPrecision | None = None
) -> list[KernelVerdict]:
    """Judge every array on its own."""
    precision = precision or sample.precision
    return [
        judge_part(name, part, sample, precision) for name, part in zip(parts_of(function, sample), parts, strict=True)
    ]


def allowed_norms(name: str, sample: KernelSample, precision: KernelPrecision | None = None) -> Array:
    """The allowed error of each head in the norm, (batch, heads)."""
    errors = attention_errors(sample, precision)
    with np.errstate(over="ignore"):
        worst = of_heads(errors.worst[name])
        if not sample.generic:
            return worst
        typical = of_heads(errors.typical[name])
    entries = int(np.prod(errors.worst[name].shape[-2:]))
    return np.asarray(np.minimum(worst, (NORM + (ENTRY - NORM) / np.sqrt(entries)) * typical))


def allowed_entries(name: str, sample: KernelSample, precision: KernelPrecision | None = None) -> Array:
    """Largest error allowed in each entry."""
    errors = attention_errors(sample, precision)
    worst, typical = errors.worst[name], errors.typical[name]
    # below, squares have underflowed
    return np.where(typical > _SQUARED, np.minimum(worst, ENTRY * typical), worst) if sample.generic else worst


def of_heads(array: Array) -> Array:
    """The norm of each head, (batch, heads); of all at once where there are no matrices."""
    if array.ndim < 3:
        return np.asarray([[np.linalg.norm(array)]])
    return np.asarray(np.linalg.norm(array, axis=(-2, -1) if array.ndim == 4 else -1))


def judge_part(
    name: str, part: NDArray[Any], sample: KernelSample, precision: KernelPrecision | None = None
) -> KernelVerdict:
    """Judge one array."""
    precision = precision or sample.precision
    true: Value = truth(sample)[name]
    got = np.asarray(part, dtype=np.float64)
    nothing = np.isneginf(true.value)  # log sum exp of a row that may see nothing
    value = np.where(nothing, 0.0, true.value)
    with np.errstate(invalid="ignore", over="ignore"):
        infinite = got == sample.conventions.empty_logarithm
        off = np.where(
            nothing & (np.isfinite(got) if sample.conventions.empty_lse == "finite" else infinite),
            0.0,
            np.maximum(np.abs(got - true.value) - true.radius, 0.0),
        )
    size = of_heads(value)
    size = np.where(size <= 2 * of_heads(true.radius), 0.0, size)
    norms = allowed_norms(name, sample, precision)
    power = _power(norms, size)
    bound = allowed_entries(name, sample, precision)
    if not (off <= bound).all():
        return _wrong_entry(name, got, off, bound, power)
    total = of_heads(off)
    if (total > norms).any():
        where = np.unravel_index(int(np.argmax(total / norms)), norms.shape)
        times = total[where] / norms[where]
        place = f"batch {where[0]}, head {where[1]}" if off.ndim > 2 else "all of it"
        reason = f"{name} is off by {total[where]:.3g} in norm ({place}), {times:.1f} times what rounding explains"
        return KernelVerdict("failed", name, float(total[where]), float(norms[where]), power, reason)
    error, allowed = float(np.max(total)), float(np.max(norms))
    if power > COARSE:
        condition = power / precision.unit
        reason = f"{name} is ill-conditioned in {precision.name}: condition number {condition:.2g}, so that rounding "
        reason += f"alone may move it by {power:.2g} of its norm"
        return KernelVerdict("inconclusive", name, error, allowed, power, reason)
    return KernelVerdict("passed", name, error, allowed, power)


def _power(norms: Array, size: Array) -> float:
    """The relative error that would have been noticed in the worst head; in heads that are exactly 0 any error is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(size > 0, norms / size, 0.0)
    return float(np.max(ratio))


def _wrong_entry(name: str, got: Array, off: Array, bound: Array, power: float) -> KernelVerdict:
    wrong = ~(off <= bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(wrong, np.nan_to_num(off / bound, nan=np.inf), -1.0)
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), wrong.shape))
    count = f"{np.count_nonzero(wrong)} of {wrong.size} entries are wrong"
    if not np.isfinite(got[where]):
        return KernelVerdict(
            "failed", name, np.inf, float(bound[where]), power, f"{name}{list(where)} is {got[where]}; {count}"
        )
    reason = f"{name}{list(where)} is off by {off[where]:.3g}, where rounding explains {bound[where]:.3g}; {count}"
    return KernelVerdict("failed", name, float(off[where]), float(bound[where]), power, reason)
