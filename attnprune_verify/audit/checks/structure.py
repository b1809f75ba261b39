"""How a function behaves as a program: shape, kind, its inputs, determinism, batches, optional arguments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnprune_verify.audit.cases import Case
from attnprune_verify.audit.checks.values import call_on
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.reference import parameters, reference
from attnprune_verify.audit.subject import NoAnswer

__all__ = ["structure_checks"]


def structure_checks(function: str) -> Iterator[Check]:
    """The checks every function on (M, X, W, ...) gets."""
    claim = FUNCTIONS[function].claim

    def check(name: str, says: str, ask: object) -> Check:
        return Check(function, name, says, claim, lambda context: ask(context, function))  # type: ignore[operator]

    yield check("shape", "the result has the contract's shape and kind", _shape)
    yield check("inputs-untouched", "no input array is changed", _untouched)
    yield check("deterministic", "equal calls give equal results", _deterministic)
    if FUNCTIONS[function].defaults:
        yield check("defaults", "lam = 0 and mask = None may be left out", _defaults)
    if "mask" in FUNCTIONS[function].arguments:
        yield check("bool-mask", "a mask of dtype bool means the same", _bool_mask)


def _plain_cases(context: Context) -> tuple[Case, ...]:
    return (
        context.cases("full")[1],
        context.cases("causal")[0],
        context.cases("given-mask")[0],
        context.cases("float32")[0],
    )


def _shape(context: Context, function: str) -> Finding:
    wide = ""
    for case in _plain_cases(context):
        try:
            answer = context.answer(function, case)
        except NoAnswer as refusal:
            if refusal.unreadable:
                return Finding("failed", str(refusal), ids=("wrong-shape",), call=call_on(function, case))
            raise
        problem = context.misshapen(function, case, answer)
        if problem is not None:
            return Finding(
                "failed", f"{problem}, on {case.describe()}", ids=("wrong-shape",), call=call_on(function, case)
            )
        if any(part.dtype.itemsize > case.X.dtype.itemsize and part.ndim for part in answer.parts):
            wide = "; returns more than float32 for float32 inputs"
    return Finding("passed", f"as the contract says{wide}")


def _untouched(context: Context, function: str) -> Finding:
    names = FUNCTIONS[function].arguments
    regimes = ("given-mask", "outside-box", "degenerate")
    for case in (*_plain_cases(context), *(case for regime in regimes for case in context.cases(regime))):
        answer = context.answer(function, case)
        if answer.changed:
            changed = ", ".join(names[index] for index in answer.changed)
            return Finding(
                "failed",
                f"changes its input {changed}, on {case.describe()}",
                ids=("mutates-input",),
                call=call_on(function, case),
            )
    return Finding("passed", "every input array is bit for bit as it was")


def _deterministic(context: Context, function: str) -> Finding:
    for case in _plain_cases(context):
        first = context.answer(function, case)
        for other in context.cases("full")[:2]:  # in between, something else: a stale cache shows
            context.ask(function, other)
        second = context.ask(function, case)
        truth = reference(function, case)
        for one, two, part in zip(first.parts, second.parts, truth, strict=True):
            with np.errstate(invalid="ignore"):
                gap = np.abs(one - two) if one.shape == two.shape else np.inf
                equal = np.array_equal(one, two, equal_nan=True)
            # Equal numbers at other addresses may be summed in another order; that much is allowed.
            if not equal and not np.all(gap <= part.bound / 4):
                return Finding(
                    "failed",
                    f"two equal calls differ by {np.nanmax(gap):.3g}, on {case.describe()}",
                    error=float(np.nanmax(gap)),
                    bound=float(np.max(part.bound) / 4),
                    ids=("nondeterministic",),
                    call=call_on(function, case),
                )
    return Finding("passed", "equal calls, with others in between, gave equal results")


def _defaults(context: Context, function: str) -> Finding:
    signature = FUNCTIONS[function]
    case = context.cases("lam-zero")[0]
    arguments = parameters(function, case)
    try:
        short = context.call(function, arguments[: len(arguments) - signature.defaults])
    except NoAnswer as refusal:
        return Finding("not_applicable", f"has no such defaults: {refusal}")
    full = context.answer(function, case)
    if all(np.array_equal(one, two, equal_nan=True) for one, two in zip(short.parts, full.parts, strict=True)):
        return Finding("passed", "leaving them out changes nothing")
    for one, part in zip(short.parts, reference(function, case), strict=True):
        if one.shape != part.value.shape or not np.all(np.abs(one - part.value) <= 2 * part.bound + part.radius):
            return Finding(
                "failed",
                "leaving them out gives another result than lam = 0 and mask = None",
                call=call_on(function, case),
            )
    return Finding("passed", "leaving them out changes nothing but rounding")


def _bool_mask(context: Context, function: str) -> Finding:
    for case in (context.cases("causal")[0], context.cases("given-mask")[0]):
        full = context.answer(function, case)
        assert case.mask is not None
        try:
            answer = context.call(function, [*parameters(function, case)[:-1], case.mask == 1])
        except NoAnswer as refusal:
            return Finding("not_applicable", f"takes no bool mask: {refusal}")
        for one, two, part in zip(answer.parts, full.parts, reference(function, case), strict=True):
            with np.errstate(invalid="ignore"):
                same = (one == two) | (np.isnan(one) & np.isnan(two))
                if one.shape != two.shape or not np.all((np.abs(one - two) <= 2 * part.bound) | same):
                    return Finding(
                        "failed",
                        f"a bool mask gives another result than 0 and 1 do, on {case.describe()}",
                        cases=(case,),
                        call=call_on(function, case),
                    )
    return Finding("passed", "bool and 0/1 masks agree")
