"""One audit under way: the subject, what it has answered so far, and what it has shown it does not accept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS, Binding, NotTaken, bound
from attnprune_verify.audit.functions.facts import FunctionFacts
from attnprune_verify.audit.functions.layer.bridge import described
from attnprune_verify.audit.functions.layer.sample import LAYERED
from attnprune_verify.audit.functions.truth.conventions import MaskConventions, patterns_of
from attnprune_verify.audit.functions.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.functions.truth.reference import parameters
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.subject.answers import Answer, NoAnswer, NotAccepted, SubjectLost
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.errors import InvalidInstance

_TOO_SLOW = 2.0  # chosen: predicted seconds beyond which an instance is left out
_SMALL = 6.0e2  # chosen: work of the instances that are never left out
_MOST_DEATHS = 2  # chosen: once may be the machine's fault
_MOST_NONSENSE = 3  # chosen: so many answers that nobody can read
MOST_CALLS = 300  # of one function, as the contract says
_DEFAULTS: dict[str, Any] = {"mask": None, "lam": 0.0, "momentum": 0.0}
_NUMBERS = ("loss", "relative_error", "factored_loss", "layer_loss", "layer_relative_error")
_ARRAYS = ("gradient", "loss_and_gradient", "hessian_vector_product", "factored_gradient")
_LAYER_ARRAYS = ("layer_attention", "layer_gradient")


class Context:
    """Calls with memory, judged in the `declared` precision unless the subject turns out to be coarser.

    Every method that calls the subject may raise `NoAnswer`.
    """

    def __init__(self, subject: Subject, seed: int, declared: Precision = FLOAT64) -> None:
        self.subject = subject
        self.seed = seed
        self.declared = declared
        self._known: dict[str, FunctionFacts] = {}
        self._kept: list[Sample] = []  # so that no id is used twice
        self._conventions: Mapping[str, Any] = {}
        self.patterns: tuple[str, ...] | None = None

    def declares(self, conventions: Any, patterns: Any) -> None:
        """Judge masks by the target's CONVENTIONS and PATTERNS.

        Raises
        ------
        InvalidInstance
            If they name what is none.
        """
        if not isinstance(conventions, Mapping | None):
            raise InvalidInstance(f"CONVENTIONS must be a mapping of names to choices; got {conventions!r}")
        self._conventions, self.patterns = conventions or {}, patterns_of(patterns)
        self.conventions("pruner")

    def conventions(self, function: str) -> MaskConventions:
        """The conventions that the masks of a function are judged by."""
        return MaskConventions.declared(function, self._conventions)

    def of(self, function: str) -> FunctionFacts:
        """The facts about a function."""
        if function not in self._known:
            binding = bound(FUNCTIONS[function], self.subject.functions.get(function))
            self._known[function] = known = FunctionFacts(binding)
            for words in (f"takes no {' and no '.join(binding.refused)}" if binding.refused else "", binding.note):
                if words:
                    known.say(words)
        return self._known[function]

    def each(self, fact: str) -> dict[str, Any]:
        """One fact about each function, where there is something to it."""
        found = {name: getattr(known, fact) for name, known in self._known.items()}
        return {name: value for name, value in found.items() if value and value != (0, 0)}

    @property
    def notes(self) -> dict[str, str]:
        return self.each("note")

    @property
    def calls(self) -> dict[str, int]:
        return self.each("calls")

    def precision(self, function: str) -> Precision:
        """The precision this function is judged in."""
        return self.of(function).coarser or self.declared

    def samples(self, regime: str, function: str) -> tuple[Sample, ...]:
        """The instances of a regime, without masks and regulariser for a function that takes none."""
        refused = frozenset(self.of(function).refused)
        every = asked_samples(function, self.seed, regime, self.precision(function), refused)
        found = (self.fitted(function, one) for one in every)
        return tuple(sample for sample in found if sample is not None)

    def fitted(self, function: str, sample: Sample) -> Sample | None:
        """The sample, with lam = 0 if the function takes no lam; None if the function cannot take the sample."""
        binding = self.binding(function)
        if sample.features & self.of(function).refused or (sample.mask is not None and not binding.takes("mask")):
            return None
        if sample.lam == 0 or binding.takes("lam"):
            return sample
        if "lam=0" not in sample.memo:
            sample.memo["lam=0"] = sample.changed(lam=0.0)
        bare: Sample = sample.memo["lam=0"]
        return bare

    def binding(self, function: str) -> Binding:
        """The places of the function's arguments in a call."""
        known = self.of(function)
        return known.binding.reordered(known.order) if known.order else known.binding

    def answer(self, function: str, sample: Sample) -> Answer:
        """Return the function's result on a sample, from a single call."""
        answers = self.of(function).answers
        if id(sample) not in answers:
            self._kept.append(sample)
            try:
                answers[id(sample)] = self.ask(function, sample)
            except NoAnswer as refusal:
                answers[id(sample)] = refusal
        found = answers[id(sample)]
        if isinstance(found, NoAnswer):
            raise found
        return found

    def known(self, function: str, sample: Sample) -> Answer | None:
        """Return the kept result of `answer` for this sample, if there is one."""
        found = self.of(function).answers.get(id(sample))
        return found if isinstance(found, Answer) else None

    def ask(self, function: str, sample: Sample, **others: Any) -> Answer:
        """Call the function on a sample again and return the result; `others` replace arguments."""
        values = dict(zip(FUNCTIONS[function].arguments, parameters(function, sample), strict=True))
        answer = self.call(function, {**values, **others}, where=sample.name)
        if sample.work >= _SMALL / 6:
            known = self.of(function)
            known.rate = min(known.rate, answer.seconds / sample.work)
            known.timed.append((sample.work, answer.seconds))
        return answer

    def predicted(self, function: str, sample: Sample) -> float:
        """Seconds a call on a large sample will take, from the largest ones so far; twice that, to be sure."""
        timed = sorted(self.of(function).timed)[-4:]
        return 2 * sample.work * max((seconds / work for work, seconds in timed), default=0.0)

    def judged_up_to(self, function: str, sample: Sample) -> None:
        """Remember the largest sizes."""
        known = self.of(function)
        known.largest = (max(known.largest[0], sample.n), max(known.largest[1], sample.d))

    def judged_matrix(self, function: str, shape: tuple[int, ...]) -> None:
        """Remember the largest shape of a matrix that was pruned rightly."""
        known = self.of(function)
        known.matrix = max(known.matrix, (shape[0], shape[1]), key=lambda one: one[0] * one[1])

    def call(
        self, function: str, values: dict[str, Any], options: dict[str, Any] | None = None, *, where: str = ""
    ) -> Answer:
        """Any call; a function that hung once, died twice or wrote nonsense thrice is not called again.

        Values at their default are left out where the subject has no parameter for them.
        """
        known, signature = self.of(function), FUNCTIONS[function]
        if known.given_up:
            unreadable = known.nonsense >= _MOST_NONSENSE
            raise NoAnswer(f"not called any more: {known.given_up}", unreadable=unreadable)
        sent = {name: described(value) for name, value in values.items()}
        arguments, keywords, names = self.placed(function, sent, options)
        known.calls += 1
        if known.calls >= MOST_CALLS:
            known.given_up = f"{MOST_CALLS} calls are enough"
        try:
            answer = self.subject.call(
                function, arguments, keywords, parts=signature.parts, attributes=signature.attributes
            )
        except NoAnswer as refusal:
            _learn(known, refusal)
            raise
        known.answered, known.returned = True, len(answer.parts)
        known.tensors |= bool(answer.detached)
        if answer.changed and known.changed is None:
            known.changed = (", ".join(names[index] for index in answer.changed if index < len(names)), where)
        if answer.overwritten and known.overwritten is None:
            known.overwritten = where
        return answer

    def remembered(
        self, function: str, values: dict[str, Any], options: dict[str, Any] | None = None, *, where: str = ""
    ) -> Answer:
        """Return the result of an equal call before, if there was one: for looking at it in another way."""
        key = (*_digests(values), *_digests(options or {}))
        results = self.of(function).results
        if key not in results:
            results[key] = self.call(function, values, options, where=where)
        return results[key]

    def placed(
        self,
        function: str,
        values: dict[str, Any],
        options: dict[str, Any] | None = None,
        *,
        literal: bool = False,
    ) -> tuple[list[Any], dict[str, Any], list[str]]:
        """Positional and keyword arguments as this function takes them, and the names of all.

        `literal`: in the contract's order and with its masks, whatever the function was found to want.

        Raises
        ------
        NotAccepted
            If there is no parameter for one that is not at its default.
        """
        binding = self.of(function).binding if literal else self.binding(function)
        values = {name: value for name, value in values.items() if binding.takes(name) or not _is_default(name, value)}
        options = {
            name: value
            for name, value in (options or {}).items()
            if binding.others is None or name in binding.others or not _is_default(name, value)
        }
        if self.of(function).boolean_masks and isinstance(values.get("mask"), np.ndarray) and not literal:
            values["mask"] = values["mask"] == 1
        try:
            return binding.place(values, options)
        except NotTaken as missing:
            raise NotAccepted(str(missing), raised=True) from None

    def forget(self, function: str) -> None:
        """Drop the answers under another way of calling."""
        known = self.of(function)
        known.answers, known.batches = {}, None

    def refuses(self, function: str, regime: str) -> str | None:
        """Features that make the function refuse every instance of a regime; None where it takes one."""
        refused = self.of(function).refused
        asked = asked_samples(function, self.seed, regime, self.precision(function))
        every = [sample.features & refused for sample in asked]
        return ", ".join(sorted(frozenset.union(*every))) if every and all(every) else None

    def asked(self, function: str) -> list[Sample]:
        """The samples on which the function was called."""
        return [sample for sample in self._kept if id(sample) in self.of(function).answers]

    def too_slow(self, function: str, sample: Sample) -> bool:
        """Return True where this instance would take a slow subject too long; small ones never do."""
        rate = self.of(function).rate
        return sample.work > _SMALL and np.isfinite(rate) and rate * sample.work > _TOO_SLOW

    def misshapen(self, function: str, sample: Sample, answer: Answer) -> str | None:
        """Return the reason that an answer is not of the contract's shape and kind, or None."""
        for part, shape in zip(answer.parts, shapes(function, sample), strict=True):
            if part.dtype.kind not in "biuf":
                return f"returns {part.dtype}, not real numbers"
            if part.shape != shape:
                return f"returns the shape {part.shape} where the contract says {shape or 'a number'}"
        return None

    def refuses_batches(self, function: str) -> str | None:
        """Return the reason that a batch X of shape (k, n, d) is not accepted, or None if it is: probed once."""
        known = self.of(function)
        if known.batches is None:
            found = self.samples("batch", function)
            problem = self._batch_problem(function, found[0]) if found else "is not asked for one in this precision"
            known.batches = "" if problem is None else f"takes no batch: with X of shape (3, 5, 4) it {problem}"
            answered = "answers batches in a wrong shape" if self._misread(function, found) else "takes no batches"
            known.say("takes batches" if problem is None else answered)
        return known.batches or None

    def misreads_batches(self, function: str) -> tuple[str, Sample] | None:
        """Return the fault in the shape of an answer to a batch, and the batch: functions that take none must raise."""
        problem, found = self.refuses_batches(function), self.samples("batch", function)
        return (problem, found[0]) if problem is not None and self._misread(function, found) else None

    def _misread(self, function: str, found: tuple[Sample, ...]) -> bool:
        """Return True where a batch was answered, in a shape that code for one sample does not make of it by accident.

        An array product carries another axis along: one result per sample, or one per pair of samples. In a target
        whose other functions average over batches that is no accident.
        """
        answer = self.known(function, found[0]) if found else None
        if answer is None or self.misshapen(function, found[0], answer) is None:
            return False
        pairs = zip(answer.parts, shapes(function, found[0]), strict=True)
        if any(part.ndim <= len(shape) for part, shape in pairs if part.shape != shape):
            return True
        peers = [peer for peer in _ARRAYS if peer != function and peer in self.subject.functions]
        return function not in ("attention", *LAYERED) and not all(map(self.refuses_batches, peers))

    def _batch_problem(self, function: str, sample: Sample) -> str | None:
        try:
            problem = self.misshapen(function, sample, self.answer(function, sample))
        except SubjectLost:
            raise
        except NoAnswer as refusal:
            problem = str(refusal)
        if problem is None and function in _NUMBERS:
            # A sum over whatever comes in takes a batch by accident; the functions that return arrays tell.
            peers = _LAYER_ARRAYS if function.startswith("layer") else _ARRAYS
            refusing = [peer for peer in peers if peer in self.subject.functions and self.refuses_batches(peer)]
            problem = f"returns a number, but the target's {refusing[0]} takes none" if refusing else None
        return problem

    def well_formed(self, function: str, some: Iterable[Sample]) -> list[tuple[Sample, tuple[NDArray[Any], ...]]]:
        """The samples that were answered in the right shape, with the answers."""
        found = []
        for sample in some:
            if self.too_slow(function, sample):
                continue
            try:
                answer = self.answer(function, sample)
            except NoAnswer:
                continue
            if self.misshapen(function, sample, answer) is None:
                found.append((sample, answer.parts))
        return found


