"""Checks of inputs: kinds of masks and numbers, memory layouts, inputs and earlier results that stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.smaller import call_on, check, failed_on, is_right, wrong_already
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.layer.sample import LAYERED
from attnprune_verify.audit.functions.truth.precision import FLOAT32
from attnprune_verify.audit.functions.truth.reference import ENCLOSED, VALUED, parameters, reference
from attnprune_verify.audit.functions.truth.samples import ARRAYS, Sample
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer, SubjectLost

Variant = tuple[str, Sample, dict[str, Any]]
_FEW_BITS = 16.0  # chosen: sums of multiples of its inverse, and of their squares, are exact even in float32


def input_checks(function: str) -> Iterator[Check]:
    """The checks of the kinds of arrays that come in."""
    if "mask" in FUNCTIONS[function].arguments:
        yield check(
            function, "mask-kinds", "a mask of 0 and 1 in any dtype, bool included, means the same", _mask_kinds
        )
    yield check(function, "layouts", "Fortran order and strides mean the same", _layouts)
    yield check(function, "mixed-dtypes", "integers, and float32 beside float64, are right at least in float32", _mixed)


def keeping_checks(function: str) -> Iterator[Check]:
    """The checks of what all calls together have shown; they run last."""
    if function in VALUED:
        says = "where one input alone has changed, another result comes"
        yield check(function, "one-changed", says, _one_changed)
    yield check(function, "inputs-untouched", "no input array is changed", _untouched)
    yield check(function, "results-kept", "what was returned stays as it was", _kept)


def _untouched(context: Context, function: str) -> Finding:
    found = context.of(function).changed
    if found is not None:
        names, where = found
        call = next((call_on(function, s) for s in context.asked(function) if s.name == where), None)
        call = call or _any_call(context, function)
        reason = f"changes its input {names}{f', on {where}' if where else ''}"
        return Finding("failed", reason, ids=("mutates-input",), call=call)
    if not context.of(function).answered:
        return Finding("could_not_run", "no call was answered")
    return Finding("passed", f"every input array of {context.of(function).calls} calls is bit for bit as it was")


def _any_call(context: Context, function: str) -> Call | None:
    """A small one that was answered; the functions that select entries have none here."""
    asked = [one for one in context.asked(function) if one.X.ndim == 2]
    return call_on(function, min(asked, key=lambda one: one.work)) if asked and function in ENCLOSED else None


def _kept(context: Context, function: str) -> Finding:
    if context.of(function).overwritten is not None:
        reason = "an array it returned changed during a later call: results share memory with each other"
        return Finding("failed", reason, ids=("overwrites-results",), call=_any_call(context, function))
    if not context.of(function).answered:
        return Finding("could_not_run", "no call was answered")
    return Finding("passed", "what was returned did not change in later calls")


def _mask_kinds(context: Context, function: str) -> Finding:
    if context.of(function).boolean_masks:
        does, call = context.of(function).boolean_masks, call_on(function, context.samples("causal", function)[0])
        reason = f"{does} masks of 0 and 1 and takes bool only; everything else is judged with bool masks"
        return Finding("failed", reason, ids=("mask-kind",), call=replace(call, literal=True))
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
    """Judge each variant of the arguments by the values of its sample; refused ones are left out."""
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
            if not is_right(context, function, sample, "inconclusive"):
                continue  # wrong with plain arrays, too, which other checks say
            call = call_on(function, sample, others)
            if is_right(context, function, sample, **others):
                again = f"wrong for {what}, and right when asked again"
                return failed_on(function, sample, again, ids=("nondeterministic",), call=call)
            measured = {"error": verdict.error, "bound": verdict.bound} if verdict else {}
            ids = ("wrong-shape",) if problem else _id_of(id, function, sample, answer.parts)
            reason = f"wrong for {what}: {problem or (verdict.reason if verdict else '')}"
            return failed_on(function, sample, reason, **measured, ids=ids, call=call)
        passed.append(what)
    if not passed:
        return Finding("not_applicable", f"takes none of them: {refused[0]}" if refused else "no case applies")
    left = f"; not taken: {refused[0]}" if refused else ""
    return Finding("passed", f"{', '.join(dict.fromkeys(passed))}{left}")


def _id_of(id: str, function: str, sample: Sample, parts: tuple[NDArray[Any], ...]) -> tuple[str, ...]:
    """The id; "low-precision" only of an error that a coarser format could make."""
    if id != "low-precision":
        return (id,)
    pairs = zip(parts, reference(function, sample), strict=True)
    small = all(np.linalg.norm(part - true.value) <= 0.02 * np.linalg.norm(true.value) for part, true in pairs)
    return (id,) if small else ()


def _one_changed(context: Context, function: str) -> Finding:
    """A failure where a result is wrong after a call that shared all but one input; judged where all else is right."""
    wrong = wrong_already(context, function)
    if wrong is not None:
        return wrong
    changed: dict[str, None] = {}
    bases = (*context.samples("full", function)[1:2], *context.samples("given-mask", function)[:1])
    if context.of(function).spared:  # being slow is no mistake
        return Finding("not_applicable", context.of(function).spared)
    for base in bases:
        for name, before, variant in _variants(context, function, base):
            context.ask(function, before)
            answer = context.ask(function, variant)
            if context.misshapen(function, variant, answer) is not None:
                continue  # which other checks say
            verdict = judge(function, variant, answer.parts)
            if verdict.verdict in ("failed", "suspect"):
                problem = f"after a call that differs in {name} alone: {verdict.reason}"
                measured = {"error": verdict.error, "bound": verdict.bound}
                call = replace(call_on(function, variant), earlier=call_on(function, before))
                return failed_on(function, variant, problem, **measured, ids=("cached",), call=call)
            changed[name] = None
    if not changed:
        return Finding("not_applicable", "nothing to change")
    return Finding("passed", f"{', '.join(changed)}, each alone")


def _variants(context: Context, function: str, base: Sample) -> Iterator[tuple[str, Sample, Sample]]:
    """Another mask, another lam, and each array with its last two entries exchanged.

    All entries have few bits: no sum of them, or of their squares, tells exchanged ones from each other.
    """
    names, binding = FUNCTIONS[function].arguments, context.binding(function)
    base = base.changed(**{name: np.round(_FEW_BITS * getattr(base, name)) / _FEW_BITS for name in ARRAYS}).exact()
    if "mask" in names and binding.takes("mask"):
        if base.mask is not None:
            yield "mask", base, base.changed(mask=None)
        before = base if base.mask is None else base.changed(mask=np.tri(base.n).T)  # as many of 1 as in tri
        yield "mask", before, base.changed(mask=np.tri(base.n))
    if "lam" in names and binding.takes("lam"):
        yield "lam", base, base.changed(lam=2 * base.lam or 1.0)
    for name in (one for one in ARRAYS if one in names):
        array = getattr(base, name).copy()
        array.flat[[-1, -2]] = array.flat[[-2, -1]]
        if np.array_equal(array, getattr(base, name)):
            array.flat[-1] += 1 / _FEW_BITS
        yield name, base, base.changed(**{name: array}).exact()
