"""How a function behaves as a program: how it is called, its precision, shape and kind, determinism, defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.checks.smaller import call_on
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.naming.shrink import corner
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.process import NoAnswer
from attnprune_verify.audit.truth.asked import asked_samples
from attnprune_verify.audit.truth.reference import ENCLOSED, Component, parameters, reference
from attnprune_verify.audit.truth.samples import Sample
from attnprune_verify.audit.truth.tolerance import judge

__all__ = ["TIMES", "plain_samples", "precision_check", "structure_checks"]

TIMES = 5
"""How often an equal call is repeated: on four samples, what differs every other time escapes with chance 2^-20."""


def structure_checks(function: str) -> Iterator[Check]:
    """The checks every function on (M, X, W, ...) gets."""
    claim = FUNCTIONS[function].claim

    def check(name: str, says: str, ask: Callable[[Context, str], Finding]) -> Check:
        return Check(function, name, says, claim, lambda context: ask(context, function))

    yield check("calling", "the parameters come in the contract's order, or have its names", _calling)
    yield precision_check(function)
    yield check("shape", "the result has the contract's shape and kind", _shape)
    yield check("deterministic", "equal calls give equal results", _deterministic)
    if FUNCTIONS[function].defaults:
        yield check("defaults", "lam = 0 and mask = None may be left out", _defaults)


def precision_check(function: str) -> Check:
    """Whether the function keeps the precision it is judged in."""
    claim = FUNCTIONS[function].claim
    return Check(
        function,
        "precision",
        "as precise as --dtype says, or as float64",
        claim,
        lambda context: _precision(context, function),
    )


def plain_samples(context: Context, function: str) -> tuple[Sample, ...]:
    """One of each kind, as far as the function takes it."""
    kinds = (("full", 1), ("causal", 0), ("given-mask", 0), ("float32", 0))
    return tuple(sample for regime, index in kinds for sample in context.samples(regime, function)[index : index + 1])


def _calling(context: Context, function: str) -> Finding:
    order = context.order.get(function)
    if order is not None:
        contract = FUNCTIONS[function].arguments[: len(order)]
        return Finding(
            "failed",
            f"your parameter order looks like ({', '.join(order)}); the contract's is ({', '.join(contract)}). "
            "Everything else is judged in your order",
            ids=("argument-order",),
            call=replace(call_on(function, corner(context.samples("full", function)[0])), literal=True),
        )
    if not context.answered(function):
        return Finding("not_applicable", "no call was answered")
    binding = context.binding(function)
    said = f"{binding.note or ('by keyword' if not binding.order else 'by position')}"
    refused = f"; takes no {' and no '.join(binding.refused)}, and is not asked for it" if binding.refused else ""
    return Finding("passed", f"{said}{refused}")


def _precision(context: Context, function: str) -> Finding:
    if not context.answered(function):
        return Finding("not_applicable", "no call was answered")
    if context.declared.declared:
        return Finding("passed", f"judged as {context.declared.name}, as declared")
    coarser = context.coarser.get(function)
    if coarser is None:
        return Finding("passed", "judged as float64")
    first = next(iter(context.coarser))
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
            ids = context.shape_ids(function, sample, answer.parts)
            return Finding("failed", f"{problem}, on {sample.describe()}", ids=ids, call=call_on(function, sample))
        if any(part.dtype.itemsize > sample.X.dtype.itemsize and part.ndim for part in answer.parts):
            wide = f"; returns more than {sample.X.dtype} for {sample.X.dtype} inputs"
    return Finding("passed", f"as the contract says{wide}")


def _deterministic(context: Context, function: str) -> Finding:
    for sample in plain_samples(context, function):
        first = context.answer(function, sample)
        for other in context.samples("full", function)[:2]:  # in between, something else: a stale cache shows
            context.ask(function, other)
        truth = reference(function, sample)
        for _ in range(TIMES):
            found = _differing(first.parts, context.ask(function, sample).parts, truth)
            if found is not None:
                gap, bound = found
                return Finding(
                    "failed",
                    f"two equal calls differ by {gap:.3g}, on {sample.describe()}",
                    error=gap,
                    bound=bound,
                    ids=("nondeterministic",),
                    call=call_on(function, sample),
                )
    return Finding("passed", "equal calls, with others in between, gave equal results")


def _differing(
    first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]], truth: Sequence[Component]
) -> tuple[float, float] | None:
    """By how much two answers differ, and by how much they may: equal numbers elsewhere may be summed otherwise."""
    for one, two, part in zip(first, second, truth, strict=True):
        with np.errstate(invalid="ignore"):
            gap = np.abs(one - two) if one.shape == two.shape else np.inf
            equal = np.array_equal(one, two, equal_nan=True)
        if not equal and not np.all(gap <= part.bound):
            return float(np.nanmax(gap)), float(np.max(part.bound))
    return None


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
            right = judge(function, sample, full.parts).verdict == "passed"
            return Finding(
                "failed",
                "leaving them out gives another result than lam = 0 and mask = None",
                ids=("wrong-default",) if right else (),
                call=call_on(function, sample),
            )
    return Finding("passed", "leaving them out changes nothing but rounding")
