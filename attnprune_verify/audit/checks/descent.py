"""Is this gradient descent on the pruning mask? Iterates against the closed form, the rounded mask against the iterate.

The iterates of a short descent with a given step are compared with those of the library's gradient in float64; the
instances are benign, so that rounding stays rounding over these few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from attnprune_verify.audit.cases import Case
from attnprune_verify.audit.checks.rounding import Selection, judge_zeros, smallest_first
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.formulas import RIGHT, Array, Steps, attention_part
from attnprune_verify.audit.mistakes import MISTAKES
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject import NoAnswer
from attnprune_verify.model.objective import gradient, loss

__all__ = ["descent_checks"]

_F = "prune_mask_gd"
_CLOSE = 1e-9
_ETA, _STEPS, _RHO = 0.4, 6, 0.45

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
    yield check("guaranteed-step", "eta = None never ends above the loss it began with", _guarantee)
    yield check("pure", "inputs untouched, equal calls agree", _pure)


def _run(context: Context, case: Case, **options: Any) -> tuple[Array, Array]:
    """The returned 0/1 mask and the real M."""
    arguments, keywords = _arguments(case, **options)
    answer = context.call(_F, arguments, keywords)
    return answer.parts[0], answer.parts[1]


def _arguments(case: Case, **options: Any) -> tuple[list[Any], dict[str, Any]]:
    rho, lam = options.pop("rho", _RHO), options.pop("lam", case.lam)
    keywords = {"mask": case.mask, "eta": _ETA, "steps": _STEPS, "momentum": 0.0, **options}
    return [case.X, case.W, rho, lam], keywords


def _call(case: Case, expected: tuple[Array, ...] | None = None, **options: Any) -> Call:
    arguments, keywords = _arguments(case, **options)
    return Call(_F, dict(zip(("X", "W", "rho", "lam"), arguments, strict=True)), keywords, expected)


def _descend(
    of: Gradient,
    shape: tuple[int, ...],
    steps: int = _STEPS,
    eta: float = _ETA,
    momentum: float = 0.0,
    form: str = "heavy-ball",
    start: float = 1.0,
    project: bool = False,
) -> Array:
    M, v = np.full(shape, start), np.zeros(shape)
    for _ in range(steps):
        g = of(M - eta * momentum * v if form == "looking ahead" else M)
        v = momentum * v + (1 - momentum if form == "ema" else 1.0) * g
        M = M - eta * (g + momentum * v if form == "nesterov" else v)
        if project:
            M = np.clip(M, 0.0, 1.0)
    return M


def _of(case: Case, lam: float | None = None) -> Gradient:
    return lambda M: gradient(M, case.X, case.W, case.lam if lam is None else lam, case.mask)


def _close(got: Array, expected: Array) -> bool:
    return got.shape == expected.shape and bool(
        np.linalg.norm(got - expected) <= _CLOSE * max(1.0, float(np.linalg.norm(expected)))
    )


def _start(context: Context) -> Finding:
    case = context.cases("full")[1]
    for steps, value in ((0, 1.0), (1, 1.0 - _ETA * case.lam)):
        _, M = _run(context, case, steps=steps)
        expected = np.full(case.W.shape, value)
        if M.shape != expected.shape:
            return Finding("failed", f"M has the shape {M.shape}", ids=("wrong-shape",), call=_call(case, steps=steps))
        if not _close(M, expected):
            _, later = _run(context, case)  # after more steps more mistakes can be told apart
            ids = _named(case, M, steps) if _close(later, _descend(_of(case), M.shape)) else _named(case, later, _STEPS)
            return Finding(
                "failed",
                f"after {steps} steps M is {M.flat[0]:.6g}, ... instead of {value:.6g} everywhere",
                error=float(np.abs(M - expected).max()),
                bound=_CLOSE,
                ids=ids,
                call=_call(case, (smallest_first(expected, 0), expected), steps=steps),
            )
    return Finding("passed", "M = 1, then 1 - eta lam", power=_CLOSE)


def _iterates(context: Context, regime: str) -> Finding:
    if regime == "batch":
        try:
            _run(context, context.cases("batch")[0], steps=1)
        except NoAnswer as refusal:
            return Finding("not_applicable", f"takes no batch: it {refusal}")
    for case in context.cases(regime):
        if case.X.dtype == np.float32 or case.lam * _ETA > 2:  # beyond that descent diverges
            continue
        _, M = _run(context, case)
        expected = _descend(_of(case), case.W.shape)
        if not _close(M, expected):
            wrong_shape = M.shape != expected.shape
            error = float("inf") if wrong_shape else float(np.abs(M - expected).max())
            return Finding(
                "failed",
                f"after {_STEPS} steps of {_ETA} M is off by {error:.3g}, on {case.describe()}",
                error=error,
                bound=_CLOSE,
                ids=("wrong-shape",) if wrong_shape else _named(case, M, _STEPS),
                call=_call(case, (np.where(smallest_first(expected, int(_RHO * expected.size)), 0.0, 1.0), expected)),
            )
    return Finding("passed", f"{_STEPS} steps of {_ETA}", power=_CLOSE)


def _named(case: Case, M: Array, steps: int) -> tuple[str, ...]:
    """The wrong descent that gives this M, if it is a known one."""
    of, shape = _of(case), case.W.shape
    k = case.X.shape[0] if case.X.ndim == 3 else 1

    def plain(**options: Any) -> Callable[[], Array]:
        return partial(_descend, of, shape, **{"steps": steps, **options})

    def regularised(factor: float) -> Callable[[], Array]:
        return partial(_descend, _of(case, factor * case.lam), shape, steps)

    def scaled(factor: float) -> Callable[[], Array]:
        return partial(_descend, lambda M: factor * (of(M) - case.lam * M) + case.lam * M, shape, steps)

    programs: list[tuple[str, Callable[[], Array]]] = [
        *(("hidden-momentum", plain(momentum=0.9, form=form)) for form in ("heavy-ball", "ema", "nesterov")),
        *(("ignores-steps", plain(steps=count)) for count in (steps + 1, max(steps - 1, 0), 100)),
        *(("initial-mask", plain(start=start)) for start in (0.0, 0.5)),
        ("clips-or-rounds-M", plain(project=True)),
        ("missing-regularizer", regularised(0.0)),
        *(("regularizer-scale", regularised(factor)) for factor in (2.0, 0.5, 1 / k, float(case.n))),
        ("gradient-sign", plain(eta=-_ETA)),
        ("gradient-sign", scaled(-1.0)),
        *(("ignores-step", plain(eta=eta)) for eta in _etas(case)),
        *(("gradient-scale", scaled(factor)) for factor in (2.0, 0.5, float(k), 1 / k)),
    ]
    for id, program in programs:
        with np.errstate(all="ignore"):
            if _close(M, program()):
                return (id,)
    for mistake in MISTAKES:
        if mistake.applies("gradient"):
            wrong = _wrong_gradient(case, {**RIGHT, **mistake.steps})
            with np.errstate(all="ignore"):
                if _close(M, _descend(wrong, shape, steps)):
                    return (mistake.id,)
    return ("unknown",)


def _etas(case: Case) -> tuple[float, ...]:
    lam = case.lam or 1.0
    return (_ETA / 2, 2 * _ETA, 0.1, 0.01, 0.001, 0.1 / lam, 0.1 / (case.n * lam), 1.0)


def _wrong_gradient(case: Case, steps: Steps) -> Gradient:
    return lambda M: attention_part("gradient", case.changed(M=M), steps)[0] + case.lam * M


def _counts(context: Context) -> Finding:
    for case in context.cases("full"):
        for rho in (0.0, 0.2, 0.45, 0.8, 0.97, 1.0):
            mask, M = _run(context, case, rho=rho)
            if M.shape != case.W.shape:
                return Finding("failed", f"M has the shape {M.shape}", ids=("wrong-shape",), call=_call(case, rho=rho))
            problem = judge_zeros(mask, Selection("M", M, rho), M, flags_are_gone=False)
            if problem is not None:
                reason, (id, *_) = problem
                return Finding(
                    "failed", f"{reason} (rho = {rho}), on {case.describe()}", ids=(id,), call=_call(case, rho=rho)
                )
    crossing = context.cases("lam-large")[1]  # an odd number of steps leaves entries below 0
    mask, M = _run(context, crossing, steps=3)
    problem = judge_zeros(mask, Selection("M", M, _RHO), M, flags_are_gone=False)
    if problem is not None:
        reason, (id, *_) = problem
        return Finding("failed", f"{reason}, where M is negative", ids=(id,), call=_call(crossing, steps=3))
    return Finding("passed", "entry by entry, for six ratios", power=0.0)


def _ties(context: Context) -> Finding:
    for case in context.cases("full")[:2]:
        mask, M = _run(context, case, steps=0, rho=_RHO)
        problem = judge_zeros(mask, Selection("M = 1", M, _RHO), M, flags_are_gone=False)
        if problem is not None:
            reason, (id, *_) = problem
            return Finding("failed", f"{reason}, with all of M equal", ids=(id,), call=_call(case, steps=0))
    return Finding("passed", "M = 1 is rounded to exactly floor(rho size) zeros", power=0.0)


def _momentum(context: Context) -> Finding:
    case = context.cases("full")[1]
    try:
        _, M = _run(context, case, momentum=0.9, eta=0.1)
    except NoAnswer as refusal:
        return Finding("not_applicable", f"takes no momentum: it {refusal}")
    for form in ("heavy-ball", "ema", "nesterov", "looking ahead"):
        if _close(M, _descend(_of(case), case.W.shape, eta=0.1, momentum=0.9, form=form)):
            return Finding("passed", form, power=_CLOSE)
    plain = _close(M, _descend(_of(case), case.W.shape, eta=0.1))
    reason = "momentum has no effect" if plain else "no form of momentum gives these iterates"
    return Finding(
        "failed", f"{reason}, on {case.describe()}", ids=("unknown",), call=_call(case, momentum=0.9, eta=0.1)
    )


def _guarantee(context: Context) -> Finding:
    for regime in ("full", "causal", "sharp"):
        for case in context.cases(regime)[:2]:
            _, M = _run(context, case, eta=None, steps=20)
            before, after = (loss(at, case.X, case.W, case.lam, case.mask) for at in (np.ones_like(M), M))
            if not after <= before * (1 + 1e-9):
                return Finding(
                    "failed",
                    f"the loss went from {before:.6g} to {after:.6g} in 20 steps, on {case.describe()}",
                    error=after - before,
                    bound=0.0,
                    ids=("unknown",),
                    call=_call(case, eta=None, steps=20),
                )
    return Finding("passed", "the loss did not rise")


def _pure(context: Context) -> Finding:
    case = context.cases("causal")[0]
    arguments, keywords = _arguments(case)
    first, second = (context.call(_F, arguments, keywords) for _ in range(2))
    if first.changed:
        return Finding("failed", "changes its input", ids=("mutates-input",), call=_call(case))
    gap = max(float(np.abs(a.astype(float) - b).max()) for a, b in zip(first.parts, second.parts, strict=True))
    if gap > _CLOSE:
        return Finding("failed", f"two equal calls differ by {gap:.3g}", ids=("nondeterministic",), call=_call(case))
    return Finding("passed", "untouched, and equal calls agree")
