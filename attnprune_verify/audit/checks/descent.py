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

from attnprune_verify.audit.checks.descent_mistakes import (
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
    rounded_other,
    tolerance,
)  # fmt: skip
from attnprune_verify.audit.checks.inputs import keeping_checks
from attnprune_verify.audit.checks.selection import Selection, judge_zeros
from attnprune_verify.audit.checks.structure import TIMES, precision_check
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.naming.shrink import fewer, sample_cuts, smallest
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.process import NoAnswer
from attnprune_verify.audit.truth.formulas import Array
from attnprune_verify.audit.truth.precision import FLOAT32
from attnprune_verify.audit.truth.samples import Sample
from attnprune_verify.model.functions import loss

__all__ = ["coarser_descent", "descent_checks", "iterate"]

_F = "prune_mask_gd"
_SHORT_STEP = 0.05  # chosen: 257 of them stay on the way, where rounding stays rounding
_TINY = 1e-5  # of ETA: a step moves M by 1e-6, far above rounding to float32 and far below any sensible tolerance


def descent_checks() -> Iterator[Check]:
    """The checks of prune_mask_gd."""

    def check(name: str, says: str, ask: Callable[[Context], Finding], required: bool = False) -> Check:
        return Check(_F, name, says, "alg:mask_gd", ask, required)

    yield check("start", "no step leaves M = 1, one step 1 - eta lam", _start)
    yield check("iterates:full", "six steps without a mask", lambda c: _iterates(c, "full"), True)
    yield check("iterates:causal", "six steps with the causal mask", lambda c: _iterates(c, "causal"))
    yield check("iterates:given-mask", "six steps with other masks", lambda c: _iterates(c, "given-mask"))
    yield check("iterates:n>d", "six steps with more tokens than features", lambda c: _iterates(c, "n>d"))
    yield check("iterates:outside-box", "six steps that leave [0, 1]", lambda c: _iterates(c, "lam-large"))
    yield check("iterates:lam-zero", "six steps without regulariser", lambda c: _iterates(c, "lam-zero"))
    yield check("iterates:batch", "six steps on the average of a batch", lambda c: _iterates(c, "batch"))
    yield check("iterates:rising", "steps on which the loss rises", _rising)
    yield check("counts", "the mask has exactly floor(rho size) zeros, at the smallest entries of M", _counts, True)
    yield check("ties", "equal entries of M: the lower flat index goes first", _ties)
    yield check("momentum", "heavy ball, moving average or Nesterov", _momentum)
    yield check("guaranteed-step", "eta = None moves M and lowers the loss", _guarantee)
    yield check("long", "hundreds of steps", _long)
    yield check("tiny-steps", "steps that hardly move M are taken, too", _tiny)
    yield precision_check(_F)
    yield check("deterministic", "equal calls agree", _deterministic)
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


def _start(context: Context) -> Finding:
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
            return Finding(
                "failed",
                said,
                error=float(np.abs(M - expected).max()),
                bound=tolerance(sample),
                ids=ids,
                call=_call(sample, (kept(expected), expected), steps=steps),
                shrink=partial(_smaller, context, sample, said),
            )
    return Finding("passed", "M = 1, then 1 - eta lam", power=CLOSE)


def _other_start(context: Context, sample: Sample, M: Array) -> tuple[str, ...]:
    """Return whether the descent goes on rightly from where it starts, or starts somewhere else every time."""
    _, again = _run(context, sample, steps=0)
    _, moved = _run(context, sample, steps=1)
    started = not np.array_equal(M, again) or close(sample, moved, M - ETA * gradient_of(sample)(M))
    return ("initial-mask",) if started else ("unknown",)


def _rising(context: Context) -> Finding:
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
        found.append(
            Finding(
                "failed",
                f"after {steps} steps of {ETA}, along which the loss rises, M is off by "
                f"{np.abs(M - expected).max() if M.shape == expected.shape else np.inf:.3g}, on {sample.describe()}",
                error=float(np.abs(M - expected).max()) if M.shape == expected.shape else np.inf,
                bound=tolerance(sample),
                ids=fitting[:1],
                fitting=fitting,
                call=_call(sample, (kept(expected), expected), steps=steps),
            )
        )
    return found[0] if found else Finding("passed", f"3 steps of {ETA} uphill", power=CLOSE)


