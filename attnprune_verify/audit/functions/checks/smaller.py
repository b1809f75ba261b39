"""Parts of every check: how it is declared, its failure on one sample, the same on the smallest instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.reference import parameters, reference
from attnprune_verify.audit.functions.truth.samples import STABILITY, Sample
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.naming.shrink import smallest
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer

Case = TypeVar("Case")
_OF_SEVERAL = ("unknown", "convention", "too-few-tokens")
"""Names that no single case shows."""


def check(function: str, name: str, says: str, ask: Callable[[Context, str], Finding], **more: Any) -> Check:
    """A check of a function of the contract; `more` of the check's fields."""
    return Check(function, name, says, FUNCTIONS[function].claim, lambda context: ask(context, function), **more)


def is_right(
    context: Context, function: str, sample: Sample, also: str = "", *, anew: bool = True, **others: Any
) -> bool:
    """Return True where a call, made anew or before, gives right values, or another verdict that is `also` allowed."""
    try:
        answer = context.ask(function, sample, **others) if anew else context.answer(function, sample)
    except NoAnswer:
        return False
    if context.misshapen(function, sample, answer) is not None:
        return False
    return judge(function, sample, answer.parts).verdict in ("passed", also)


def wrong_already(context: Context, function: str) -> Finding | None:
    """A function that is wrong on small benign instances needs no others."""
    seen = context.of(function).wrong - set(STABILITY)
    return Finding("not_applicable", f"wrong as it is, see values:{min(seen)}") if seen else None


def call_on(function: str, sample: Sample, others: dict[str, object] | None = None) -> Call:
    """The call that a snippet repeats; `others` replace arguments."""
    arguments = dict(zip(FUNCTIONS[function].arguments, parameters(function, sample), strict=True)) | (others or {})
    return Call(function, arguments, expected=tuple(part.value for part in reference(function, sample)))


def failed_on(function: str, sample: Sample, problem: str, **more: Any) -> Finding:
    """A failure on one sample, which the reason describes and the call repeats; `more` of the finding's fields."""
    return Finding("failed", f"{problem}, on {sample.describe()}", **{"call": call_on(function, sample), **more})


def shrunk(
    case: Case,
    cuts: Callable[[Case], Iterator[Case]],
    judged: Callable[[Case], Finding | None],
    reason: str,
    ids: tuple[str, ...],
    by_name: bool = True,
) -> Finding | None:
    """The finding with this reason, on the smallest case that still has it; None if there is no smaller one.

    Parameters
    ----------
    cuts : Callable[[Case], Iterator[Case]]
        The smaller cases.
    judged : Callable[[Case], Finding or None]
        What is found on one, None where it is right.
    by_name : bool
        Whether what is found there has to fit the ids.
    """

    def alike(one: Case) -> Finding | None:
        found = None
        with searching():
            found = judged(one)
        fits = found is not None and (not by_name or set(ids) <= {*found.ids, *_OF_SEVERAL})
        return found if fits else None

    best = smallest(case, cuts, lambda one: alike(one) is not None)
    small = None if best is case else alike(best)
    return small and replace(small, reason=f"{reason}. Smallest: {small.reason}", ids=ids)


def smaller_values(
    context: Context, function: str, sample: Sample, reason: str, stability: bool, ids: tuple[str, ...]
) -> Finding | None:
    """Show the wrong values on a smaller instance."""

    def judged(one: Sample) -> Finding | None:
        answer = context.ask(function, one)
        if context.misshapen(function, one, answer) is not None:
            return None
        found = judge(function, one, answer.parts, stability=stability)
        if found.verdict != "failed":
            return None
        measured = {"error": found.error, "bound": found.bound, "power": found.resolution}
        return failed_on(function, one, found.reason, **measured, samples=(one, sample))

    cuts = partial(type(sample).cuts, names=FUNCTIONS[function].arguments)
    return shrunk(sample, cuts, judged, reason, ids, by_name=False)
