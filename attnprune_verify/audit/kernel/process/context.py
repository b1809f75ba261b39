"""One kernel under audit: calls with memory, what it refuses, and how long it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.regimes import Regime, regimes
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.bridge import FACTS, TYPES
from attnprune_verify.audit.kernel.typing import Foreign
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
    """Return what a call returned.

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

    def __init__(self, subject: Subject, seed: int, precision: KernelPrecision) -> None:
        self.subject, self.seed, self.precision = subject, seed, precision
        self.notes: dict[str, str] = {}
        self.largest: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self._replies: dict[tuple[str, int], Reply | NoAnswer] = {}
        self._held: list[KernelSample] = []  # those with replies: another sample must not come to have the id of one
        self._refused: dict[tuple[str, frozenset[str]], str] = {}
        self._refused_all = ""
        self._taken: set[tuple[str, frozenset[str]]] = set()
        self._deaths: dict[str, int] = {}
        self._given_up: dict[str, str] = {}
        self._rate: dict[str, float] = {}
        self._skipped: dict[str, set[int]] = {}
        self.writes: set[str] = set()  # functions that were seen to change their inputs
        self.together: dict[str, Any] = {}  # by function, see kernel/together.py
        self.rows: dict[tuple[Any, ...], KernelSample] = {}
        self.tiny: dict[tuple[str, tuple[str, ...]], KernelSample] = {}
        self.quick = False  # pairs of small sizes only
        self.reopened: Callable[[], Subject] | None = None  # the kernel again, in a process of its own
        facts: dict[str, Any] = {}
        if FACTS in subject.functions:
            facts = json.loads(bytes(subject.call(FACTS, []).parts[0].astype(np.uint8)))
        self.framework = str(facts.get("framework", "numpy"))
        self.own_backward = bool(facts.get("own"))
        self.capabilities = tuple(facts.get("capabilities", ()))
        self.conventions = Conventions.declared(facts.get("conventions") or {})
        self.declares = bool(facts.get("declares"))  # conventions or capabilities, whichever
        self._regimes: dict[str, Regime] = {}
        self.read: dict[str, bool] = {}  # what the kernel was seen to mean, see kernel/acceptance.py
        self.unjudged: Callable[[KernelContext, str, KernelSample], str | None] = lambda *_: None
        if not self.own_backward and BACKWARD in subject.functions:
            self.notes[BACKWARD] = f"by {self.framework}'s automatic differentiation of attention"

    def regimes(self) -> dict[str, Regime]:
        """Every regime, under the conventions that the kernel declares."""
        if not self._regimes:
            self._regimes = {
                name: replace(regime, samples=tuple(map(self.meant, regime.samples)))
                for name, regime in regimes(self.seed, self.precision.name).items()
            }
        return self._regimes

    def meant(self, sample: KernelSample) -> KernelSample:
        """The sample under the conventions that the kernel declares."""
        if self.conventions == sample.conventions:
            return sample
        return sample.changed(conventions=self.conventions)

    def lacks(self, function: str, sample: KernelSample) -> list[str]:
        """Return what a sample needs that the function has no parameter for; other features are only tried."""
        needed = {PARAMETERS[name] for name in sample.features if name in PARAMETERS}
        needed -= {"dlse", "wanted"} if function == FORWARD else {"return_lse"}
        if not self.own_backward:
            needed = {"return_lse" if name == "dlse" else name for name in needed - {"wanted"}}
        return sorted(name for name in needed if not self.has(function, name))

    def answer(self, function: str, sample: KernelSample) -> Reply:
        """Return the function's result on a sample in fresh contiguous arrays, from a single call."""
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

    def known(self, function: str, sample: KernelSample) -> Reply | None:
        """Return the function's kept result on a sample; None if it was not called or returned nothing."""
        found = self._replies.get((function, id(sample)))
        return found if isinstance(found, Reply) else None

    def overflowed(self, function: str, sample: KernelSample) -> bool:
        """Return whether the answer was an arithmetic error."""
        found = self._replies.get((function, id(sample)))
        return isinstance(found, NoAnswer) and overflows(found)

    def predicted(self, function: str, some: Iterable[KernelSample]) -> float:
        """Seconds that calls on these samples will take, as far as earlier calls show."""
        return self._rate.get(function, 0.0) * sum(sample.work for sample in some)

    def has(self, function: str, parameter: str) -> bool:
        """Return whether the function names the parameter, or the target declares it."""
        return parameter in (*_names(self.subject.functions.get(function)), *self.capabilities)

    def ask(
        self,
        function: str,
        sample: KernelSample,
        layout: str = "",
        slot: str = "",
        probing: bool = False,
        **more: Foreign,
    ) -> Reply:
        """Call the function again and return the result; `more` are the bridge's arguments for modes.

        `probing`: whatever the kernel has not declared.
        """
        key = (function, frozenset(sample.features))
        if function == BACKWARD and self._refused_all:
            raise Refused(self._refused_all)
        if key in self._refused:
            raise Refused(self._refused[key])
        if lacks := self.lacks(function, sample):
            raise Refused(f"{function} has no parameter {' and '.join(lacks)}")
        if not probing and (why := self.unjudged(self, function, sample)) is not None:
            raise Refused(why)
        self._check_budget(function, sample)
        arrays = list(poisoned(sample))[: 3 + (function == BACKWARD)]
        how = {"keywords": sample.keywords(function), "layout": layout or sample.layout, "slot": slot,
               "parts": list(parts_of(function, sample)), "packed": sample.ends is not None, **more}  # fmt: skip
        try:
            reply = self._call(function, arrays, how, sample)
        except NoAnswer as none:
            undifferentiated = function == BACKWARD and not self.own_backward and "NotImplementedError" in str(none)
            if undifferentiated and not sample.features:  # with features it is they that are refused
                self.notes[BACKWARD] = f"attention cannot be differentiated: it {none}"
                self._refused_all = self.notes[BACKWARD]
                raise Refused(self._refused_all) from None
            open_ = key not in self._taken or self._undeclared(sample)
            if none.raised and sample.features and open_ and not overflows(none):
                self._refused[key] = f"{function} refuses {', '.join(sample.features)}: it {none}"
                raise Refused(self._refused[key]) from None
            raise
        self._taken.add(key)
        return reply

    def _undeclared(self, sample: KernelSample) -> bool:
        """Return whether the sample has a mask that the kernel has not declared, and may refuse on any sizes."""
        high = sample.mask is not None and sample.mask.ndim > 2
        return (high or sample.additive) and not self.capabilities

    def _call(self, function: str, arrays: list[Any], how: dict[str, Any], sample: KernelSample) -> Reply:
        self.calls[function] = self.calls.get(function, 0) + 1
        names = parts_of(function, sample)
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
        inputs = ("q", "k", "v", "do")[: len(arrays)] + ("array of a keyword",)
        return Reply(
            tuple(_unread(sample, name, part.astype(np.float64)) for name, part in zip(names, parts, strict=True)),
            tuple(TYPES[int(code)] if code >= 0 else "another type" for code in types),
            tuple(name for name, is_other in zip(inputs, changed, strict=True) if is_other),
            int(repeats[0]),
            int(repeats[1]),
        )

    def _check_budget(self, function: str, sample: KernelSample) -> None:
        if function in self._given_up:
            raise NoAnswer(f"is not called any more: an earlier call {self._given_up[function]}")
        if self.calls.get(function, 0) >= _MOST_CALLS:
            raise TooSlow(f"{function} has been called {_MOST_CALLS} times")
        seconds = self._rate.get(function, 0.0) * sample.work
        if sample.longest > SMALL and seconds > _TOO_SLOW:
            self._skipped.setdefault(function, set()).add(sample.longest)
            raise TooSlow(f"too slow: size {sample.longest} would take about {seconds:.0f} s")

    def refusals(self, function: str) -> list[str]:
        """Return the features that the function refuses, each once."""
        return [reason for (name, _), reason in self._refused.items() if name == function]

    def all_notes(self) -> dict[str, str]:
        """Notes by function: its calling convention, the largest size judged, the refused features."""
        found = {}
        for function in (FORWARD, BACKWARD):
            if function not in self.subject.functions:
                continue
            parts = [self.notes[function]] if function in self.notes else []
            parts.append(f"{self.framework}, {self.precision.name}, sizes up to {self.largest.get(function, 0)}")
            if function in self._skipped:
                parts.append(f"too slow for sizes {', '.join(map(str, sorted(self._skipped[function])))}")
            refused = _least(*({features for name, features in some if name == function}
                               for some in (self._refused, self._taken)))  # fmt: skip
            if refused:
                parts.append("refuses " + "; ".join(" with ".join(sorted(features)) for features in refused))
            found[function] = "; ".join(parts)
        return found


