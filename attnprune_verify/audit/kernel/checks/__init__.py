"""The checks of a kernel: its values, regime by regime, and how it behaves as a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from attnprune_verify.audit.kernel.checks.behaviour import BEHAVIOUR
from attnprune_verify.audit.kernel.checks.bias import rounds_to_one_side
from attnprune_verify.audit.kernel.checks.combined_features import combined_features
from attnprune_verify.audit.kernel.checks.integers import integer_samples
from attnprune_verify.audit.kernel.checks.modes import MODE_CHECKS
from attnprune_verify.audit.kernel.checks.shapes_of_models import shapes_asked
from attnprune_verify.audit.kernel.checks.skip_reason import another_declaration
from attnprune_verify.audit.kernel.problem.integer_cases import CHECKS, LISTS
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.released_shapes import HEAD_SIZES
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample
from attnprune_verify.audit.kernel.problem.scope import ANYTHING
from attnprune_verify.audit.kernel.process.context import KernelContext, overflows
from attnprune_verify.audit.kernel.process.facts import Refused, Reply, TooSlow
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.bounds import BOTH
from attnprune_verify.audit.kernel.truth.judge import KernelVerdict, judge
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer

__all__ = ["integer_checks", "kernel_checks", "slug"]

_DEAR = 64 * 64 * 32  # work of a plain instance, chosen: above, judging one takes tenths of a second
_TIMES = 20  # so much work, chosen: above, one sample costs a second
_BENIGN = ("indices", "pages")
_FEWEST = 2  # chosen: the first and the last sample of a regime; of many a third


def kernel_checks(modes: tuple[str, ...] = ()) -> tuple[Check, ...]:
    """Every check of both functions in turn, so that a limit cuts both, and those of the modes."""
    pairs = zip(*(_checks_of(function, modes) for function in (FORWARD, BACKWARD)), strict=True)
    return tuple(check for pair in pairs for check in pair)


def integer_checks() -> tuple[Check, ...]:
    """Every check of index lists, of both functions in turn, and of pages, which have no gradients."""
    return tuple(
        Check(function, f"values:{name}", says, None, _bound(partial(_integers, name), function), name in _BENIGN)
        for name, (parameter, says) in CHECKS.items()
        for function in (FORWARD, BACKWARD)[: 1 + (parameter == LISTS)]
    )


def slug(regime: str) -> str:
    """A regime's name in a check's id."""
    return regime.replace(",", "").replace(" ", "-")


def _checks_of(function: str, modes: tuple[str, ...]) -> Iterator[Check]:
    for name, (says, ask) in BEHAVIOUR.items():
        yield Check(function, name, says, None, _bound(ask, function))
    says = "16-bit answers and weights are rounded to the nearest, not to one side"
    yield Check(function, "rounding", says, None, _bound(rounds_to_one_side, function))
    for name, regime in regimes(0, "float32").items():  # names and purposes are the same for all
        yield Check(
            function, f"values:{slug(name)}", regime.says, None, _values(function, name), required=regime.required
        )

    for m in HEAD_SIZES:
        says = f"heads, windows, caps and sinks of released models with head size {m}"
        yield Check(function, f"values:shape-{m}", says, None, _shapes(function, m))
    says = "what is accepted, in all pairs and triples: masks, lengths, tiles, windows, heads, sizes, memory"
    yield Check(function, "values:together", says, None, _bound(_together, function))
    for mode in dict.fromkeys(modes):
        says, ask = MODE_CHECKS[mode]
        yield Check(function, f"mode:{mode}", says, None, _bound(ask, function))


def _bound(ask: Callable[[KernelContext, str], Finding], function: str) -> Callable[[KernelContext], Finding]:
    def run(context: KernelContext) -> Finding:
        try:
            return ask(context, function)
        except (Refused, TooSlow) as none:
            return Finding("not_applicable", str(none))

    return run


def _values(function: str, name: str) -> Callable[[KernelContext], Finding]:
    return lambda context: _regime(context, function, name)


def _shapes(function: str, m: int) -> Callable[[KernelContext], Finding]:
    return _bound(lambda context, asked: _judged_all(context, asked, shapes_asked(context, asked, m)), function)


def _integers(name: str, context: KernelContext, function: str) -> Finding:
    return _judged_all(context, function, integer_samples(context, function, name))


def _regime(context: KernelContext, function: str, name: str) -> Finding:
    """All samples of a regime; some of them if in haste, where each is dear: compiled, or at least so large."""
    samples = context.regimes()[name].samples
    least = context.regimes()["plain"].samples[0].work
    if samples and context.quick and (context.declared.framework == "jax" or least > _DEAR):
        few = tuple(sample for sample in samples if sample.work <= _TIMES * max(least, _DEAR))
        samples = few or samples[:1]
        places = np.linspace(0, len(samples) - 1, max(_FEWEST, len(samples) // 3))
        samples = tuple(samples[place] for place in sorted(set(places.astype(int))))
    return _judged_all(context, function, samples)


def _together(context: KernelContext, function: str) -> Finding:
    """All interactions of what the function accepts."""
    found = combined_features(context, function)
    judged = _judged_all(context, function, found.samples)
    return replace(judged, reason=f"{judged.reason}; {found.describe()}") if judged.status == "passed" else judged


def _judged_all(context: KernelContext, function: str, samples: tuple[KernelSample, ...]) -> Finding:
    """The first failure decides, and one decided sample is enough to pass."""
    verdicts: list[KernelVerdict] = []
    refused: list[str] = []
    failing: list[KernelSample] = []
    worst: KernelVerdict | None = None
    broken: NoAnswer | None = None
    writes = ""
    for sample in samples:
        try:
            reply = context.answer(function, sample)
            verdict = _judged(context, function, sample, reply)
            if reply.changed and not writes and not context.functions[function].writes:
                writes = f"changes its input {', '.join(reply.changed)}, on {sample.describe()}"
        except (Refused, TooSlow) as none:
            refused.append(str(none))
            continue
        except NoAnswer as none:
            if not none.raised:
                raise
            if not overflows(none):
                allowed = (
                    ", which the declared sizes allow" if context.declared.scope.extents != ANYTHING.extents else ""
                )
                broken = broken or NoAnswer(f"{none}, on {sample.describe()}{allowed}", raised=True)
                continue
            verdict = KernelVerdict("failed", function, np.inf, 0.0, np.inf, f"{none}, on {sample.describe()}")
        verdicts.append(verdict)
        if verdict.status == "failed":
            failing.append(sample)
            worst = worst or verdict
    if worst is not None:
        reason = f"{worst.reason}, on {failing[0].describe()}"
        reason += another_declaration(context, function, tuple(failing))
        return Finding("failed", reason, worst.error, worst.bound, worst.power, samples=tuple(failing))
    if writes:
        context.functions[function].writes = True
        return Finding("failed", writes, ids=("mutates-input",))
    if broken is not None:
        raise broken
    return _summary(verdicts, refused)


def _judged(context: KernelContext, function: str, sample: KernelSample, reply: Reply) -> KernelVerdict:
    problem = misshapen(function, sample, reply)
    if problem is not None:
        return KernelVerdict("failed", function, np.inf, 0.0, np.inf, problem)
    if context.both:
        sample.memo[BOTH] = True
    return judge(function, sample, reply.parts)


def _summary(verdicts: list[KernelVerdict], refused: list[str]) -> Finding:
    decided = [verdict for verdict in verdicts if verdict.status == "passed"]
    open_ = [verdict for verdict in verdicts if verdict.status == "inconclusive"]
    said = "; ".join(dict.fromkeys(refused))
    if not verdicts:
        return Finding("not_applicable", said)
    if not decided:
        worst = max(open_, key=lambda verdict: verdict.power)
        return Finding("inconclusive", worst.reason, worst.error, worst.bound, worst.power)
    largest = max(decided, key=lambda verdict: verdict.error / verdict.bound if verdict.bound > 0 else 0.0)
    undecided = f"; {len(open_)} more cannot be decided: {open_[0].reason}" if open_ else ""
    reason = f"{len(decided)} of {len(verdicts)} instances agree{undecided}{f'; {said}' if said else ''}"
    power = max(verdict.power for verdict in decided)
    return Finding("passed", reason, largest.error, largest.bound, power)
