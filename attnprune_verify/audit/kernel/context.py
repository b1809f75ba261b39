"""One kernel under audit: calls with memory, what it refuses, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.bridge import BACKWARD, FACTS, FORWARD, FRAMEWORKS, TYPES
from attnprune_verify.audit.kernel.foreign import Foreign
from attnprune_verify.audit.kernel.precision import Precision
from attnprune_verify.audit.kernel.regimes import Regime, regimes
from attnprune_verify.audit.kernel.sample import Sample
from attnprune_verify.audit.kernel.truth import parts_of
from attnprune_verify.audit.subject.process import NoAnswer, Subject, SubjectLost

__all__ = ["KernelContext", "Refused", "Reply", "TooSlow", "overflows"]

SMALL = 64  # sizes that are never too slow
_TOO_SLOW = 5.0  # predicted seconds of a call
_RATED = 2_000.0  # work below which a call says nothing about speed
_MOST_CALLS = 700  # chosen: 100 of the regimes, 180 of their interactions, as many again for names and small instances
_MOST_DEATHS = 2
_ARITHMETIC = ("OverflowError", "ZeroDivisionError", "FloatingPointError")


@dataclass(frozen=True, eq=False)
class Reply:
    """What a call returned.

    Attributes
    ----------
    parts : the arrays, as float64
    types : their dtypes' names
    changed : the inputs that were changed by the call
    made, other : how many equal calls were made, and how many of them differ from the first in a bit
    """

    parts: tuple[NDArray[np.float64], ...]
    types: tuple[str, ...]
    changed: tuple[str, ...]
    made: int = 1
    other: int = 0


class Refused(NoAnswer):
    """The kernel raised on something that it may refuse."""


class TooSlow(NoAnswer):
    """A large sample that would take too long."""


class KernelContext:
    """Every method that calls the subject may raise `NoAnswer`."""

    def __init__(self, subject: Subject, seed: int, precision: Precision) -> None:
        self.subject, self.seed, self.precision = subject, seed, precision
        self.notes: dict[str, str] = {}
        self.largest: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self._replies: dict[tuple[str, int], Reply | NoAnswer] = {}
        self._held: list[Sample] = []  # those with replies: another sample must not come to have the id of one
        self._refused: dict[tuple[str, frozenset[str]], str] = {}
        self._refused_all = ""
        self._taken: set[tuple[str, frozenset[str]]] = set()
        self._deaths: dict[str, int] = {}
        self._given_up: dict[str, str] = {}
        self._rate: dict[str, float] = {}
        self._skipped: dict[str, set[int]] = {}
        self.together: dict[str, Any] = {}  # by function, see kernel/together.py
        self.tiny: dict[tuple[str, tuple[str, ...]], Sample] = {}
        self.alignment: dict[str, bool] = {}
        self.quick = False  # pairs of small sizes only
        self.reopened: Callable[[], Subject] | None = None  # the kernel again, in a process of its own
        facts = subject.call(FACTS, []).parts[0] if FACTS in subject.functions else np.zeros(2)
        self.framework = FRAMEWORKS[int(facts[0])]
        self.own_backward = bool(facts[1])
        if not self.own_backward and BACKWARD in subject.functions:
            self.notes[BACKWARD] = f"by {self.framework}'s automatic differentiation of attention"

    def regimes(self) -> dict[str, Regime]:
        return regimes(self.seed, self.precision.name)

    def accepts(self, function: str, sample: Sample) -> bool:
        """Whether the function names every modifier the sample has; others are only tried."""
        found = self.subject.functions.get(function)
        asked = {"window", "softcap", "alibi"} & set(sample.features)
        return asked <= set(_names(found))

    def answer(self, function: str, sample: Sample) -> Reply:
        """What the function returns on a sample, in fresh contiguous arrays; asked once."""
        key = (function, id(sample))
        if key not in self._replies:
            self._held.append(sample)
            try:
                self._replies[key] = self.ask(function, sample)
            except NoAnswer as none:
                self._replies[key] = none
        found = self._replies[key]
        if isinstance(found, NoAnswer):
            raise found
        return found

    def known(self, function: str, sample: Sample) -> Reply | None:
        """Return what the function has returned on a sample; None where it was not asked or gave no answer."""
        found = self._replies.get((function, id(sample)))
        return found if isinstance(found, Reply) else None

    def overflowed(self, function: str, sample: Sample) -> bool:
        """Whether the answer was an arithmetic error."""
        found = self._replies.get((function, id(sample)))
        return isinstance(found, NoAnswer) and overflows(found)

    def predicted(self, function: str, some: Iterable[Sample]) -> float:
        """Seconds that calls on these samples will take, as far as earlier calls show."""
        return self._rate.get(function, 0.0) * sum(sample.work for sample in some)

    def ask(self, function: str, sample: Sample, layout: str = "", slot: str = "", **more: Foreign) -> Reply:
        """Return what the function returns, asked again; `more` is for the bridge, as modes have it."""
        key = (function, frozenset(sample.features))
        if function == BACKWARD and self._refused_all:
            raise Refused(self._refused_all)
        if key in self._refused:
            raise Refused(self._refused[key])
        if not self.accepts(function, sample):
            raise Refused(f"{function} has no parameter for {' and '.join(sample.features)}")
        self._check_budget(function, sample)
        arrays = [sample.q, sample.k, sample.v] + [sample.do] * (function == BACKWARD)
        how = {"keywords": sample.keywords, "layout": layout or sample.layout, "slot": slot, **more}
        try:
            reply = self._call(function, arrays, how, sample)
        except NoAnswer as none:
            undifferentiated = function == BACKWARD and not self.own_backward and "NotImplementedError" in str(none)
            if undifferentiated and not sample.features:  # with features it is they that are refused
                self.notes[BACKWARD] = f"attention cannot be differentiated: it {none}"
                self._refused_all = self.notes[BACKWARD]
                raise Refused(self._refused_all) from None
            if none.raised and sample.features and key not in self._taken and not overflows(none):
                self._refused[key] = f"{function} refuses {', '.join(sample.features)}: it {none}"
                raise Refused(self._refused[key]) from None
            raise
        self._taken.add(key)
        return reply

    def _call(self, function: str, arrays: list[Any], how: dict[str, Any], sample: Sample) -> Reply:
        self.calls[function] = self.calls.get(function, 0) + 1
        names = parts_of(function)
        try:
            attributes = (*names, "types", "changed", "repeats")
            answer = self.subject.call(function, arrays, {"how": how}, attributes=attributes)
        except SubjectLost as lost:
            self._deaths[function] = self._deaths.get(function, 0) + 1
            if lost.hung or self._deaths[function] >= _MOST_DEATHS:
                self._given_up[function] = str(lost)
            raise
        if sample.work >= _RATED:
            self._rate[function] = min(self._rate.get(function, np.inf), answer.seconds / sample.work)
        self.largest[function] = max(self.largest.get(function, 0), sample.longest)
        *parts, types, changed, repeats = answer.parts
        inputs = ("q", "k", "v", "do")[: len(arrays)] + ("mask",)
        return Reply(
            tuple(part.astype(np.float64) for part in parts),
            tuple(TYPES[int(code)] if code >= 0 else "another type" for code in types),
            tuple(name for name, is_other in zip(inputs, changed, strict=True) if is_other),
            int(repeats[0]),
            int(repeats[1]),
        )

    def _check_budget(self, function: str, sample: Sample) -> None:
        if function in self._given_up:
            raise NoAnswer(f"is not called any more: an earlier call {self._given_up[function]}")
        if self.calls.get(function, 0) >= _MOST_CALLS:
            raise TooSlow(f"{function} has been called {_MOST_CALLS} times")
        seconds = self._rate.get(function, 0.0) * sample.work
        if sample.longest > SMALL and seconds > _TOO_SLOW:
            self._skipped.setdefault(function, set()).add(sample.longest)
            raise TooSlow(f"too slow: size {sample.longest} would take about {seconds:.0f} s")

    def refusals(self, function: str) -> list[str]:
        """What the function refuses, each said once."""
        return [reason for (name, _), reason in self._refused.items() if name == function]

    def all_notes(self) -> dict[str, str]:
        """Per function: how it was called, the largest size judged, what it refuses."""
        found = {}
        for function in (FORWARD, BACKWARD):
            if function not in self.subject.functions:
                continue
            parts = [self.notes[function]] if function in self.notes else []
            parts.append(f"{self.framework}, {self.precision.name}, sizes up to {self.largest.get(function, 0)}")
            if function in self._skipped:
                parts.append(f"too slow for sizes {', '.join(map(str, sorted(self._skipped[function])))}")
            refused = [key for key in self._refused if key[0] == function]
            if refused:
                parts.append("refuses " + "; ".join(" with ".join(sorted(features)) for _, features in refused))
            found[function] = "; ".join(parts)
        return found


def _names(parameters: Any) -> list[str]:
    """The names of a function's parameters, where they are known."""
    return [] if parameters is None or isinstance(parameters, int) else [one.name for one in parameters]


def overflows(none: NoAnswer) -> bool:
    """Whether the subject overflowed or divided by zero, which is no refusal."""
    return any(name in str(none) for name in _ARITHMETIC)
