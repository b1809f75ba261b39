"""Is this gradient descent on the pruning mask? Iterates against the closed form, the rounded mask against the iterate.

The iterates of a short descent with a given step are compared with those of the library's gradient in float64; the
instances are benign, so that rounding stays rounding over these few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnprune_verify.audit.functions.checks.descent_mistakes import (
    CLOSE,
    ETA,
    RHO,
    STEPS,
    close,
    descend,
    first_wrong_step,
    gradient_of,
    kept,
    named,
    named_by_first,
    named_long,
    of_momentum,
    rounded_other,
    tolerance,
)  # fmt: skip
from attnprune_verify.audit.functions.checks.inputs import keeping_checks
from attnprune_verify.audit.functions.checks.selection import Selection, judge_zeros
from attnprune_verify.audit.functions.checks.smaller import check, shrunk
from attnprune_verify.audit.functions.checks.structure import TIMES, precision_check
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.formulas import Array
from attnprune_verify.audit.functions.truth.precision import FLOAT32
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.naming.shrink import fewer
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.model.functions import loss

_F = "prune_mask_gd"
_SHORT_STEP = 0.05  # chosen: 257 of them stay on the way, where rounding stays rounding
_TINY = 1e-5  # of ETA: a step moves M by 1e-6, far above rounding to float32 and far below any sensible tolerance


def descent_checks() -> Iterator[Check]:
    """The checks of prune_mask_gd."""

    for name, says, ask in _CHECKS:
        yield check(_F, name, says, ask, required=name in ("iterates:full", "counts"))
    yield precision_check(_F)
    yield check(_F, "deterministic", "equal calls agree", _deterministic)
    yield from keeping_checks(_F)


def _run(context: Context, sample: Sample, **options: Any) -> tuple[Array, Array]:
    """The returned 0/1 mask and the real M."""
    values, keywords = _arguments(sample, **options)
    answer = context.call(_F, values, keywords, where=sample.name)
    return answer.parts[0], answer.parts[1]


def _arguments(sample: Sample, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    rho, lam = options.pop("rho", RHO), options.pop("lam", sample.lam)
    keywords = {"mask": sample.mask, "eta": ETA, "steps": STEPS, "momentum": 0.0, **options}
    return {"X": sample.X, "W": sample.W, "rho": rho, "lam": lam}, keywords


def _call(sample: Sample, expected: tuple[Array, ...] | None = None, **options: Any) -> Call:
    values, keywords = _arguments(sample, **options)
    return Call(_F, values, keywords, expected)


def _wrong(
    sample: Sample, problem: str, M: Array, expected: Array, ids: tuple[str, ...] = (), **options: Any
) -> Finding:
    """The failure of a descent that does not end where it should; `problem` may hold {error}."""
    error = float(np.abs(M - expected).max()) if M.shape == expected.shape else np.inf
    call = _call(sample, (kept(expected), expected), **options)
    reason = f"{problem.format(error=error)}, on {sample.describe()}"
    return Finding("failed", reason, error, tolerance(sample), ids=ids, call=call)


def _start(context: Context, function: str) -> Finding:
    sample = context.samples("full", _F)[1]
    for steps, value in ((0, 1.0), (1, 1.0 - ETA * sample.lam)):
        _, M = _run(context, sample, steps=steps)
        expected = np.full(sample.W.shape, value)
        if M.shape != expected.shape:
            return Finding(
                "failed", f"M has the shape {M.shape}", ids=("wrong-shape",), call=_call(sample, steps=steps)
            )
        if not close(sample, M, expected):
            _, later = _run(context, sample)  # after more steps more mistakes can be told apart
            ids = (
                named(sample, M, steps)
                if close(sample, later, descend(gradient_of(sample), M.shape))
                else named(sample, later, STEPS)
            )
            if ids == ("unknown",) and steps == 0:
                ids = _other_start(context, sample, M)
            if ids == ("unknown",) and steps == 1 and np.ptp(M) <= tolerance(sample):
                ids = named_by_first(sample, later, STEPS, float(1 - M.mean()) / ETA)
            said = f"after {steps} steps M is {M.flat[0]:.6g}, ... instead of {value:.6g} everywhere"
            failure = _wrong(sample, said, M, expected, ids, steps=steps)
            return replace(failure, shrink=partial(_smaller, context, sample, failure.reason))
    return Finding("passed", "M = 1, then 1 - eta lam", power=CLOSE)


def _other_start(context: Context, sample: Sample, M: Array) -> tuple[str, ...]:
    """Return True where the descent goes on rightly from where it starts, or starts somewhere else every time."""
    _, again = _run(context, sample, steps=0)
    _, moved = _run(context, sample, steps=1)
    started = not np.array_equal(M, again) or close(sample, moved, M - ETA * gradient_of(sample)(M))
    return ("initial-mask",) if started else ("unknown",)


def _rising(context: Context, function: str) -> Finding:
    """A step so long that the loss rises is taken all the same: the number of steps and their length are given."""
    sample = context.samples("full", _F)[1].changed(lam=2.25 / ETA)
    found = []
    for steps in (3, 1):
        _, M = _run(context, sample, steps=steps)
        expected = descend(gradient_of(sample), sample.W.shape, steps)
        if close(sample, M, expected):
            continue
        shaped = M.shape == expected.shape
        fitting = (*_stopped(sample, M), *named(sample, M, steps)) if shaped else ("wrong-shape",)
        problem = f"after {steps} steps of {ETA}, along which the loss rises, M is off by {{error:.3g}}"
        found.append(replace(_wrong(sample, problem, M, expected, fitting[:1], steps=steps), fitting=fitting))
    return found[0] if found else Finding("passed", f"3 steps of {ETA} uphill", power=CLOSE)


def _stopped(sample: Sample, M: Array) -> tuple[str, ...]:
    """An earlier iterate was returned."""
    earlier = (descend(gradient_of(sample), sample.W.shape, steps) for steps in range(4))
    return ("ignores-steps",) if any(close(sample, M, one) for one in earlier) else ()


def _iterates(context: Context, function: str, regime: str) -> Finding:
    if regime == "batch":
        try:
            _run(context, context.samples("batch", _F)[0], steps=1)
        except NoAnswer as refusal:
            return Finding("not_applicable", f"takes no batch: it {refusal}")
    for sample in context.samples("lam-large" if regime == "outside-box" else regime, _F):
        if sample.precision != context.precision(_F) or sample.lam * ETA > 2:  # beyond that descent diverges
            continue
        failure = _judged(context, sample, STEPS)
        if failure is not None:
            _, M = _run(context, sample)
            ids = ("wrong-shape",) if M.shape != sample.W.shape else named(sample, M, STEPS)
            return replace(failure, ids=ids, shrink=partial(_smaller, context, sample, failure.reason))
        context.judged_up_to(_F, sample)
    return Finding("passed", f"{STEPS} steps of {ETA}", power=CLOSE)


def _judged(context: Context, sample: Sample, steps: int) -> Finding | None:
    """Compare M after a number of steps with the true one; a failure if they differ."""
    _, M = _run(context, sample, steps=steps)
    expected = descend(gradient_of(sample), sample.W.shape, steps)
    if close(sample, M, expected):
        return None
    return _wrong(sample, f"after {steps} steps of {ETA} M is off by {{error:.3g}}", M, expected, steps=steps)


def _smaller(context: Context, sample: Sample, reason: str, ids: tuple[str, ...]) -> Finding | None:
    """Show the failure on a smaller instance, after fewer steps."""

    def cuts(case: tuple[Sample, int]) -> Iterator[tuple[Sample, int]]:
        one, steps = case
        yield from ((smaller, steps) for smaller in one.cuts(("X", "W")))
        yield from ((one, steps) for steps in fewer(steps))

    return shrunk((sample, STEPS), cuts, lambda case: _judged(context, *case), reason, ids, by_name=False)


def _counts(context: Context, function: str) -> Finding:
    for sample in context.samples("full", _F):
        for rho in (0.45, 0.2, 0.8, 0.97, 0.0, 1.0):
            mask, M = _run(context, sample, rho=rho)
            if M.shape != sample.W.shape:
                return Finding(
                    "failed", f"M has the shape {M.shape}", ids=("wrong-shape",), call=_call(sample, rho=rho)
                )
            problem = judge_zeros(mask, Selection("M", M, rho), M, flags_are_gone=False)
            if problem is not None:
                said, call = f"(rho = {rho}), on {sample.describe()}", _call(sample, (kept(M, rho), M), rho=rho)
                return _rounded(problem, mask, rho, said, call)
    (crossing, *_) = context.samples("lam-large", _F)[-3:]  # an odd number of steps leaves entries below 0
    mask, M = _run(context, crossing, steps=3)
    problem = judge_zeros(mask, Selection("M", M, RHO), M, flags_are_gone=False)
    if problem is not None:
        call = _call(crossing, (kept(M), M), steps=3)
        return _rounded(problem, mask, RHO, f"where M is negative, on {crossing.describe()}", call)
    return Finding("passed", "entry by entry, for six ratios", power=0.0)


def _rounded(problem: tuple[str, tuple[str, ...]], mask: Array, rho: float, where: str, call: Call) -> Finding:
    """The failure of a mask that is not M rounded; with the right count it is another matrix, rounded."""
    reason, (id, *_) = problem
    as_many = int((mask == 0).sum()) == int(rho * mask.size)
    ids = ("mask-of-other-M",) if id == "unknown" and as_many else (id,)
    return Finding("failed", f"{reason} {where}", ids=ids, call=call)


def _ties(context: Context, function: str) -> Finding:
    for sample in context.samples("full", _F)[:2]:
        mask, M = _run(context, sample, steps=0, rho=RHO)
        problem = judge_zeros(mask, Selection("M = 1", M, RHO), M, flags_are_gone=False)
        if problem is not None:
            reason, ids = problem
            ids = rounded_other(sample, M, mask, RHO, 0) or ids
            return Finding(
                "failed",
                f"{reason}, with all of M equal",
                ids=("ties-dropped",) if "ties-dropped" in ids and "keeps-instead-of-prunes" not in ids else ids[:1],
                call=_call(sample, (kept(M), M), steps=0),
            )
    return Finding("passed", "M = 1 is rounded to exactly floor(rho size) zeros", power=0.0)


def _momentum(context: Context, function: str) -> Finding:
    sample = context.samples("full", _F)[1]
    try:
        _, M = _run(context, sample, momentum=0.9, eta=0.1)
    except NoAnswer as refusal:
        return Finding("not_applicable", f"takes no momentum: it {refusal}")
    for form in ("heavy-ball", "ema", "nesterov", "looking ahead"):
        if close(sample, M, descend(gradient_of(sample), sample.W.shape, eta=0.1, momentum=0.9, form=form)):
            return Finding("passed", form, power=CLOSE)
    plain = close(sample, M, descend(gradient_of(sample), sample.W.shape, eta=0.1))
    again = not close(sample, _run(context, sample, momentum=0.9, eta=0.1)[1], M)
    if again:
        ids, call = ("nondeterministic",), _call(sample, momentum=0.9, eta=0.1)
        return Finding("failed", f"two equal calls with momentum differ, on {sample.describe()}", ids=ids, call=call)
    reason = "momentum has no effect" if plain else "no form of momentum gives these iterates"
    heavy = descend(gradient_of(sample), sample.W.shape, eta=0.1, momentum=0.9)
    right = descend(gradient_of(sample), sample.W.shape, eta=0.1)
    told = not plain and close(sample, _run(context, sample, eta=0.1)[1], right)  # else other checks name what is wrong
    why = of_momentum(sample, partial(_moved, context, sample), 0.1, 0.9) if told else ("unknown",)
    return _wrong(sample, reason, M, heavy, why, momentum=0.9, eta=0.1)


def _moved(context: Context, sample: Sample, steps: int) -> Array:
    return _run(context, sample, momentum=0.9, eta=0.1, steps=steps)[1]


def _guarantee(context: Context, function: str) -> Finding:
    for regime in ("full", "causal", "sharp"):
        for sample in context.samples(regime, _F)[:2]:
            _, M = _run(context, sample, eta=None, steps=20)
            X, W = sample.X.astype(float), sample.W.astype(float)
            before, after = (loss(at, X, W, sample.lam, sample.mask) for at in (np.ones(W.shape), M.astype(float)))
            if not after < before * (1 - sample.unit_roundoff):
                moved = "the loss went from" if (M != 1).any() else "M did not move; the loss went from"
                reason = f"{moved} {before:.6g} to {after:.6g} in 20 steps, on {sample.describe()}"
                call = _call(sample, eta=None, steps=20)
                return Finding("failed", reason, after - before, 0.0, ids=("unknown",), call=call)
    return Finding("passed", "the loss fell")


def _long(context: Context, function: str) -> Finding:
    """A counter that wraps, a step that decays, a buffer that fills: what six steps do not show."""
    sample = context.samples("full", _F)[1]
    for steps in (60, 257):
        _, M = _run(context, sample, steps=steps, eta=_SHORT_STEP)
        expected = descend(gradient_of(sample), sample.W.shape, steps=steps, eta=_SHORT_STEP)
        if not close(sample, M, expected):
            ids, options = _named_long(context, sample, M, steps), {"steps": steps, "eta": _SHORT_STEP}
            return _wrong(sample, f"after {steps} steps of 0.05 M is off by {{error:.3g}}", M, expected, ids, **options)
    return Finding("passed", "60 and 257 steps of 0.05", power=tolerance(sample))


def _named_long(context: Context, sample: Sample, M: Array, steps: int) -> tuple[str, ...]:
    """The wrong descent that gives this M; else what is wrong with the first step that is."""
    ids = named_long(sample, M, steps, _SHORT_STEP)
    if ids != ("unknown",):
        return ids

    def iterated(count: int) -> Array:
        return _run(context, sample, steps=count, eta=_SHORT_STEP)[1]

    return first_wrong_step(sample, iterated, steps, _SHORT_STEP)


def _tiny(context: Context, function: str) -> Finding:
    """A descent that ends where it moves little: six steps of which each moves M by a millionth."""
    sample = context.samples("full", _F)[0]
    if sample.precision.short:
        return Finding("not_applicable", "in 16 bits such steps round to none")
    eta = ETA * _TINY
    _, M = _run(context, sample, eta=eta)
    expected = descend(gradient_of(sample), sample.W.shape, eta=eta)
    moved = float(np.linalg.norm(expected - 1))
    error = float(np.linalg.norm(M - expected)) if M.shape == expected.shape else np.inf
    if error <= moved / 2:  # rounding of M to float32 takes a tenth of it
        return Finding("passed", f"{STEPS} steps of {eta:.1g}", power=0.5)
    still = np.isfinite(error) and not (M - 1).any()
    ids = ("ignores-steps",) if still else ("unknown",)
    gone = f"M has moved by {np.linalg.norm(M - 1):.3g} instead of {moved:.3g}"
    failure = _wrong(sample, f"after {STEPS} steps of {eta:.1g} {gone}", M, expected, ids, eta=eta)
    fitting = (*ids, "missing-regularizer") if still else ids  # at M = 1 the slope is lam M
    return replace(failure, error=error, bound=moved / 2, fitting=fitting)


def _deterministic(context: Context, function: str) -> Finding:
    sample = context.samples("causal", _F)[:1] or context.samples("full", _F)[:1]
    first, *others = (_run(context, sample[0]) for _ in range(1 + TIMES))
    gap = max(float(np.abs(a.astype(float) - b).max()) for other in others for a, b in zip(first, other, strict=True))
    if gap > tolerance(sample[0]):
        return Finding(
            "failed", f"two equal calls differ by {gap:.3g}", ids=("nondeterministic",), call=_call(sample[0])
        )
    return Finding("passed", "equal calls agree")


_ITERATES = {
    "full": "without a mask",
    "causal": "with the causal mask",
    "given-mask": "with other masks",
    "n>d": "with more tokens than features",
    "outside-box": "that leave [0, 1]",
    "lam-zero": "without regulariser",
    "batch": "on the average of a batch",
}
_CHECKS: tuple[tuple[str, str, Callable[[Context, str], Finding]], ...] = (
    ("start", "no step leaves M = 1, one step 1 - eta lam", _start),
    *((f"iterates:{name}", f"six steps {says}", partial(_iterates, regime=name)) for name, says in _ITERATES.items()),
    ("iterates:rising", "steps on which the loss rises", _rising),
    ("counts", "the mask has exactly floor(rho size) zeros, at the smallest entries of M", _counts),
    ("ties", "equal entries of M: the lower flat index goes first", _ties),
    ("momentum", "heavy ball, moving average or Nesterov", _momentum),
    ("guaranteed-step", "eta = None moves M and lowers the loss", _guarantee),
    ("long", "hundreds of steps", _long),
    ("tiny-steps", "steps that hardly move M are taken, too", _tiny),
)


def iterate(context: Context) -> Array:
    """M after a few steps."""
    return _run(context, context.samples("full", _F)[1])[1]


def coarser_descent(context: Context) -> bool:
    """Return True where a few steps are right to float32, and not to float64."""
    sample = context.samples("full", _F)[1]
    M, expected = iterate(context), descend(gradient_of(sample), sample.W.shape)
    single = sample.changed(precision=FLOAT32)
    return not close(sample, M, expected) and close(single, M, expected)
