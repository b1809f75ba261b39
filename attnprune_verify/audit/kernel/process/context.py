"""One kernel under audit: calls with memory, what it refuses, and how long it takes."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.features import FEATURES, features_of
from attnprune_verify.audit.kernel.problem.integers import PagedSample
from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.regimes import Regime, regimes
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import KernelScope
from attnprune_verify.audit.kernel.process.bridge import TYPES
from attnprune_verify.audit.kernel.process.facts import CallFacts, Declared, Refused, Reply, TooSlow
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.audit.subject.answers import NoAnswer, SubjectLost
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.triton import BFLOAT16

SMALL = 64  # sizes that are never too slow
_TOO_SLOW = 5.0  # predicted seconds of a call
_RATED = 2_000.0  # work below which a call says nothing about speed
_MOST_CALLS = 1_600  # chosen: 300 of regimes and shapes, 320 of their interactions, as many again for names
_MOST_DEATHS = 2
_OF_GPU = re.compile("cuda|gpu", re.IGNORECASE)
_SHARE = 0.5  # of the time of a call that equal calls together may take; chosen
_ARITHMETIC = ("OverflowError", "ZeroDivisionError", "FloatingPointError")


class KernelContext:
    """The kernel and what its calls have shown; every method that calls it may raise `NoAnswer`.

    Attributes
    ----------
    functions : dict
        Facts by function.
    rows : dict
        Samples of combined features, shared by both functions.
    quick, both, on_cpu : bool
        Whether features are combined in pairs of small sizes only, both functions are judged, arrays are on the CPU.
    reopened : callable or None
        Starts the kernel again, in a process of its own.
    skip_reason : callable
        Why the kernel is not called on a sample, or None; see checks/skip_reason.py.
    plain : frozenset of str
        The features of the plain case: those that no call of this scope is without.
    """

    def __init__(self, subject: Subject, seed: int, precision: KernelPrecision) -> None:
        self.subject, self.seed, self.precision = subject, seed, precision
        self.declared = Declared.by(subject)
        self._scope = self.declared.scope
        self.plain: frozenset[str] = frozenset()
        self.functions: dict[str, CallFacts] = defaultdict(CallFacts)
        self.rows: dict[tuple[Any, ...], KernelSample] = {}
        self.quick, self.both, self.on_cpu = False, False, True
        self.reopened: Callable[[], Subject] | None = None
        self.skip_reason: Callable[[KernelContext, str, KernelSample], str | None] = lambda *_: None
        self._regimes: dict[str, Regime] = {}
        if not self.declared.own_backward and BACKWARD in subject.functions:
            note = f"by {self.declared.framework}'s automatic differentiation of attention"
            self.functions[BACKWARD].note = note

    @property
    def calls(self) -> dict[str, int]:
        """The number of calls so far, by function."""
        return {function: facts.calls for function, facts in self.functions.items()}

    @property
    def scope(self) -> KernelScope:
        """The sizes and the case of the kernel: those declared, or those that a probe has found."""
        return self._scope

    @scope.setter
    def scope(self, scope: KernelScope) -> None:
        self._scope, self._regimes = scope, {}
        # Not of its own regimes: the precision that the kernel is seen to have is not known yet
        self.plain = frozenset(regimes(self.seed, self.precision.name, scope)["plain"].samples[0].features)

    @property
    def maker(self) -> Maker:
        """A maker of samples in this scope."""
        return Maker(self.seed, self.precision, self.scope)

    def regimes(self) -> dict[str, Regime]:
        """Every regime in the kernel's scope, under the conventions that it declares."""
        if not self._regimes:
            self._regimes = {
                name: replace(regime, samples=tuple(map(self.meant, regime.samples)))
                for name, regime in regimes(self.seed, self.precision.name, self.scope).items()
            }
        return self._regimes

    def features(self, sample: KernelSample) -> frozenset[str]:
        """The features that a sample has beyond the plain case."""
        return frozenset(sample.features) - self.plain

    def meant(self, sample: KernelSample) -> KernelSample:
        """The sample under the conventions that the kernel declares, and in the precision that it was seen to have."""
        if (self.declared.conventions, self.precision) == (sample.conventions, sample.precision):
            return sample
        return sample.changed(conventions=self.declared.conventions, precision=self.precision)

    def lacks(self, function: str, sample: KernelSample) -> list[str]:
        """Parameters that features of the sample need and the function has not; layouts and grouped heads need none."""
        needed = {feature.parameter for feature in features_of(sample)} - {""}
        needed -= {"dlse", "wanted"} if function == FORWARD else {"return_lse"}
        if not self.declared.own_backward:
            needed = {"return_lse" if name == "dlse" else name for name in needed - {"wanted"}}
        return sorted(name for name in needed if not self.has(function, name))

    def answer(self, function: str, sample: KernelSample) -> Reply:
        """Return the function's result on a sample in fresh contiguous arrays, from a single call."""
        replies = self.functions[function].replies
        if id(sample) not in replies:
            try:
                replies[id(sample)] = sample, self.ask(function, sample)
            except NoAnswer as none:
                replies[id(sample)] = sample, none
        _, found = replies[id(sample)]
        if isinstance(found, NoAnswer):
            raise found
        return found

    def known(self, function: str, sample: KernelSample) -> Reply | None:
        """Return the function's kept result on a sample; None if it was not called or returned nothing."""
        _, found = self.functions[function].replies.get(id(sample), (sample, None))
        return found if isinstance(found, Reply) else None

    def overflowed(self, function: str, sample: KernelSample) -> bool:
        """Return True where the answer was an arithmetic error."""
        _, found = self.functions[function].replies.get(id(sample), (sample, None))
        return isinstance(found, NoAnswer) and overflows(found)

    def predicted(self, function: str, samples: Iterable[KernelSample]) -> float:
        """Seconds that calls on these samples will take, as far as earlier calls show."""
        rate = self.functions[function].seconds
        return rate * sum(sample.work for sample in samples) if np.isfinite(rate) else 0.0

    def has(self, function: str, parameter: str) -> bool:
        """Return True where the function names the parameter, or the target declares it."""
        return parameter in (*_names(self.subject.functions.get(function)), *self.declared.capabilities)

    def in_order(self, order: str, function: str, sample: KernelSample) -> Reply | None:
        """The reply to a call with the axes in another order; it judges nothing, and what it shows is forgotten."""
        facts, self.functions[function] = self.functions[function], CallFacts()
        try:
            return self.ask(function, sample, probing=True, order=order)
        except NoAnswer:
            return None
        finally:
            self.functions[function] = facts

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
        facts, features = self.functions[function], self.features(sample)
        why = facts.refuses_all or facts.refused.get(features) or self.scope.excludes(sample)
        if why := why or self._left_open(function, sample):
            raise Refused(why)
        if lacks := self.lacks(function, sample):
            raise Refused(f"{function} has no parameter {' and '.join(lacks)}")
        if not probing and (why := self.skip_reason(self, function, sample)) is not None:
            raise Refused(why)
        self._check_budget(function, sample)
        arrays = list(poisoned(sample))[: 3 + (function == BACKWARD)]
        how = {"keywords": self.keywords(function, sample), "layout": layout or sample.layout, "slot": slot,
               "parts": list(parts_of(function, sample)), "packed": sample.ends is not None,
               "paged": isinstance(sample, PagedSample), **more}  # fmt: skip
        try:
            reply = self._call(function, arrays, how, sample)
        except NoAnswer as none:
            undifferentiated = function == BACKWARD and not self.declared.own_backward
            if undifferentiated and "NotImplementedError" in str(none) and not features:
                # with features it is they that are refused
                facts.note = facts.refuses_all = f"attention cannot be differentiated: it {none}"
                raise Refused(facts.refuses_all) from None
            if BFLOAT16 in str(none):
                # no refusal: a run whose every call was refused would pass
                raise NoAnswer(f"was not judged: {BFLOAT16}") from None
            if not features and self.on_cpu and _OF_GPU.search(str(none)):
                raise NoAnswer(f"{none}; arrays are on the CPU: --device cuda, or device='cuda'", raised=True) from None
            if not features and sample.ends is None:
                facts.sizes[sample.shape] = not (none.raised and not overflows(none))
            unsure = features not in facts.accepted or self._undeclared(sample) or _first_groups(facts, sample)
            if none.raised and features and unsure and not overflows(none):
                facts.refused[features] = f"{function} refuses {', '.join(sorted(features))}: it {none}"
                raise Refused(facts.refused[features]) from None
            raise
        if function == BACKWARD and self._ungrouped(sample) and misshapen(function, sample, reply):
            raise Refused("the gradient of the only key head is left open where others refuse kv_heads < heads")
        facts.accepted.add(features)
        facts.shapes.add(sample.shape)
        if not features:
            facts.sizes[sample.shape] = True
        return reply

    def refuses(self, feature: str) -> bool:
        """Report whether a call was refused for one feature alone."""
        return any(frozenset({feature}) in facts.refused for facts in self.functions.values())

    def _left_open(self, function: str, sample: KernelSample) -> str | None:
        """The reason for leaving a single causal query open: NumPy broadcasts its mask where n != l is refused."""
        _, _, _, n, length, *_ = sample.shape
        if sample.causal and n == 1 < length and not self.declared.anything and self.refuses("l != n"):
            return f"{function} refuses l != n, which leaves open what one causal query sees"
        return None

    def _ungrouped(self, sample: KernelSample) -> bool:
        """Report whether query heads share the only key head, by broadcasting, while groups are refused."""
        return sample.shape[2] == 1 < sample.shape[1] and self.refuses("kv_heads < heads")

    def keywords(self, function: str, sample: KernelSample) -> dict[str, Any]:
        """The contract's keywords of a call; causal is left out where the kernel is always so and has no parameter."""
        found = sample.keywords(function)
        if self.scope.causal and not self.has(function, "causal"):
            found.pop("causal")
        if "page_size" in found and not self.has(function, "page_size"):
            found.pop("page_size")  # which the shape of k says
        return found

    def repeat(self, function: str, sample: KernelSample, count: int) -> Reply:
        """Call so often, as far as half the time of a call reaches, and return the answer furthest from the first.

        Counted and timed here: the subject's process has a clock and a counter that the subject can set.
        """
        first = found = self.ask(function, sample)
        made, other, furthest = 1, 0, 0.0
        end = time.monotonic() + _SHARE * self.subject.seconds_per_call
        while made < count and time.monotonic() < end:
            again = self.ask(function, sample)
            self.functions[function].calls -= 1  # together they count for one
            made += 1
            gap = max(map(_gap, first.parts, again.parts))
            other += gap > 0
            if gap > furthest:
                found, furthest = again, gap
        return replace(found, made=made, other=other)

    def _undeclared(self, sample: KernelSample) -> bool:
        """Return True where the sample has a mask that the kernel has not declared, and may refuse on any sizes."""
        high = sample.mask is not None and sample.mask.ndim > 2
        return (high or sample.additive) and not self.declared.capabilities

    def _call(self, function: str, arrays: list[Any], how: dict[str, Any], sample: KernelSample) -> Reply:
        facts = self.functions[function]
        facts.calls += 1
        facts.passed |= set(how["keywords"])
        names = parts_of(function, sample)
        try:
            attributes = (*names, "types", "changed")
            given = [self.precision.laid_down(array) for array in arrays]  # where the kernel's own arrays lie
            answer = self.subject.call(function, given, {"how": how}, attributes=attributes)
        except SubjectLost as lost:
            facts.deaths += 1
            if lost.hung or facts.deaths >= _MOST_DEATHS:
                facts.given_up = str(lost)
            raise
        if sample.work >= _RATED:
            facts.seconds = min(facts.seconds, answer.seconds / sample.work)
        facts.largest = max(facts.largest, sample.longest)
        *parts, types, changed = answer.parts
        inputs = ("q", "k", "v", "do")[: len(arrays)] + ("array of a keyword",)
        return Reply(
            tuple(_unread(sample, name, part.astype(np.float64)) for name, part in zip(names, parts, strict=True)),
            tuple(TYPES[int(code)] if code >= 0 else "another type" for code in types),
            tuple(name for i, name in enumerate(inputs) if i in answer.changed or changed[i]),
        )

    def _check_budget(self, function: str, sample: KernelSample) -> None:
        facts = self.functions[function]
        if facts.given_up:
            raise NoAnswer(f"is not called any more: an earlier call {facts.given_up}")
        if facts.calls >= _MOST_CALLS:
            raise TooSlow(f"{function} has been called {_MOST_CALLS} times")
        seconds = self.predicted(function, [sample])
        if sample.longest > SMALL and seconds > _TOO_SLOW:
            facts.skipped.add(sample.longest)
            raise TooSlow(f"too slow: size {sample.longest} would take about {seconds:.0f} s")

    def all_notes(self) -> dict[str, str]:
        """Notes by function: its calling convention, the largest size judged, the refused features."""
        found = {}
        for function in (FORWARD, BACKWARD):
            if function not in self.subject.functions:
                continue
            facts = self.functions[function]
            parts = [facts.note] if facts.note else []
            parts.append(f"{self.declared.framework}, {self.precision.name}, sizes up to {facts.largest}")
            if facts.skipped:
                parts.append(f"too slow for sizes {', '.join(map(str, sorted(facts.skipped)))}")
            refused = _least(set(facts.refused), facts.accepted)
            if refused:
                parts.append("refuses " + "; ".join(" with ".join(sorted(features)) for features in refused))
            found[function] = "; ".join(parts)
        return found


