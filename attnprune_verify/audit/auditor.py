"""Runs checks on a subject and turns findings into records: waivers, diagnosis, the smallest instance, the snippet."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np

from attnprune_verify.audit.checks import chosen_checks
from attnprune_verify.audit.context import MOST_CALLS, Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.layer.bridge import MODULE
from attnprune_verify.audit.layer.sample import LAYERED
from attnprune_verify.audit.naming.diagnosis import Diagnosis, diagnose
from attnprune_verify.audit.naming.fitting import Observation
from attnprune_verify.audit.naming.sentences import SENTENCES
from attnprune_verify.audit.naming.snippet import as_code, audit_code
from attnprune_verify.audit.probes import probe, smoothly_wrong
from attnprune_verify.audit.record import Check, Finding, Record
from attnprune_verify.audit.subject.functions import printable
from attnprune_verify.audit.subject.process import NoAnswer, Subject
from attnprune_verify.audit.truth.precision import precision_named
from attnprune_verify.audit.truth.reference import ENCLOSED
from attnprune_verify.audit.truth.samples import Sample
from attnprune_verify.audit.truth.tolerance import judge
from attnprune_verify.audit.waivers import Waiver

__all__ = ["Auditor"]

# Benign instances in double precision on which most mistakes show; the diagnosis starts here.
_MOST_SEARCHES = 4
_MOST_SHRUNK = 3  # mistakes of a function that are shown on a smaller instance
_WEAK = {"threshold-off-by-one", "ties-dropped", "wrong-count"}  # names that wrong entries get by chance
_TELLING_LITTLE = ("ties", "edges")  # on equal or on few entries wrong rules agree with each other
_VANISHED = (("dense-target-uses-M",), ("zero-output",))
_CORE = ("full", "causal", "given-mask", "outside-box", "lam-large", "binary-M")
_LAYER_CORE = (*_CORE, "several-heads")


class Auditor(Examiner):
    """One target, one seed; a context manager that holds the subject's process.

    Raises
    ------
    InvalidInstance
        On entering: if TARGET cannot be read or imported, or has none of the contract's names.
    """

    functions = FUNCTIONS
    context: Context

    def __init__(
        self,
        target: object,
        seed: int = 0,
        waivers: tuple[Waiver, ...] = (),
        only: tuple[str, ...] = (),
        dtype: str | None = None,
        adapter: str = "",
    ) -> None:
        super().__init__(target, seed, waivers, adapter)
        self.only = only
        # A framework's threads do not survive a fork.
        forked = self.target.kind != "live" or not _of_framework(self.target.object)
        self.subject = Subject(self.target, tuple(FUNCTIONS), (MODULE, *LAYERED), bridged=LAYERED, forked=forked)
        self.context = Context(self.subject, seed, precision_named(dtype))
        self._probed: set[str] = set()
        self._of_function: dict[str, Diagnosis | None] = {}
        self._of_single: dict[str, Diagnosis | None] = {}
        self._shrunk: set[tuple[str, tuple[str, ...]]] = set()
        self._tried: dict[str, int] = {}
        self._seen: dict[str, tuple[str, ...]] = {}
        self._overflowed: set[str] = set()
        self._behaviour: dict[str, str] = {}
        self._by_name: dict[str, tuple[tuple[str, ...], str]] = {}
        self._unnamed: dict[str, tuple[Sample, ...]] = {}

    @property
    def checks(self) -> tuple[Check, ...]:
        """What is to be asked; `only` narrows it to some functions or checks."""
        return chosen_checks(self.only)

    @property
    def dtype(self) -> str | None:
        return self.context.declared.name if self.context.declared.declared else None

    @property
    def largest(self) -> dict[str, tuple[int, int]]:
        return dict(self.context.largest)

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        return dict(self.context.matrices)

    @property
    def notes(self) -> dict[str, str]:
        said = super().notes
        for name, features in self.context.refused.items():
            refused = f"refuses {', '.join(sorted(features))}"
            said[name] = f"{refused}; {said[name]}" if name in said else refused
        return said

    def prepare(self, function: str) -> None:
        if function not in self._probed:
            self._probed.add(function)
            probe(self.context, function)

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record, with diagnosis, smallest instance and snippet if there is a failure to explain."""
        ids, words = finding.ids, "; ".join(SENTENCES[id] for id in finding.ids if id != "unknown")
        snippet = instance = None
        if finding.status == "failed":
            behaviour = self._behaviour.get(check.function)
            if behaviour is None and not ids and self._differs_now(check.function, finding):
                ids, words = ("nondeterministic",), "asked again, it is right"
                self._behaviour[check.function] = "nondeterministic"
            elif behaviour is not None and not ids:
                ids, words = (behaviour,), SENTENCES[behaviour]
            elif not ids and check.function in ENCLOSED and finding.samples:
                try:
                    found = self._diagnose(check, finding)
                except (ArithmeticError, ValueError, IndexError, TypeError, NoAnswer) as error:
                    # A verdict stands whether or not its cause can be found.
                    found = Diagnosis(("unknown",), f"the search for the mistake broke off: {type(error).__name__}")
                if not found.named:
                    found = self._by_behaviour(check.function) or found
                ids, words = found.ids, found.words
            elif not ids and (general := self._of_function.get(check.function)) is not None and general.named:
                ids, words = general.ids, general.words
            elif behaviour == "parts-exchanged" and ids == ("wrong-shape",):
                ids, words = (behaviour,), SENTENCES[behaviour]
            elif ids and ids[0] in ("nondeterministic", "wrong-shape", "parts-exchanged"):
                self._behaviour[check.function] = ids[0]  # explains whatever else is wrong
            if check.name == "mixed-dtypes" and ids in ((), ("low-precision",)):
                single = self._in_single(check.function)  # what float32 inputs do alone they do beside others
                ids, words = (ids, words) if single is None else (single.ids, single.words)
            if ids in ((), ("unknown",)) and check.name == "rare-errors" and check.function in self.context.coarser:
                ids, words = ("low-precision",), SENTENCES["low-precision"]  # which the judgement left room for
            ids, words = self._remembered(check, ids or ("unknown",), words, finding.fitting)
            if ids == ("unknown",):
                self._unnamed[check.id] = finding.samples
            finding = self._smaller(check, finding, ids)
        if finding.status in ("failed", "could_not_run"):
            snippet = self._snippet(check, finding, ids if finding.status == "failed" else ())
        if finding.samples:
            instance = finding.samples[0].describe()
        return Record(
            check.id,
            check.function,
            check.claim,
            check.says,
            check.required,
            finding.status,
            finding.reason,
            ids if finding.status == "failed" else (),
            words,
            finding.error,
            finding.bound,
            finding.power,
            instance,
            self.seed,
            snippet,
        )

    def _remembered(
        self, check: Check, ids: tuple[str, ...], words: str, fitting: tuple[str, ...]
    ) -> tuple[tuple[str, ...], str]:
        """A baseline or a descent that is wrong by name somewhere is wrong by that elsewhere."""
        name = check.function
        if name in ENCLOSED:
            return ids, words
        first = self._by_name.setdefault(name, (ids, words))
        if ids == ("unknown",) or first[0] == ("wrong-shape",) or set(first[0]) <= set(fitting):
            return first
        if first[0] == ("unknown",):
            if (
                set(ids) <= _WEAK or check.name in _TELLING_LITTLE
            ):  # what is wrong by no name elsewhere is so here by chance
                return ("unknown",), ""
            self._by_name[name] = (ids, words)
        return ids, words

    def settled(self, records: list[Record]) -> list[Record]:
        """Once everything was asked: failures without a name, of functions that have one, may be of that name, too."""
        names: dict[str, list[str]] = {}
        for record in records:
            if record.status == "failed" and record.diagnosis != ("unknown",):
                names.setdefault(record.function, []).extend(record.diagnosis)
        return [self._as_elsewhere(record, names.get(record.function, [])) for record in records]

    def _as_elsewhere(self, record: Record, names: list[str]) -> Record:
        """The mistake that was found later; large logits hide which of a function's mistakes they show."""
        samples = self._unnamed.get(record.id, ())
        known = tuple(dict.fromkeys(names))
        if record.diagnosis != ("unknown",) or not known or not samples:
            return record
        here = self._observed(record.function, sorted(samples, key=lambda sample: sample.work)[:3])
        found = diagnose(record.function, here, known=known) if here else None
        if found is not None and found.named:
            return replace(record, diagnosis=found.ids, words=found.words)
        if len(known) == 1 and any(check.id == record.id and check.stability for check in self.checks):
            words = f"{SENTENCES[known[0]]} (by the other failures; large logits tell no more)"
            return replace(record, diagnosis=known, words=words)
        return record

    def _differs_now(self, name: str, finding: Finding) -> bool:
        """Whether the failing call, repeated, gives the right value."""
        if name not in ENCLOSED or not finding.samples:
            return False
        sample = finding.samples[0]
        try:
            answer = self.context.ask(name, sample)
            if self.context.misshapen(name, sample, answer) is not None:
                return False
            return judge(name, sample, answer.parts).verdict == "passed" and self._was_wrong(name, sample)
        except (NoAnswer, ArithmeticError, ValueError, TypeError):
            return False

    def _was_wrong(self, name: str, sample: Sample) -> bool:
        known = self.context.known(name, sample)
        return known is None or judge(name, sample, known.parts).verdict in ("failed", "suspect")

    def _by_behaviour(self, name: str) -> Diagnosis | None:
        """What a function did to its inputs or its earlier results explains wrong values nobody has a formula for."""
        for id, seen in (("mutates-input", self.context.changed), ("overwrites-results", self.context.overwritten)):
            if name in seen:
                return Diagnosis((id,), SENTENCES[id])
        return None

    def _diagnose(self, check: Check, finding: Finding) -> Diagnosis:
        """On the benign instances and the failing ones together; else on the failing ones alone."""
        name = check.function
        here = self._observed(name, sorted(finding.samples, key=lambda sample: sample.work)[:3])
        here = [one for one in here if _any_wrong(name, [one])] or here  # of two that are compared one may be right
        if name not in self._of_function:
            core = self._core(name)
            self._of_function[name] = self._general(name, core) if _any_wrong(name, core) else None
        general = self._of_function[name]
        if general is not None and general.named:
            return general
        if general is None and (check.stability or all(map(_towering, finding.samples))) and _overflowing(here):
            self._overflowed.add(name)
            return Diagnosis(("unstable-exp",), SENTENCES["unstable-exp"])
        if here and self._seen.get(name):  # what was found elsewhere is looked for first: that is quick
            again = diagnose(name, here, known=self._seen[name])
            if again.named:
                return self._only_here(check, again)
        self._tried[name] = self._tried.get(name, 0) + 1
        if here and self._tried[name] <= _MOST_SEARCHES:  # the search is long
            found = self._special(check, here, general)
            if check.stability and found.ids == (
                "weights-changed",
            ):  # what vanishes beside large logits is not cut off
                found = Diagnosis(("unknown",), SENTENCES["unknown"])
            if not found.named and check.stability and name in self._overflowed:  # here it vanishes, or just not yet
                return Diagnosis(("unstable-exp",), SENTENCES["unstable-exp"])
            if found.named:
                self._seen[name] = tuple(dict.fromkeys((*self._seen.get(name, ()), *found.ids)))
            return found
        return general or Diagnosis(("unknown",), SENTENCES["unknown"])

    def _general(self, name: str, core: list[Observation]) -> Diagnosis:
        """What is wrong with the benign instances; an error that follows the inputs is no rounding to 16 bits."""
        found = diagnose(name, core)
        short = found.ids == ("low-precision",) and "float32" not in found.words
        return diagnose(name, core, precision="float32") if short and smoothly_wrong(self.context, name) else found

    def _special(self, check: Check, here: list[Observation], general: Diagnosis | None) -> Diagnosis:
        """A mistake of one regime: one that the benign instances do not show, or that they do not have."""
        name = check.function
        if general is not None:
            special = diagnose(name, here, pairs=False, precision=False)
            return self._only_here(check, special) if special.named else general
        hidden = diagnose(name, [*self._core(name), *here], pairs=False)
        if hidden.named:
            return hidden
        single = self._in_single(name) if all(one.sample.X.dtype == np.float32 for one in here) else None
        if single is not None and single.named:
            return single
        # Rounding in 16 bits would show on the benign instances too.
        special = diagnose(name, here, pairs=self._tried[name] <= 2, precision="float32")
        return self._only_here(check, special) if special.named else special

    @staticmethod
    def _only_here(check: Check, special: Diagnosis) -> Diagnosis:
        if {"dense-target-uses-M", "zero-output"} & set(special.ids) and check.function != "attention":
            # A part that is missing on a few instances has no such cause.
            return Diagnosis(("unknown",), f"the attention part is 0 (only here: {check.says})")
        return Diagnosis(special.ids, f"{special.words} (only here: {check.says})")

    def _in_single(self, name: str) -> Diagnosis | None:
        """What is wrong with benign instances in float32; None if nothing is."""
        if name not in self._of_single:
            benign = self._observed(name, list(self.context.samples("float32", name)))
            wrong = _any_wrong(name, benign)
            found = diagnose(name, benign, pairs=False) if wrong else None
            self._of_single[name] = found and Diagnosis(found.ids, f"{found.words} (only in float32)")
        return self._of_single[name]

    def _core(self, name: str) -> list[Observation]:
        core = _LAYER_CORE if name in LAYERED else _CORE
        return self._observed(name, [sample for regime in core for sample in self.context.samples(regime, name)])

    def _observed(self, name: str, samples: list[Sample]) -> list[Observation]:
        return [Observation(sample, parts) for sample, parts in self.context.well_formed(name, samples)]

    def _smaller(self, check: Check, finding: Finding, ids: tuple[str, ...]) -> Finding:
        """The same failure on a smaller instance, as far as there is one; once for every mistake of a function."""
        name = check.function
        known = sum(function == name for function, _ in self._shrunk)
        dear = self.context.calls.get(name, 0) > MOST_CALLS // 2
        if finding.shrink is None or (name, ids) in self._shrunk or known >= _MOST_SHRUNK or dear:
            return finding
        self._shrunk.add((name, ids))
        try:
            return finding.shrink(ids) or finding
        except (NoAnswer, ArithmeticError, ValueError, IndexError, TypeError):
            return finding

    def _snippet(self, check: Check, finding: Finding, ids: tuple[str, ...]) -> str | None:
        """The call as code, in the subject's own order and names."""
        call, name, context = finding.call, check.function, self.context
        if call is None:
            return None
        try:
            placed, keywords, names = context.placed(name, call.arguments, call.keywords, literal=call.literal)
        except NoAnswer:
            return None
        positional = names[: len(placed)]
        title = f"{check.id} of the audit of {self.target.title}: {', '.join(ids) or finding.status}"
        return as_code(
            self.subject,
            replace(call, arguments=dict(zip(positional, placed, strict=True)), keywords=keywords),
            positional,
            title=printable(title),
            parts=_parts(name, context.returned.get(name, 1)),
            ids=ids,
            tensors=name in context.tensors,
        ) or audit_code(self.subject, check.id, self.seed, self.dtype)


