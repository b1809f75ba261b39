"""One audit under way: the subject, what it has answered so far, and what it has shown it does not accept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.cases import Case, cases
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.reference import parameters, reference
from attnprune_verify.audit.subject import Answer, NoAnswer, Subject, SubjectLost

__all__ = ["Context"]

_TOO_SLOW = 2.0  # predicted seconds beyond which an instance is left out
_SMALL = 6.0e2  # work of the instances that are never left out
_MOST_DEATHS = 2
_NUMBERS = ("loss", "relative_error", "factored_loss")
_ARRAYS = ("gradient", "loss_and_gradient", "hessian_vector_product", "factored_gradient")


class Context:
    """Calls with memory. Every method that calls the subject may raise `NoAnswer`."""

    def __init__(self, subject: Subject, seed: int) -> None:
        self.subject = subject
        self.seed = seed
        self.notes: dict[str, str] = {}
        self._answers: dict[tuple[str, int], Answer | NoAnswer] = {}
        self._kept: list[Case] = []  # so that no id is used twice
        self._given_up: dict[str, str] = {}
        self._deaths: dict[str, int] = {}
        self._rate: dict[str, float] = {}
        self._boolean_masks: set[str] = set()
        self._answered: set[str] = set()
        self._batches: dict[str, str] = {}

    def cases(self, regime: str) -> tuple[Case, ...]:
        return cases(self.seed, regime)

    def answer(self, function: str, case: Case) -> Answer:
        """What the function returns on a case; asked once."""
        key = (function, id(case))
        if key not in self._answers:
            self._kept.append(case)
            try:
                self._answers[key] = self.ask(function, case)
            except NoAnswer as refusal:
                self._answers[key] = refusal
        found = self._answers[key]
        if isinstance(found, NoAnswer):
            raise found
        return found

    def ask(self, function: str, case: Case) -> Answer:
        """What the function returns on a case, asked again."""
        arguments = self._within_arity(function, case, parameters(function, case))
        masked = case.mask is not None and "mask" in FUNCTIONS[function].arguments
        if masked and function in self._boolean_masks:
            arguments[-1] = arguments[-1] == 1
        try:
            answer = self.call(function, arguments)
        except NoAnswer as refusal:
            if not masked or not refusal.raised or function in self._boolean_masks:
                raise
            answer = self.call(function, [*arguments[:-1], arguments[-1] == 1])  # perhaps it takes bool only
            self._boolean_masks.add(function)
            self.notes[function] = "takes masks of dtype bool only"
        if case.work >= _SMALL / 6:
            self._rate[function] = min(self._rate.get(function, np.inf), answer.seconds / case.work)
        return answer

    def call(self, function: str, arguments: list[Any], keywords: dict[str, Any] | None = None) -> Answer:
        """Any call; a function that hung once, or died twice, is not called again."""
        if function in self._given_up:
            raise NoAnswer(f"not called any more: an earlier call {self._given_up[function]}")
        signature = FUNCTIONS[function]
        try:
            answer = self.subject.call(
                function, arguments, keywords, parts=signature.parts, attributes=signature.attributes
            )
        except SubjectLost as lost:
            self._deaths[function] = self._deaths.get(function, 0) + 1
            if lost.hung or self._deaths[function] >= _MOST_DEATHS:
                self._given_up[function] = str(lost)
            raise
        self._answered.add(function)
        return answer

    def answered(self, function: str) -> bool:
        """Whether the function has ever returned."""
        return function in self._answered

    def too_slow(self, function: str, case: Case) -> bool:
        """Whether this instance would take a slow subject too long; small ones never do."""
        return case.work > _SMALL and self._rate.get(function, 0.0) * case.work > _TOO_SLOW

    def shapes(self, function: str, case: Case) -> tuple[tuple[int, ...], ...]:
        return tuple(part.value.shape for part in reference(function, case))

    def misshapen(self, function: str, case: Case, answer: Answer) -> str | None:
        """Why what was returned is not of the contract's shape and kind, or None."""
        for part, shape in zip(answer.parts, self.shapes(function, case), strict=True):
            if part.dtype.kind not in "biuf":
                return f"returns {part.dtype}, not real numbers"
            if part.shape != shape:
                return f"returns the shape {part.shape} where the contract says {shape or 'a number'}"
        return None

    def refuses_batches(self, function: str) -> str | None:
        """Why a batch X of shape (k, n, d) is not accepted, or None if it is: probed once."""
        if function not in self._batches:
            case = self.cases("batch")[0]
            try:
                problem = self.misshapen(function, case, self.answer(function, case))
            except SubjectLost:
                raise
            except NoAnswer as refusal:
                problem = str(refusal)
            if problem is None and function in _NUMBERS:
                # A sum over whatever comes in takes a batch by accident; the functions that return arrays tell.
                refusing = [peer for peer in _ARRAYS if peer in self.subject.functions and self.refuses_batches(peer)]
                problem = f"returns a number, but the target's {refusing[0]} takes none" if refusing else None
            self._batches[function] = (
                "" if problem is None else f"takes no batch: with X of shape (3, 5, 4) it {problem}"
            )
            self.notes.setdefault(function, "takes batches" if problem is None else "takes no batches")
        return self._batches[function] or None

    def well_formed(self, function: str, some: Iterable[Case]) -> list[tuple[Case, tuple[NDArray[Any], ...]]]:
        """The cases that were answered in the right shape, with the answers."""
        found = []
        for case in some:
            if self.too_slow(function, case):
                continue
            try:
                answer = self.answer(function, case)
            except NoAnswer:
                continue
            if self.misshapen(function, case, answer) is None:
                found.append((case, answer.parts))
        return found

    def _within_arity(self, function: str, case: Case, arguments: list[Any]) -> list[Any]:
        """Leave out trailing arguments a subject has no parameter for, when they only say the default."""
        count = self.subject.functions.get(function)
        if count is None or count >= len(arguments):
            return arguments
        defaults = {"mask": case.mask is None, "lam": case.lam == 0.0}
        missing = FUNCTIONS[function].arguments[count:]
        if not all(defaults.get(name, False) for name in missing):
            raise NoAnswer(f"takes {count} positional arguments; the contract has {', '.join(missing)} as well")
        return arguments[:count]
