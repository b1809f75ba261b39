"""Does a function remember too much? One input changes, all others are equal to those of the call before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attnprune_verify.audit.checks.smaller import call_on
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.record import Finding
from attnprune_verify.audit.truth.samples import STABILITY, Sample
from attnprune_verify.audit.truth.tolerance import judge

__all__ = ["one_changed"]


def one_changed(context: Context, function: str) -> Finding:
    """A failure where a result is wrong after a call that shared all but one input; judged where all else is right."""
    wrong = context.wrong.get(function, set()) - set(STABILITY)
    if wrong:
        return Finding("not_applicable", f"wrong as it is, see values:{min(wrong)}")
    changed: dict[str, None] = {}
    bases = (*context.samples("full", function)[1:2], *context.samples("given-mask", function)[:1])
    if function in context.spared:  # being slow is no mistake
        return Finding("not_applicable", context.spared[function])
    for base in bases:
        for name, variant in _variants(context, function, base):
            context.ask(function, base)
            answer = context.ask(function, variant)
            if context.misshapen(function, variant, answer) is not None:
                continue  # which other checks say
            verdict = judge(function, variant, answer.parts)
            if verdict.verdict in ("failed", "suspect"):
                return Finding(
                    "failed",
                    f"after a call that differs in {name} alone: {verdict.reason}, on {variant.describe()}",
                    error=verdict.error,
                    bound=verdict.bound,
                    ids=("cached",),
                    call=call_on(function, variant),
                )
            changed[name] = None
    if not changed:
        return Finding("not_applicable", "nothing to change")
    return Finding("passed", f"{', '.join(changed)}, each alone")


def _variants(context: Context, function: str, base: Sample) -> Iterator[tuple[str, Sample]]:
    """Another mask, another lam, and each array with one other entry, the last one or all but the first row."""
    names, binding = FUNCTIONS[function].arguments, context.binding(function)
    if "mask" in names and binding.takes("mask"):
        others = [None] if base.mask is not None else []
        for mask in (*others, np.tri(base.n)):
            yield "mask", base.changed(mask=mask)
    if "lam" in names and binding.takes("lam"):
        yield "lam", base.changed(lam=2 * base.lam)
    for name in ("X", "W", "M", "V", "W_Q", "W_K", "M_Q", "M_K"):
        if name in names:
            array: Any = getattr(base, name).copy()
            array.flat[-1] *= 1.5
            yield name, base.changed(**{name: array}).exact()