# The parameter that a feature needs; CAPABILITIES may name it in place of the signature.
PARAMETERS = {
    "window": "window", "softcap": "softcap", "alibi": "alibi", "bias": "bias", "sinks": "sinks",
    "dropout": "dropout_mask", "lse": "return_lse", "dlse": "dlse", "packed": "cu_seqlens_q",
    "dbias": "wanted", "dsinks": "wanted",
}  # fmt: skip


def poisoned(sample: KernelSample) -> tuple[NDArray[np.float64], ...]:
    """q, k, v and do, with the poison where nothing may be read."""
    arrays = (sample.q, sample.k, sample.v, sample.do)
    if sample.poison is None:
        return arrays
    keys, queries = sample.seen
    seen = (queries, keys, keys, queries)
    return tuple(np.where(used[..., None], x, sample.poison) for used, x in zip(seen, arrays, strict=True))


def _unread(sample: KernelSample, name: str, part: NDArray[np.float64]) -> NDArray[np.float64]:
    """A result without its entries that belong to poisoned inputs, which may be anything."""
    if sample.poison is None or name not in ("o", "lse", "dq", "dk", "dv"):
        return part
    used = sample.seen[name in ("o", "lse", "dq")]
    if part.shape[:3] != used.shape:
        return part
    nothing = -np.inf if name == "lse" else 0.0
    return np.where(used if part.ndim == 3 else used[..., None], part, nothing)


# Of masks, beside "mask" and a shape.
_KINDS = ("mask of rank 3", "mask of rank 4", "float mask")


def _least(refused: set[frozenset[str]], taken: set[frozenset[str]]) -> list[frozenset[str]]:
    """Return the sets of features that are refused without any smaller one of them being refused.

    A mask of a kind is refused for its kind, whatever its shape; "some" where others of the kind are read.
    """
    read = {feature for features in taken for feature in features}
    named = {kind: kind.replace("mask", "some masks", 1) if kind in read else kind for kind in _KINDS}
    less = {frozenset(named[kind] for kind in _KINDS if kind in features) or features for features in refused}
    return sorted((one for one in less if not any(other < one for other in less)), key=sorted)


def _names(parameters: Any) -> list[str]:
    """The names of a function's parameters, where they are known."""
    return [] if parameters is None or isinstance(parameters, int) else [one.name for one in parameters]


def overflows(none: NoAnswer) -> bool:
    """Return whether the subject overflowed or divided by zero, which is no refusal."""
    return any(name in str(none) for name in _ARITHMETIC)