def _stopped(sample: Sample, M: Array) -> tuple[str, ...]:
    """An earlier iterate was returned."""
    earlier = (descend(gradient_of(sample), sample.W.shape, steps) for steps in range(4))
    return ("ignores-steps",) if any(close(sample, M, one) for one in earlier) else ()


def _iterates(context: Context, regime: str) -> Finding:
    if regime == "batch":
        try:
            _run(context, context.samples("batch", _F)[0], steps=1)
        except NoAnswer as refusal:
            return Finding("not_applicable", f"takes no batch: it {refusal}")
    for sample in context.samples(regime, _F):
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
    """A failure if M after so many steps is not where it should be."""
    _, M = _run(context, sample, steps=steps)
    expected = descend(gradient_of(sample), sample.W.shape, steps)
    if close(sample, M, expected):
        return None
    error = float("inf") if M.shape != expected.shape else float(np.abs(M - expected).max())
    return Finding(
        "failed",
        f"after {steps} steps of {ETA} M is off by {error:.3g}, on {sample.describe()}",
        error=error,
        bound=tolerance(sample),
        call=_call(sample, (kept(expected), expected), steps=steps),
    )


def _smaller(context: Context, sample: Sample, reason: str, ids: tuple[str, ...]) -> Finding | None:
    """The same on a smaller instance, after fewer steps."""

    def judged(case: tuple[Sample, int]) -> Finding | None:
        try:
            return _judged(context, *case)
        except (NoAnswer, ArithmeticError, ValueError):
            return None

    def cuts(case: tuple[Sample, int]) -> Iterator[tuple[Sample, int]]:
        one, steps = case
        yield from ((smaller, steps) for smaller in sample_cuts(one, ("X", "W")))
        yield from ((one, steps) for steps in fewer(steps))

    found = smallest((sample, STEPS), cuts, lambda case: judged(case) is not None)
    small = None if found[0] is sample else judged(found)
    return small and replace(small, reason=f"{reason}. Smallest: {small.reason}", ids=ids)


def _counts(context: Context) -> Finding:
    for sample in context.samples("full", _F):
        for rho in (0.45, 0.2, 0.8, 0.97, 0.0, 1.0):
            mask, M = _run(context, sample, rho=rho)
            if M.shape != sample.W.shape:
                return Finding(
                    "failed", f"M has the shape {M.shape}", ids=("wrong-shape",), call=_call(sample, rho=rho)
                )
            problem = judge_zeros(mask, Selection("M", M, rho), M, flags_are_gone=False)
            if problem is not None:
                reason, (id, *_) = problem
                other = rounded_other(sample, M, mask, rho, STEPS) if id == "unknown" else ()
                return Finding(
                    "failed",
                    f"{reason} (rho = {rho}), on {sample.describe()}",
                    ids=other or (id,),
                    call=_call(sample, (kept(M, rho), M), rho=rho),
                )
    (crossing, *_) = context.samples("lam-large", _F)[-3:]  # an odd number of steps leaves entries below 0
    mask, M = _run(context, crossing, steps=3)
    problem = judge_zeros(mask, Selection("M", M, RHO), M, flags_are_gone=False)
    if problem is not None:
        reason, (id, *_) = problem
        ids = (rounded_other(crossing, M, mask, RHO, 3) if id == "unknown" else ()) or (id,)
        return Finding("failed", f"{reason}, where M is negative", ids=ids, call=_call(crossing, (kept(M), M), steps=3))
    return Finding("passed", "entry by entry, for six ratios", power=0.0)


def _ties(context: Context) -> Finding:
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