def _parts(function: str, returned: int) -> tuple[str, ...]:
    """The names of what a function returns, where it is more than one thing; attributes with a dot in front."""
    attributes = FUNCTIONS[function].attributes
    if attributes:
        return tuple(f".{name}" for name in attributes)
    if function == "loss_and_gradient":
        return ("loss", "gradient")
    if FUNCTIONS[function].parts == 2:
        return ("G_Q", "G_K")
    return ("new_weight", "pruned") if FUNCTIONS[function].parts == 0 and returned == 2 else ()


def _of_framework(holder: object) -> bool:
    """Whether a live target says of itself, or of one of its functions, that it computes with another framework."""
    static = inspect.getattr_static  # what a property does is done in the subject's process
    functions = (holder.get(name) if isinstance(holder, dict) else static(holder, name, None) for name in FUNCTIONS)
    return any(static(one, "FRAMEWORK", "numpy") in ("torch", "jax") for one in (holder, *functions))


def _any_wrong(name: str, observations: list[Observation]) -> bool:
    returned = ((one.sample, tuple(part for part in one.parts if part is not None)) for one in observations)
    return any(judge(name, sample, parts).verdict in ("failed", "suspect") for sample, parts in returned)


def _towering(sample: Sample) -> bool:
    """Whether exp may overflow, in float32 at least."""
    return max(sample.largest[-2:]) > 80.0


def _overflowing(here: list[Observation]) -> bool:
    """Nothing finite, or nothing at all, on instances where only exp is in danger."""
    return not here or any(not all(np.isfinite(part).all() for part in one.parts if part is not None) for one in here)
