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

from attnprune_verify.audit.checks.inputs import keeping_checks
from attnprune_verify.audit.checks.selection import Selection, judge_zeros, smallest_first
from attnprune_verify.audit.checks.structure import precision_check
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.naming.mistakes import MISTAKES
from attnprune_verify.audit.naming.shrink import fewer, sample_cuts, smallest
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.process import NoAnswer
from attnprune_verify.audit.truth.formulas import RIGHT, Array, Steps, attention_part
from attnprune_verify.audit.truth.precision import FLOAT32
from attnprune_verify.audit.truth.samples import Sample
from attnprune_verify.model.functions import gradient, loss

__all__ = ["coarser_descent", "descent_checks"]

_F = "prune_mask_gd"
_CLOSE = 1e-9
_ETA, _STEPS, _RHO = 0.4, 6, 0.45

# Steps that get smaller, or larger, although one length was asked for.
_DECAYS: tuple[Callable[[int], float], ...] = (
    lambda step: 1 / (1 + step),
    lambda step: (1 + step) ** -0.5,
    lambda step: 0.9**step,
    lambda step: 0.5**step,
    lambda step: 0.99**step,
    lambda step: 1.0 + step,
)

Gradient = Callable[[Array], Array]


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
    yield check("counts", "the mask has exactly floor(rho size) zeros, at the smallest entries of M", _counts, True)
    yield check("ties", "equal entries of M: the lower flat index goes first", _ties)
    yield check("momentum", "heavy ball, moving average or Nesterov", _momentum)
    yield check("guaranteed-step", "eta = None moves M and lowers the loss", _guarantee)
    yield check("long", "hundreds of steps", _long)
    yield precision_check(_F)
    yield check("deterministic", "equal calls agree", _deterministic)
    yield from keeping_checks(_F)


def _run(context: Context, sample: Sample, **options: Any) -> tuple[Array, Array]:
    """The returned 0/1 mask and the real M."""
    values, keywords = _arguments(sample, **options)
    answer = context.call(_F, values, keywords, where=sample.name)
    return answer.parts[0], answer.parts[1]


