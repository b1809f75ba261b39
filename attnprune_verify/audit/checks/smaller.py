"""The same wrong values on the smallest instance that shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.naming.shrink import linear_cuts, sample_cuts, smallest
from attnprune_verify.audit.record import Call, Finding
from attnprune_verify.audit.subject.process import NoAnswer
from attnprune_verify.audit.truth.layers import LinearLayer
from attnprune_verify.audit.truth.reference import parameters, reference
from attnprune_verify.audit.truth.samples import Sample
from attnprune_verify.audit.truth.tolerance import Judgement, judge

__all__ = ["call_on", "smaller_layer", "smaller_values"]


def call_on(function: str, sample: Sample, others: dict[str, object] | None = None) -> Call:
    """The call that a snippet repeats; `others` replace arguments."""
    arguments = dict(zip(FUNCTIONS[function].arguments, parameters(function, sample), strict=True)) | (others or {})
    return Call(function, arguments, expected=tuple(part.value for part in reference(function, sample)))


def smaller_values(
    context: Context, function: str, sample: Sample, reason: str, stability: bool, ids: tuple[str, ...]
) -> Finding | None:
    """A finding like the one with this reason, on the smallest instance; None if there is no smaller one."""

    def judged(one: Sample) -> Judgement | None:
        try:
            answer = context.ask(function, one)
            if context.misshapen(function, one, answer) is not None:
                return None
            found = judge(function, one, answer.parts, stability=stability)
        except (NoAnswer, ArithmeticError, ValueError):
            return None
        return found if found.verdict == "failed" else None

    names = FUNCTIONS[function].arguments
    found = smallest(sample, partial(sample_cuts, names=names), lambda one: judged(one) is not None)
    verdict = None if found is sample else judged(found)
    if verdict is None:
        return None
    return Finding(
        "failed",
        f"{reason}. Smallest: {verdict.reason}, on {found.describe()}",
        verdict.error,
        verdict.bound,
        verdict.resolution,
        ids,
        samples=(found, sample),
        call=call_on(function, found),
    )


def smaller_layer(
    judged: Callable[[LinearLayer], Finding | None], layer: LinearLayer, reason: str, ids: tuple[str, ...]
) -> Finding | None:
    """The same mistake of a baseline on a smaller layer; `judged` is what is found on one."""

    def alike(one: LinearLayer) -> Finding | None:
        try:
            found = judged(one)
        except (NoAnswer, ArithmeticError, ValueError, IndexError):
            return None
        return found if found is not None and set(ids) <= {*found.ids, "unknown"} else None

    found = smallest(layer, linear_cuts, lambda one: alike(one) is not None)
    small = None if found is layer else alike(found)
    return small and replace(small, reason=f"{reason}. Smallest: {small.reason}", ids=ids)
