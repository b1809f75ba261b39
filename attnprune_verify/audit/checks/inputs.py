"""What may come in and what must stay as it is: kinds of masks and numbers, memory layouts, inputs, earlier results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.checks.memory import one_changed
from attnprune_verify.audit.checks.smaller import call_on
from attnprune_verify.audit.checks.values import judged
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.layer.sample import LAYERED
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.process import NoAnswer, SubjectLost
from attnprune_verify.audit.truth.precision import FLOAT32
from attnprune_verify.audit.truth.reference import ENCLOSED, parameters, reference
from attnprune_verify.audit.truth.samples import ARRAYS, Sample
from attnprune_verify.audit.truth.tolerance import judge

__all__ = ["input_checks", "keeping_checks"]

Variant = tuple[str, Sample, dict[str, Any]]


def input_checks(function: str) -> Iterator[Check]:
    """The checks of the kinds of arrays that come in."""

    def check(name: str, says: str, ask: Callable[[Context, str], Finding]) -> Check:
        return Check(function, name, says, FUNCTIONS[function].claim, lambda context: ask(context, function))

    if "mask" in FUNCTIONS[function].arguments:
        yield check("mask-kinds", "a mask of 0 and 1 in any dtype, bool included, means the same", _mask_kinds)
    yield check("layouts", "Fortran order and strides mean the same", _layouts)
    yield check("mixed-dtypes", "integers, and float32 beside float64, are right at least in float32", _mixed)


def keeping_checks(function: str) -> Iterator[Check]:
    """What all calls together have shown; to be asked last."""
    claim = FUNCTIONS[function].claim
    if function in ENCLOSED and function not in LAYERED:
        says = "where one input alone has changed, another result comes"
        yield Check(function, "one-changed", says, claim, lambda c: one_changed(c, function))
    yield Check(function, "inputs-untouched", "no input array is changed", claim, lambda c: _untouched(c, function))
    yield Check(function, "results-kept", "what was returned stays as it was", claim, lambda c: _kept(c, function))


def _untouched(context: Context, function: str) -> Finding:
    found = context.changed.get(function)
    if found is not None:
        names, where = found
        call = next((call_on(function, s) for s in context.asked(function) if s.name == where), None)
        call = call or _any_call(context, function)
        reason = f"changes its input {names}{f', on {where}' if where else ''}"
        return Finding("failed", reason, ids=("mutates-input",), call=call)
    if not context.answered(function):
        return Finding("could_not_run", "no call was answered")
    return Finding("passed", f"every input array of {context.calls[function]} calls is bit for bit as it was")


def _any_call(context: Context, function: str) -> Call | None:
    """A small one that was answered; the functions that select entries have none here."""
    asked = [one for one in context.asked(function) if one.X.ndim == 2]
    return call_on(function, min(asked, key=lambda one: one.work)) if asked and function in ENCLOSED else None


def _kept(context: Context, function: str) -> Finding:
    if function in context.overwritten:
        return Finding(
            "failed",
            "an array it returned changed during a later call: results share memory with each other",
            ids=("overwrites-results",),
            call=_any_call(context, function),
        )
    if not context.answered(function):
        return Finding("could_not_run", "no call was answered")
    return Finding("passed", "what was returned did not change in later calls")


def _mask_kinds(context: Context, function: str) -> Finding:
    if function in context.boolean_masks:
        return Finding(
            "failed",
            f"{context.boolean_masks[function]} masks of 0 and 1 and takes bool only; everything else is judged with "
            "bool masks",
            ids=("mask-kind",),
            call=replace(call_on(function, context.samples("causal", function)[0]), literal=True),
        )
    variants = [
        (f"a mask of {dtype.__name__}", sample, {"mask": sample.mask.astype(dtype)})
        for dtype in (bool, np.int64, np.uint8)
        for sample in (*context.samples("causal", function)[:1], *context.samples("given-mask", function)[:1])
        if sample.mask is not None
    ]
    return _same(context, function, variants, "mask-kind")


def _layouts(context: Context, function: str) -> Finding:
    variants = []
    for sample in (*context.samples("full", function)[1:2], *context.samples("causal", function)[1:2]):
        for name, laid_out in (("Fortran order", np.asfortranarray), ("strides", _strided)):
            variants.append((name, sample, {key: laid_out(value) for key, value in _arrays(function, sample).items()}))
    return _same(context, function, variants, "memory-layout")


def _mixed(context: Context, function: str) -> Finding:
    precision = context.precision(function)
    if precision.short:
        return Finding("not_applicable", f"judged as {precision.name}")
    return _float32_beside(context, function) or _integers(context, function)


def _float32_beside(context: Context, function: str) -> Finding | None:
    """A failure for arrays of two precisions, each rounded to the coarser."""
    variants: list[Variant] = []
    for sample in (*context.samples("full", function)[1:2], *context.samples("causal", function)[1:2]):
        for single in ({"X"}, {"M", "V", "M_Q", "M_K"}, {"W", "W_Q", "W_K"}):
            changed = {name: getattr(sample, name).astype(np.float32) for name in _taken(function) if name in single}
            exact = {name: value.astype(float) for name, value in changed.items()}
            mixed = sample.changed(name=f"{sample.name}-mixed", **exact, precision=FLOAT32.carried_by("float64"))
            given = {name: changed[name] for name in _arrays(function, sample) if name in changed}
            if given:
                variants.append((f"{' and '.join(given)} in float32", mixed, given))
    found = _same(context, function, variants, "low-precision")
    return found if found.status == "failed" else None


def _integers(context: Context, function: str) -> Finding:
    """Masks of 0 and 1, and tokens, as integers beside numbers with fractions."""
    variants: list[Variant] = []
    single = FLOAT32.carried_by(context.precision(function).carrier)
    for sample in (*context.samples("full", function)[1:2], *context.samples("causal", function)[1:2]):
        zeros = {name: (getattr(sample, name) > 0.5) * 1.0 for name in ("M", "M_Q", "M_K")}
        for whole in (zeros, {"X": np.rint(sample.X)}):
            counted = sample.changed(name=f"{sample.name}-integers", **whole, precision=single)
            given = {
                name: value.astype(np.int64) for name, value in _arrays(function, counted).items() if name in whole
            }
            if given:
                variants.append((f"{' and '.join(given)} of integers", counted, given))
    return _same(context, function, variants, "integer-arithmetic")


def _strided(array: NDArray[Any]) -> NDArray[Any]:
    spaced = np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
    spaced[...] = array
    return spaced


def _taken(function: str) -> tuple[str, ...]:
    """The arrays among its arguments; all of a fused sample, of which no function takes the others."""
    return ("X", "M_Q", "M_K") if function in LAYERED else ARRAYS


def _arrays(function: str, sample: Sample) -> dict[str, NDArray[Any]]:
    values = zip(FUNCTIONS[function].arguments, parameters(function, sample), strict=True)
    return {name: value for name, value in values if name in ARRAYS}


def _same(context: Context, function: str, variants: list[Variant], id: str) -> Finding:
    """Whether each variant of the arguments gives the value of its sample; what is refused is not judged."""
    passed, refused = [], []
    for what, sample, others in variants:
        try:
            answer = context.ask(function, sample, **others)
        except SubjectLost:
            raise
        except NoAnswer as refusal:
            refused.append(f"{what}: {refusal}")
            continue
        problem = context.misshapen(function, sample, answer)
        verdict = None if problem else judge(function, sample, answer.parts)
        if verdict is None or verdict.verdict in ("failed", "suspect"):
            if not _right_otherwise(context, function, sample):
                continue  # wrong with plain arrays, too, which other checks say
            if _passes_now(context, function, sample, others):
                return Finding(
                    "failed",
                    f"wrong for {what}, and right when asked again, on {sample.describe()}",
                    ids=("nondeterministic",),
                    call=call_on(function, sample, others),
                )
            reason = problem or (verdict.reason if verdict else "")
            found = judged(function, [(sample, verdict)], len(variants)) if verdict else None
            return Finding(
                "failed",
                f"wrong for {what}: {reason}, on {sample.describe()}",
                error=found.error if found else None,
                bound=found.bound if found else None,
                ids=("wrong-shape",) if problem else _id_of(id, function, sample, answer.parts),
                call=call_on(function, sample, others),
            )
        passed.append(what)
    if not passed:
        return Finding("not_applicable", f"takes none of them: {refused[0]}" if refused else "nothing to ask")
    left = f"; not taken: {refused[0]}" if refused else ""
    return Finding("passed", f"{', '.join(dict.fromkeys(passed))}{left}")


def _id_of(id: str, function: str, sample: Sample, parts: tuple[NDArray[Any], ...]) -> tuple[str, ...]:
    """The id; "low-precision" only of an error that a coarser format could make."""
    if id != "low-precision":
        return (id,)
    pairs = zip(parts, reference(function, sample), strict=True)
    small = all(np.linalg.norm(part - true.value) <= 0.02 * np.linalg.norm(true.value) for part, true in pairs)
    return (id,) if small else ()


def _passes_now(context: Context, function: str, sample: Sample, others: dict[str, Any]) -> bool:
    try:
        answer = context.ask(function, sample, **others)
    except NoAnswer:
        return False
    if context.misshapen(function, sample, answer) is not None:
        return False
    return judge(function, sample, answer.parts).verdict == "passed"


def _right_otherwise(context: Context, function: str, sample: Sample) -> bool:
    """Asked anew: what has become wrong since is not wrong because of the variant."""
    try:
        answer = context.ask(function, sample)
    except NoAnswer:
        return False
    if context.misshapen(function, sample, answer) is not None:
        return False
    return judge(function, sample, answer.parts).verdict in ("passed", "inconclusive")
