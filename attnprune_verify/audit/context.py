"""One audit under way: the subject, what it has answered so far, and what it has shown it does not accept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.binding import Binding, NotTaken, bound
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.layer.bridge import described
from attnprune_verify.audit.layer.sample import LAYERED, LayerSample
from attnprune_verify.audit.subject.process import Answer, NoAnswer, Subject, SubjectLost
from attnprune_verify.audit.truth.asked import asked_samples
from attnprune_verify.audit.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.truth.reference import parameters
from attnprune_verify.audit.truth.samples import Sample

__all__ = ["MOST_CALLS", "Context", "NotAccepted"]

_TOO_SLOW = 2.0  # predicted seconds beyond which an instance is left out
_SMALL = 6.0e2  # work of the instances that are never left out
_MOST_DEATHS = 2
_MOST_NONSENSE = 3
MOST_CALLS = 300  # of one function
_DEFAULTS: dict[str, Any] = {"mask": None, "lam": 0.0, "momentum": 0.0}
_NUMBERS = ("loss", "relative_error", "factored_loss", "layer_loss", "layer_relative_error")
_ARRAYS = ("gradient", "loss_and_gradient", "hessian_vector_product", "factored_gradient")
_LAYER_ARRAYS = ("layer_attention", "layer_gradient")


class NotAccepted(NoAnswer):
    """The subject has no parameter for what it was to be asked."""


class Context:
    """Calls with memory. Every method that calls the subject may raise `NoAnswer`.

    Attributes
    ----------
    declared : the precision the target is judged in unless it turns out to be coarser
    coarser : functions that are right in a coarser precision only
    boolean_masks : functions that take masks of dtype bool only, and what they do with 0 and 1
    order : functions whose parameters are in another order than the contract's
    changed, overwritten : the first call of each function that changed an input, or an earlier result
    tensors : functions that return tensors with a graph, or that may have one
    returned : how many things each function returned last
    refused : the features of layers that each function refuses
    wrong : the regimes on which each function was found wrong
    largest : the largest n and the largest d each function was judged on
    matrices : the same of the matrices that are pruned
    """

    def __init__(self, subject: Subject, seed: int, declared: Precision = FLOAT64) -> None:
        self.subject = subject
        self.seed = seed
        self.declared = declared
        self.coarser: dict[str, Precision] = {}
        self.smooth: dict[str, bool] = {}
        self.boolean_masks: dict[str, str] = {}
        self.order: dict[str, tuple[str, ...]] = {}
        self.notes: dict[str, str] = {}
        self.changed: dict[str, tuple[str, str]] = {}
        self.overwritten: dict[str, str] = {}
        self.tensors: set[str] = set()
        self.returned: dict[str, int] = {}
        self.largest: dict[str, tuple[int, int]] = {}
        self.matrices: dict[str, tuple[int, int]] = {}
        self.calls: dict[str, int] = {}
        self.wrong: dict[str, set[str]] = {}
        self.refused: dict[str, set[str]] = {}
        self._answers: dict[tuple[str, int], Answer | NoAnswer] = {}
        self._kept: list[Sample] = []  # so that no id is used twice
        self._given_up: dict[str, str] = {}
        self.spared: dict[str, str] = {}  # right so far, too slow for the largest instances
        self._deaths: dict[str, int] = {}
        self._nonsense: dict[str, int] = {}
        self._rate: dict[str, float] = {}
        self._timed: dict[str, list[tuple[float, float]]] = {}
        self._answered: set[str] = set()
        self._batches: dict[str, str] = {}
        self._bindings: dict[str, Binding] = {}

    def precision(self, function: str) -> Precision:
        """The precision this function is judged in."""
        return self.coarser.get(function, self.declared)

    def samples(self, regime: str, function: str) -> tuple[Sample, ...]:
        """The instances of a regime, without masks and regulariser for a function that takes none."""
        refused = frozenset(self.refused.get(function, ()))
        every = asked_samples(function, self.seed, regime, self.precision(function), refused)
        found = (self.fitted(function, one) for one in every)
        return tuple(sample for sample in found if sample is not None)

    def fitted(self, function: str, sample: Sample) -> Sample | None:
        """The sample as this function can be asked it: without the regulariser it does not know; None with a mask."""
        binding = self.binding(function)
        if isinstance(sample, LayerSample):
            return None if sample.features & self.refused.get(function, set()) else sample
        if sample.mask is not None and not binding.takes("mask"):
            return None
        if sample.lam == 0 or binding.takes("lam"):
            return sample
        if "lam=0" not in sample.memo:
            sample.memo["lam=0"] = sample.changed(lam=0.0)
        bare: Sample = sample.memo["lam=0"]
        return bare

    def binding(self, function: str) -> Binding:
        """Return how the function is called."""
        if function not in self._bindings:
            binding = bound(FUNCTIONS[function], self.subject.functions.get(function))
            if binding.refused:
                self.note(function, f"takes no {' and no '.join(binding.refused)}")
            if binding.note:
                self.note(function, binding.note)
            self._bindings[function] = binding
        binding = self._bindings[function]
        return binding.reordered(self.order[function]) if function in self.order else binding

    def note(self, function: str, words: str) -> None:
        """Something about the function that the report says once."""
        known = self.notes.get(function)
        if known is None or words not in known:
            self.notes[function] = words if known is None else f"{known}; {words}"

    def answer(self, function: str, sample: Sample) -> Answer:
        """Return what the function returns on a sample; asked once."""
        key = (function, id(sample))
        if key not in self._answers:
            self._kept.append(sample)
            try:
                self._answers[key] = self.ask(function, sample)
            except NoAnswer as refusal:
                self._answers[key] = refusal
        found = self._answers[key]
        if isinstance(found, NoAnswer):
            raise found
        return found

    def known(self, function: str, sample: Sample) -> Answer | None:
        """Return what `answer` returned for this sample, if it was asked."""
        found = self._answers.get((function, id(sample)))
        return found if isinstance(found, Answer) else None

    def ask(self, function: str, sample: Sample, **others: Any) -> Answer:
        """Return what the function returns on a sample, asked again; `others` replace arguments."""
        values = dict(zip(FUNCTIONS[function].arguments, parameters(function, sample), strict=True))
        answer = self.call(function, {**values, **others}, where=sample.name)
        if sample.work >= _SMALL / 6:
            self._rate[function] = min(self._rate.get(function, np.inf), answer.seconds / sample.work)
            self._timed.setdefault(function, []).append((sample.work, answer.seconds))
        return answer

    def predicted(self, function: str, sample: Sample) -> float:
        """Seconds a call on a large sample will take, from the largest ones so far; twice that, to be sure."""
        timed = sorted(self._timed.get(function, []))[-4:]
        return 2 * sample.work * max((seconds / work for work, seconds in timed), default=0.0)

    def judged_up_to(self, function: str, sample: Sample) -> None:
        """Remember the largest sizes."""
        n, d = self.largest.get(function, (0, 0))
        self.largest[function] = (max(n, sample.n), max(d, sample.d))

    def judged_matrix(self, function: str, shape: tuple[int, ...]) -> None:
        """Remember the largest shape of a matrix that was pruned rightly."""
        rows, columns = self.matrices.get(function, (0, 0))
        self.matrices[function] = max((rows, columns), (shape[0], shape[1]), key=lambda one: one[0] * one[1])

    def call(
        self, function: str, values: dict[str, Any], options: dict[str, Any] | None = None, *, where: str = ""
    ) -> Answer:
        """Any call; a function that hung once, died twice or wrote nonsense thrice is not called again.

        Values at their default are left out where the subject has no parameter for them.
        """
        if function in self._given_up:
            unreadable = self._nonsense.get(function, 0) >= _MOST_NONSENSE
            raise NoAnswer(f"not called any more: {self._given_up[function]}", unreadable=unreadable)
        signature = FUNCTIONS[function]
        arguments, keywords, names = self.placed(function, _sent(values), options)
        self.calls[function] = self.calls.get(function, 0) + 1
        if self.calls[function] >= MOST_CALLS:
            self._given_up[function] = f"{MOST_CALLS} calls are enough"
        try:
            answer = self.subject.call(
                function, arguments, keywords, parts=signature.parts, attributes=signature.attributes
            )
        except NoAnswer as refusal:
            self._learn(function, refusal)
            raise
        self._answered.add(function)
        if answer.changed and function not in self.changed:
            self.changed[function] = (", ".join(names[index] for index in answer.changed if index < len(names)), where)
        if answer.overwritten:
            self.overwritten.setdefault(function, where)
        if answer.detached:
            self.tensors.add(function)
        self.returned[function] = len(answer.parts)
        return answer

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
        binding = self.binding(function)
        if literal:
            binding = self._bindings[function]
        values = {name: value for name, value in values.items() if binding.takes(name) or not _is_default(name, value)}
        options = {
            name: value
            for name, value in (options or {}).items()
            if binding.others is None or name in binding.others or not _is_default(name, value)
        }
        if function in self.boolean_masks and isinstance(values.get("mask"), np.ndarray) and not literal:
            values["mask"] = values["mask"] == 1
        try:
            return binding.place(values, options)
        except NotTaken as missing:
            raise NotAccepted(str(missing), raised=True) from None

    def _learn(self, function: str, refusal: NoAnswer) -> None:
        """Give up a function that costs more than it tells."""
        if isinstance(refusal, SubjectLost):
            self._deaths[function] = self._deaths.get(function, 0) + 1
            if refusal.hung or self._deaths[function] >= _MOST_DEATHS:
                self._given_up[function] = f"an earlier call {refusal}"
        if refusal.unreadable:
            self._nonsense[function] = self._nonsense.get(function, 0) + 1
            if self._nonsense[function] >= _MOST_NONSENSE:
                self._given_up[function] = f"{_MOST_NONSENSE} calls {refusal}"

    def forget(self, function: str) -> None:
        """Return what was answered under another way of calling does not count."""
        for key in [key for key in self._answers if key[0] == function]:
            del self._answers[key]
        self._batches.pop(function, None)

    def refuses(self, function: str, regime: str) -> str | None:
        """Return what a function refuses of all instances of a regime, or None."""
        refused = self.refused.get(function, set())
        asked = asked_samples(function, self.seed, regime, self.precision(function))
        every = [sample.features & refused for sample in asked if isinstance(sample, LayerSample)]
        return ", ".join(sorted(frozenset.union(*every))) if every and all(every) else None

    def asked(self, function: str) -> list[Sample]:
        """The samples the function was asked on."""
        ids = {key[1] for key in self._answers if key[0] == function}
        return [sample for sample in self._kept if id(sample) in ids]

    def answered(self, function: str) -> bool:
        """Return whether the function has ever returned."""
        return function in self._answered

    def too_slow(self, function: str, sample: Sample, most: float | None = None) -> bool:
        """Return whether this instance would take a slow subject too long; small ones never do."""
        limit = _TOO_SLOW if most is None else most
        return sample.work > _SMALL and self._rate.get(function, 0.0) * sample.work > limit

    def shapes(self, function: str, sample: Sample) -> tuple[tuple[int, ...], ...]:
        """The contract's shapes of what the function returns on a sample."""
        if isinstance(sample, LayerSample):
            return _layer_shapes(function, sample)
        square: tuple[int, ...] = sample.W.shape
        pair: tuple[int, ...] = sample.W_Q.shape
        return {
            "attention": ((*sample.X.shape[:-1], sample.n),),
            "gradient": (square,),
            "hessian_vector_product": (square,),
            "loss_and_gradient": ((), square),
            "factored_gradient": (pair, pair),
        }.get(function, ((),))

    def misshapen(self, function: str, sample: Sample, answer: Answer) -> str | None:
        """Why what was returned is not of the contract's shape and kind, or None."""
        for part, shape in zip(answer.parts, self.shapes(function, sample), strict=True):
            if part.dtype.kind not in "biuf":
                return f"returns {part.dtype}, not real numbers"
            if part.shape != shape:
                return f"returns the shape {part.shape} where the contract says {shape or 'a number'}"
        return None

    def shape_ids(self, function: str, sample: Sample, parts: tuple[NDArray[Any], ...]) -> tuple[str, ...]:
        """Return what parts of wrong shapes may be: each other's."""
        turned = tuple(part.shape for part in parts) == self.shapes(function, sample)[::-1]
        return ("parts-exchanged",) if turned and len(parts) > 1 else ("wrong-shape",)

    def refuses_batches(self, function: str) -> str | None:
        """Why a batch X of shape (k, n, d) is not accepted, or None if it is: probed once."""
        if function not in self._batches:
            found = self.samples("batch", function)
            problem = self._batch_problem(function, found[0]) if found else "is not asked for one in this precision"
            self._batches[function] = (
                "" if problem is None else f"takes no batch: with X of shape (3, 5, 4) it {problem}"
            )
            answered = "answers batches in a wrong shape" if self._misread(function, found) else "takes no batches"
            self.note(function, "takes batches" if problem is None else answered)
        return self._batches[function] or None

    def misreads_batches(self, function: str) -> tuple[str, Sample] | None:
        """What is wrong with the shape of an answer to a batch, and the batch: what takes none raises an exception."""
        problem, found = self.refuses_batches(function), self.samples("batch", function)
        return (problem, found[0]) if problem is not None and self._misread(function, found) else None

    def _misread(self, function: str, found: tuple[Sample, ...]) -> bool:
        """Return whether a batch was answered, in a shape that code for one sample does not make of it by accident.

        An array product carries another axis along: one result per sample, or one per pair of samples. In a target
        whose other functions average over batches that is no accident.
        """
        answer = self.known(function, found[0]) if found else None
        if answer is None or self.misshapen(function, found[0], answer) is None:
            return False
        shapes = self.shapes(function, found[0])
        if any(
            part.ndim <= len(shape) for part, shape in zip(answer.parts, shapes, strict=True) if part.shape != shape
        ):
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


def _sent(values: dict[str, Any]) -> dict[str, Any]:
    return {name: described(value) for name, value in values.items()}


def _layer_shapes(function: str, sample: LayerSample) -> tuple[tuple[int, ...], ...]:
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "layer_attention": ((*sample.X.shape[:-2], sample.heads, sample.n, sample.n),),
        "layer_gradient": (sample.W_Q.shape, sample.W_K.shape),
        "layer_relative_error": ((sample.heads,),),
    }
    return shapes.get(function, ((),))


def _is_default(name: str, value: Any) -> bool:
    return name in _DEFAULTS and (value is None or isinstance(value, (int, float))) and value == _DEFAULTS[name]