_SHAPES: dict[str, Callable[[Any], tuple[tuple[int, ...], ...]]] = {
    "attention": lambda one: ((*one.X.shape[:-1], one.n),),
    "gradient": lambda one: (one.W.shape,),
    "hessian_vector_product": lambda one: (one.W.shape,),
    "loss_and_gradient": lambda one: ((), one.W.shape),
    "factored_gradient": lambda one: (one.W_Q.shape, one.W_K.shape),
    "layer_attention": lambda one: ((*one.X.shape[:-2], one.heads, one.n, one.n),),
    "layer_gradient": lambda one: (one.W_Q.shape, one.W_K.shape),
    "layer_relative_error": lambda one: ((one.heads,),),
}


def shapes(function: str, sample: Sample) -> tuple[tuple[int, ...], ...]:
    """The contract's shapes of what a function returns on a sample; a number has ()."""
    return _SHAPES[function](sample) if function in _SHAPES else ((),)


def shape_ids(function: str, sample: Sample, parts: tuple[NDArray[Any], ...]) -> tuple[str, ...]:
    """Name the mistake of results whose shapes are wrong: exchanged, or simply wrong."""
    turned = tuple(part.shape for part in parts) == shapes(function, sample)[::-1]
    return ("parts-exchanged",) if turned and len(parts) > 1 else ("wrong-shape",)


def _learn(known: FunctionFacts, refusal: NoAnswer) -> None:
    """Stop calling a function that takes too long."""
    if isinstance(refusal, SubjectLost):
        known.deaths += 1
        if refusal.hung or known.deaths >= _MOST_DEATHS:
            known.given_up = f"an earlier call {refusal}"
    if refusal.unreadable:
        known.nonsense += 1
        if known.nonsense >= _MOST_NONSENSE:
            known.given_up = f"{_MOST_NONSENSE} calls {refusal}"


def _digests(values: dict[str, Any]) -> Iterator[object]:
    for name, value in values.items():
        array = np.asarray(value)
        yield name, array.dtype.str, array.shape, array.tobytes()


def _is_default(name: str, value: Any) -> bool:
    return name in _DEFAULTS and (value is None or isinstance(value, (int, float))) and value == _DEFAULTS[name]
