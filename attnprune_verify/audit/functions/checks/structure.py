"""Checks of a function as a program: how it is called, its precision, shape and kind, determinism, defaults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.smaller import call_on, check, failed_on
from attnprune_verify.audit.functions.context import Context, shape_ids
from attnprune_verify.audit.functions.truth.reference import ENCLOSED, Component, parameters, reference
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer

TIMES = 5
"""How often an equal call is repeated: on four samples, what differs every other time escapes with chance 2^-20."""


def structure_checks(function: str) -> Iterator[Check]:
    """The checks every function on (M, X, W, ...) gets."""
    yield check(function, "calling", "the parameters come in the contract's order, or have its names", _calling)
    yield precision_check(function)
    yield check(function, "shape", "the result has the contract's shape and kind", _shape)
    yield check(function, "deterministic", "equal calls give equal results", _deterministic)
    if FUNCTIONS[function].defaults:
        yield check(function, "defaults", "lam = 0 and mask = None may be left out", _defaults)


def precision_check(function: str) -> Check:
    """The check that a function keeps the precision it is judged in."""
    return check(function, "precision", "as precise as --dtype says, or as float64", _precision)


def plain_samples(context: Context, function: str) -> tuple[Sample, ...]:
    """One of each kind, as far as the function takes it."""
    kinds = (("full", 1), ("causal", 0), ("given-mask", 0), ("float32", 0))
    return tuple(sample for regime, index in kinds for sample in context.samples(regime, function)[index : index + 1])


def _calling(context: Context, function: str) -> Finding:
    order = context.of(function).order
    if order:
        contract = FUNCTIONS[function].arguments[: len(order)]
        return Finding(
            "failed",
            f"your parameter order looks like ({', '.join(order)}); the contract's is ({', '.join(contract)}). "
            "Everything else is judged in your order",
            ids=("argument-order",),
            call=replace(call_on(function, context.samples("full", function)[0].corner()), literal=True),
        )
    if not context.of(function).answered:
        return Finding("not_applicable", "no call was answered")
    binding = context.binding(function)
    said = f"{binding.note or ('by keyword' if not binding.order else 'by position')}"
    refused = f"; takes no {' and no '.join(binding.refused)}, and is not asked for it" if binding.refused else ""
    return Finding("passed", f"{said}{refused}")


def _precision(context: Context, function: str) -> Finding:
    if not context.of(function).answered:
        return Finding("not_applicable", "no call was answered")
    if context.declared.declared:
        return Finding("passed", f"judged as {context.declared.name}, as declared")
    coarser = context.of(function).coarser
    if coarser is None:
        return Finding("passed", "judged as float64")
    first = next(name for name in FUNCTIONS if context.of(name).coarser is not None)
    if first != function:
        return Finding("not_applicable", f"as precise as {coarser.name} only, as {first}:precision says")
    return Finding(
        "failed",
        f"as precise as {coarser.name}, not as the float64 of its inputs. If that is what it promises, audit it with "
        f"--dtype {coarser.name}; jax computes in float32 unless jax_enable_x64 is set. Everything else is judged in "
        f"{coarser.name}",
        error=coarser.unit_roundoff,
        bound=context.declared.unit_roundoff,
        ids=("low-precision",),
        call=_call_in_float64(context, function),
    )


def _call_in_float64(context: Context, function: str) -> Call | None:
    if function not in ENCLOSED:
        return None
    return call_on(function, asked_samples(function, context.seed, "full", context.declared)[1])


def _shape(context: Context, function: str) -> Finding:
    wide = ""
    for sample in plain_samples(context, function):
        try:
            answer = context.answer(function, sample)
        except NoAnswer as refusal:
            if refusal.unreadable:
                return Finding("failed", str(refusal), ids=("wrong-shape",), call=call_on(function, sample))
            raise
        problem = context.misshapen(function, sample, answer)
        if problem is not None:
            return failed_on(function, sample, problem, ids=shape_ids(function, sample, answer.parts))
        if any(part.dtype.itemsize > sample.X.dtype.itemsize and part.ndim for part in answer.parts):
            wide = f"; returns more than {sample.X.dtype} for {sample.X.dtype} inputs"
    return Finding("passed", f"as the contract says{wide}")


def _deterministic(context: Context, function: str) -> Finding:
    others = context.samples("full", function)[:2]
    for place, sample in enumerate(plain_samples(context, function)):
        first = context.answer(function, sample)
        if others:
            context.ask(function, others[place % len(others)])  # in between, something else: a stale cache shows
        truth = reference(function, sample)
        for _ in range(TIMES):
            found = _differing(first.parts, context.ask(function, sample).parts, truth)
            if found is not None:
                gap, bound = found
                problem = f"two equal calls differ by {gap:.3g}"
                return failed_on(function, sample, problem, error=gap, bound=bound, ids=("nondeterministic",))
    return Finding("passed", "equal calls, with others in between, gave equal results")


def _differing(
    first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]], truth: Sequence[Component]
) -> tuple[float, float] | None:
    """The difference of two results and its bound: equal numbers at other places may be summed in another order."""
    for one, two, part in zip(first, second, truth, strict=True):
        gap = _gap(one, two) if one.shape == two.shape else np.array(np.inf)
        if not np.all(gap <= part.bound):
            return float(np.max(gap)), float(np.max(part.bound))
    return None


def _gap(one: NDArray[Any], two: NDArray[Any]) -> NDArray[np.float64]:
    """The distance of two results: 0 where both are nan, infinite where only one is."""
    with np.errstate(invalid="ignore"):
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        return np.where(same, 0.0, np.nan_to_num(np.abs(one - two), nan=np.inf, posinf=np.inf))


def _defaults(context: Context, function: str) -> Finding:
    signature = FUNCTIONS[function]
    sample = context.samples("lam-zero", function)[0]
    values = dict(zip(signature.arguments, parameters(function, sample), strict=True))
    required = list(values)[: len(values) - signature.defaults]
    try:
        short = context.call(function, {name: values[name] for name in required})
    except NoAnswer as refusal:
        return Finding("not_applicable", f"has no such defaults: {refusal}")
    full = context.answer(function, sample)
    if all(np.array_equal(one, two, equal_nan=True) for one, two in zip(short.parts, full.parts, strict=True)):
        return Finding("passed", "leaving them out changes nothing")
    for one, part in zip(short.parts, reference(function, sample), strict=True):
        if one.shape != part.value.shape or not np.all(np.abs(one - part.value) <= 2 * part.bound + part.radius):
            ids = ("wrong-default",) if judge(function, sample, full.parts).verdict == "passed" else ()
            reason = "leaving them out gives another result than lam = 0 and mask = None"
            return Finding("failed", reason, ids=ids, call=call_on(function, sample))
    return Finding("passed", "leaving them out changes nothing but rounding")