def _momentum(context: Context) -> Finding:
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
    call = _call(sample, (kept(heavy), heavy), momentum=0.9, eta=0.1)
    return Finding("failed", f"{reason}, on {sample.describe()}", ids=("unknown",), call=call)


def _guarantee(context: Context) -> Finding:
    for regime in ("full", "causal", "sharp"):
        for sample in context.samples(regime, _F)[:2]:
            _, M = _run(context, sample, eta=None, steps=20)
            X, W = sample.X.astype(float), sample.W.astype(float)
            before, after = (loss(at, X, W, sample.lam, sample.mask) for at in (np.ones(W.shape), M.astype(float)))
            if not after < before * (1 - sample.unit_roundoff):
                moved = "the loss went from" if (M != 1).any() else "M did not move; the loss went from"
                return Finding(
                    "failed",
                    f"{moved} {before:.6g} to {after:.6g} in 20 steps, on {sample.describe()}",
                    error=after - before,
                    bound=0.0,
                    ids=("unknown",),
                    call=_call(sample, eta=None, steps=20),
                )
    return Finding("passed", "the loss fell")


def _long(context: Context) -> Finding:
    """A counter that wraps, a step that decays, a buffer that fills: what six steps do not show."""
    sample = context.samples("full", _F)[1]
    for steps in (60, 257):
        _, M = _run(context, sample, steps=steps, eta=_SHORT_STEP)
        expected = descend(gradient_of(sample), sample.W.shape, steps=steps, eta=_SHORT_STEP)
        if not close(sample, M, expected):
            return Finding(
                "failed",
                f"after {steps} steps of 0.05 M is off by {np.abs(M - expected).max():.3g}, on {sample.describe()}",
                error=float(np.abs(M - expected).max()),
                bound=tolerance(sample),
                ids=_named_long(context, sample, M, steps),
                call=_call(sample, (kept(expected), expected), steps=steps, eta=_SHORT_STEP),
            )
    return Finding("passed", "60 and 257 steps of 0.05", power=tolerance(sample))


def _named_long(context: Context, sample: Sample, M: Array, steps: int) -> tuple[str, ...]:
    """The wrong descent that gives this M; else what is wrong with the first step that is."""
    ids = named_long(sample, M, steps, _SHORT_STEP)
    if ids != ("unknown",):
        return ids

    def iterated(count: int) -> Array:
        return _run(context, sample, steps=count, eta=_SHORT_STEP)[1]

    return first_wrong_step(sample, iterated, steps, _SHORT_STEP)


def _tiny(context: Context) -> Finding:
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
    return Finding(
        "failed",
        f"after {STEPS} steps of {eta:.1g} M has moved by {np.linalg.norm(M - 1):.3g} instead of {moved:.3g}, on "
        f"{sample.describe()}",
        error=error,
        bound=moved / 2,
        ids=ids,
        fitting=(*ids, "missing-regularizer") if still else ids,  # at M = 1 the slope is lam M
        call=_call(sample, (kept(expected), expected), eta=eta),
    )


def _deterministic(context: Context) -> Finding:
    sample = context.samples("causal", _F)[:1] or context.samples("full", _F)[:1]
    first, *others = (_run(context, sample[0]) for _ in range(1 + TIMES))
    gap = max(float(np.abs(a.astype(float) - b).max()) for other in others for a, b in zip(first, other, strict=True))
    if gap > tolerance(sample[0]):
        return Finding(
            "failed", f"two equal calls differ by {gap:.3g}", ids=("nondeterministic",), call=_call(sample[0])
        )
    return Finding("passed", "equal calls agree")


def iterate(context: Context) -> Array:
    """M after a few steps."""
    return _run(context, context.samples("full", _F)[1])[1]


def coarser_descent(context: Context) -> bool:
    """Return whether a few steps are right to float32, and not to float64."""
    sample = context.samples("full", _F)[1]
    M, expected = iterate(context), descend(gradient_of(sample), sample.W.shape)
    single = sample.changed(precision=FLOAT32)
    return not close(sample, M, expected) and close(single, M, expected)