def _arguments(sample: Sample, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    rho, lam = options.pop("rho", _RHO), options.pop("lam", sample.lam)
    keywords = {"mask": sample.mask, "eta": _ETA, "steps": _STEPS, "momentum": 0.0, **options}
    return {"X": sample.X, "W": sample.W, "rho": rho, "lam": lam}, keywords


def _call(sample: Sample, expected: tuple[Array, ...] | None = None, **options: Any) -> Call:
    values, keywords = _arguments(sample, **options)
    return Call(_F, values, keywords, expected)


def _descend(
    of: Gradient,
    shape: tuple[int, ...],
    steps: int = _STEPS,
    eta: float = _ETA,
    momentum: float = 0.0,
    form: str = "heavy-ball",
    start: float = 1.0,
    project: bool = False,
    decay: Callable[[int], float] | None = None,
) -> Array:
    M, v = np.full(shape, start), np.zeros(shape)
    for step in range(steps):
        g = of(M - eta * momentum * v if form == "looking ahead" else M)
        v = momentum * v + (1 - momentum if form == "ema" else 1.0) * g
        length = eta if decay is None else eta * decay(step)
        M = M - length * (g + momentum * v if form == "nesterov" else v)
        if project:
            M = np.clip(M, 0.0, 1.0)
    return M


def _of(sample: Sample, lam: float | None = None) -> Gradient:
    X, W = sample.X.astype(float), sample.W.astype(float)
    return lambda M: gradient(M, X, W, sample.lam if lam is None else lam, sample.mask)


def _tolerance(sample: Sample) -> float:
    """What a few steps may be off, relative: rounding stays rounding on benign instances."""
    unit = sample.unit_roundoff
    return max(_CLOSE, (24 if sample.precision.short else 300) * unit)


def _close(sample: Sample, got: Array, expected: Array) -> bool:
    return got.shape == expected.shape and bool(
        np.linalg.norm(got - expected) <= _tolerance(sample) * max(1.0, float(np.linalg.norm(expected)))
    )


def _start(context: Context) -> Finding:
    sample = context.samples("full", _F)[1]
    for steps, value in ((0, 1.0), (1, 1.0 - _ETA * sample.lam)):
        _, M = _run(context, sample, steps=steps)
        expected = np.full(sample.W.shape, value)
        if M.shape != expected.shape:
            return Finding(
                "failed", f"M has the shape {M.shape}", ids=("wrong-shape",), call=_call(sample, steps=steps)
            )
        if not _close(sample, M, expected):
            _, later = _run(context, sample)  # after more steps more mistakes can be told apart
            ids = (
                _named(sample, M, steps)
                if _close(sample, later, _descend(_of(sample), M.shape))
                else _named(sample, later, _STEPS)
            )
            said = f"after {steps} steps M is {M.flat[0]:.6g}, ... instead of {value:.6g} everywhere"
            return Finding(
                "failed",
                said,
                error=float(np.abs(M - expected).max()),
                bound=_tolerance(sample),
                ids=ids,
                call=_call(sample, (_kept(expected), expected), steps=steps),
                shrink=partial(_smaller, context, sample, said),
            )
    return Finding("passed", "M = 1, then 1 - eta lam", power=_CLOSE)


def _iterates(context: Context, regime: str) -> Finding:
    if regime == "batch":
        try:
            _run(context, context.samples("batch", _F)[0], steps=1)
        except NoAnswer as refusal:
            return Finding("not_applicable", f"takes no batch: it {refusal}")
    for sample in context.samples(regime, _F):
        if sample.precision != context.precision(_F) or sample.lam * _ETA > 2:  # beyond that descent diverges
            continue
        failure = _judged(context, sample, _STEPS)
        if failure is not None:
            _, M = _run(context, sample)
            ids = ("wrong-shape",) if M.shape != sample.W.shape else _named(sample, M, _STEPS)
            return replace(failure, ids=ids, shrink=partial(_smaller, context, sample, failure.reason))
        context.judged_up_to(_F, sample)
    return Finding("passed", f"{_STEPS} steps of {_ETA}", power=_CLOSE)


def _judged(context: Context, sample: Sample, steps: int) -> Finding | None:
    """A failure if M after so many steps is not where it should be."""
    _, M = _run(context, sample, steps=steps)
    expected = _descend(_of(sample), sample.W.shape, steps)
    if _close(sample, M, expected):
        return None
    error = float("inf") if M.shape != expected.shape else float(np.abs(M - expected).max())
    return Finding(
        "failed",
        f"after {steps} steps of {_ETA} M is off by {error:.3g}, on {sample.describe()}",
        error=error,
        bound=_tolerance(sample),
        call=_call(sample, (_kept(expected), expected), steps=steps),
    )


def _kept(M: Array, rho: float = _RHO) -> Array:
    """The rounded mask: 0 at the smallest entries."""
    return np.where(smallest_first(M, int(rho * M.size)), 0.0, 1.0)


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

    found = smallest((sample, _STEPS), cuts, lambda case: judged(case) is not None)
    small = None if found[0] is sample else judged(found)
    return small and replace(small, reason=f"{reason}. Smallest: {small.reason}", ids=ids)


def _named(sample: Sample, M: Array, steps: int) -> tuple[str, ...]:
    """The wrong descent that gives this M, if it is a known one."""
    of, shape = _of(sample), sample.W.shape
    k = sample.X.shape[0] if sample.X.ndim == 3 else 1

    def plain(**options: Any) -> Callable[[], Array]:
        return partial(_descend, of, shape, **{"steps": steps, **options})

    def regularised(factor: float) -> Callable[[], Array]:
        return partial(_descend, _of(sample, factor * sample.lam), shape, steps)

    def scaled(factor: float) -> Callable[[], Array]:
        return partial(_descend, lambda M: factor * (of(M) - sample.lam * M) + sample.lam * M, shape, steps)

    programs: list[tuple[str, Callable[[], Array]]] = [
        *(("hidden-momentum", plain(momentum=0.9, form=form)) for form in ("heavy-ball", "ema", "nesterov")),
        *(("ignores-steps", plain(steps=count)) for count in (steps + 1, max(steps - 1, 0), 100)),
        *(("initial-mask", plain(start=start)) for start in (0.0, 0.5)),
        ("clips-or-rounds-M", plain(project=True)),
        ("missing-regularizer", regularised(0.0)),
        *(("regularizer-scale", regularised(factor)) for factor in (2.0, 0.5, 1 / k, float(sample.n))),
        ("gradient-sign", plain(eta=-_ETA)),
        ("gradient-sign", scaled(-1.0)),
        *(("ignores-step", plain(eta=eta)) for eta in _etas(sample)),
        *(("ignores-step", plain(decay=decay)) for decay in _DECAYS),
        *(("gradient-scale", scaled(factor)) for factor in (2.0, 0.5, float(k), 1 / k)),
    ]
    for id, program in programs:
        with np.errstate(all="ignore"):
            if _close(sample, M, program()):
                return (id,)
    for mistake in MISTAKES:
        if mistake.applies("gradient"):
            wrong = _wrong_gradient(sample, {**RIGHT, **mistake.steps})
            with np.errstate(all="ignore"):
                if _close(sample, M, _descend(wrong, shape, steps)):
                    return (mistake.id,)
    return ("unknown",)


def _etas(sample: Sample) -> tuple[float, ...]:
    lam = sample.lam or 1.0
    return (_ETA / 2, 2 * _ETA, 0.1, 0.01, 0.001, 0.1 / lam, 0.1 / (sample.n * lam), 1.0)


def _wrong_gradient(sample: Sample, steps: Steps) -> Gradient:
    return lambda M: attention_part("gradient", sample.changed(M=M), steps)[0] + sample.lam * M


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
                return Finding(
                    "failed",
                    f"{reason} (rho = {rho}), on {sample.describe()}",
                    ids=(id,),
                    call=_call(sample, (_kept(M, rho), M), rho=rho),
                )
    (crossing, *_) = context.samples("lam-large", _F)[-3:]  # an odd number of steps leaves entries below 0
    mask, M = _run(context, crossing, steps=3)
    problem = judge_zeros(mask, Selection("M", M, _RHO), M, flags_are_gone=False)
    if problem is not None:
        reason, (id, *_) = problem
        return Finding(
            "failed", f"{reason}, where M is negative", ids=(id,), call=_call(crossing, (_kept(M), M), steps=3)
        )
    return Finding("passed", "entry by entry, for six ratios", power=0.0)


def _ties(context: Context) -> Finding:
    for sample in context.samples("full", _F)[:2]:
        mask, M = _run(context, sample, steps=0, rho=_RHO)
        problem = judge_zeros(mask, Selection("M = 1", M, _RHO), M, flags_are_gone=False)
        if problem is not None:
            reason, ids = problem
            return Finding(
                "failed",
                f"{reason}, with all of M equal",
                ids=("ties-dropped",) if "ties-dropped" in ids and "keeps-instead-of-prunes" not in ids else ids[:1],
                call=_call(sample, (_kept(M), M), steps=0),
            )
    return Finding("passed", "M = 1 is rounded to exactly floor(rho size) zeros", power=0.0)


def _momentum(context: Context) -> Finding:
    sample = context.samples("full", _F)[1]
    try:
        _, M = _run(context, sample, momentum=0.9, eta=0.1)
    except NoAnswer as refusal:
        return Finding("not_applicable", f"takes no momentum: it {refusal}")
    for form in ("heavy-ball", "ema", "nesterov", "looking ahead"):
        if _close(sample, M, _descend(_of(sample), sample.W.shape, eta=0.1, momentum=0.9, form=form)):
            return Finding("passed", form, power=_CLOSE)
    plain = _close(sample, M, _descend(_of(sample), sample.W.shape, eta=0.1))
    reason = "momentum has no effect" if plain else "no form of momentum gives these iterates"
    heavy = _descend(_of(sample), sample.W.shape, eta=0.1, momentum=0.9)
    call = _call(sample, (_kept(heavy), heavy), momentum=0.9, eta=0.1)
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
        _, M = _run(context, sample, steps=steps, eta=0.05)
        expected = _descend(_of(sample), sample.W.shape, steps=steps, eta=0.05)
        if not _close(sample, M, expected):
            return Finding(
                "failed",
                f"after {steps} steps of 0.05 M is off by {np.abs(M - expected).max():.3g}, on {sample.describe()}",
                error=float(np.abs(M - expected).max()),
                bound=_tolerance(sample),
                ids=_named_long(sample, M, steps),
                call=_call(sample, (_kept(expected), expected), steps=steps, eta=0.05),
            )
    return Finding("passed", "60 and 257 steps of 0.05", power=_tolerance(sample))


def _named_long(sample: Sample, M: Array, steps: int) -> tuple[str, ...]:
    for count in (steps - 1, steps + 1, 50, 100, 200, 256, 128, 64, 32):
        if _close(sample, M, _descend(_of(sample), sample.W.shape, steps=count, eta=0.05)):
            return ("ignores-steps",)
    return ("unknown",)


def _deterministic(context: Context) -> Finding:
    sample = context.samples("causal", _F)[:1] or context.samples("full", _F)[:1]
    first, second = (_run(context, sample[0]) for _ in range(2))
    gap = max(float(np.abs(a.astype(float) - b).max()) for a, b in zip(first, second, strict=True))
    if gap > _tolerance(sample[0]):
        return Finding(
            "failed", f"two equal calls differ by {gap:.3g}", ids=("nondeterministic",), call=_call(sample[0])
        )
    return Finding("passed", "equal calls agree")


def coarser_descent(context: Context) -> bool:
    """Whether a few steps are right to float32, and not to float64."""
    sample = context.samples("full", _F)[1]
    _, M = _run(context, sample)
    expected = _descend(_of(sample), sample.W.shape)
    single = sample.changed(precision=FLOAT32)
    return not _close(sample, M, expected) and _close(single, M, expected)