def poisoned(sample: KernelSample) -> tuple[NDArray[np.float64], ...]:
    """q, k, v and do as a kernel gets them: in pages, or with the poison where nothing may be read."""
    arrays = (sample.q, sample.k, sample.v, sample.do)
    if isinstance(sample, PagedSample):
        return (sample.q, sample.in_pages(sample.k), sample.in_pages(sample.v), sample.do)
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
    nothing = sample.conventions.empty_logarithm if name == "lse" else 0.0
    return np.where(used if part.ndim == 3 else used[..., None], part, nothing)


_KINDS = [feature.name for feature in FEATURES if feature.capability]
"""Kinds of masks, which have a shape as a feature beside them."""


def _first_groups(facts: CallFacts, sample: KernelSample) -> bool:
    """Return True where no groups were taken yet but those of a single key head, as arrays broadcast that."""
    return 1 < sample.shape[2] < sample.shape[1] and not any(1 < kv < heads for _, heads, kv, *_ in facts.shapes)


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
    """Return True where the subject overflowed or divided by zero, which is no refusal."""
    return any(name in str(none) for name in _ARITHMETIC)


def _gap(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The largest distance of two arrays that are not equal to the bit, at least the smallest number; else 0."""
    if one.shape != two.shape:
        return np.inf
    if one.tobytes() == two.tobytes():
        return 0.0
    with np.errstate(invalid="ignore"):
        distance = float(np.max(np.nan_to_num(np.abs(one - two), nan=np.inf)))
    return max(distance, float(np.finfo(float).tiny))
