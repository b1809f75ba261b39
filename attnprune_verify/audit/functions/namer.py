"""The name of the mistake behind a failure: rules in order, each with the program that made it necessary beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.context import MOST_CALLS, Context
from attnprune_verify.audit.functions.layer.sample import LAYERED
from attnprune_verify.audit.functions.naming.describing import summed_up
from attnprune_verify.audit.functions.naming.diagnosis import diagnose
from attnprune_verify.audit.functions.naming.fitting import Observation
from attnprune_verify.audit.functions.naming.mechanisms import FailingCase, by_experiment, needed
from attnprune_verify.audit.functions.probes import smoothly_wrong
from attnprune_verify.audit.functions.truth.reference import ENCLOSED
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.record import Call, Check, Diagnosis, Finding, Record
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.audit.subject.process import Subject

_UNKNOWN = ("unknown",)
_MOST_SEARCHES = 4  # chosen: long searches of a function, of a second or two each; half of them for large logits
_WEAK = {"threshold-off-by-one", "ties-dropped", "wrong-count"}  # names that wrong entries get by chance
_TELLING_LITTLE = ("ties", "edges")  # on equal or on few entries wrong rules agree with each other
_VANISHED = {"dense-target-uses-M", "zero-output"}  # of a few instances: a part that is missing has no such cause
_CORE = ("full", "causal", "given-mask", "outside-box", "lam-large", "binary-M")
_TAME = 2.0  # chosen: the largest logit of the benign instances
_MOST_ALIKE = 6  # chosen: twice the failing instances that a first search takes, numbers tell little each
_MOST_WORK = 40_000.0  # chosen: instances up to 30 x 20, whose truth costs a few milliseconds
_LAYER_CORE = (*_CORE, "several-heads")


class Namer:
    """The mistakes of each function so far, and the search for one more.

    Parameters
    ----------
    reopened : Callable[[], Subject] or None
        Starts the target in a process of its own; None where it cannot.
    """

    def __init__(self, context: Context, reopened: Callable[[], Subject] | None = None) -> None:
        self.context, self.reopened = context, reopened
        self._of_function: dict[str, Diagnosis | None] = {}
        self._of_single: dict[str, Diagnosis | None] = {}
        self._tried: dict[tuple[str, bool], int] = {}
        self._seen: dict[str, tuple[str, ...]] = {}
        self._overflowed: set[str] = set()
        self._behaviour: dict[str, str] = {}
        self._memory: dict[str, str] = {}
        self._by_name: dict[str, tuple[tuple[str, ...], str]] = {}
        self._unnamed: dict[str, tuple[Sample, ...]] = {}
        self._told: dict[str, str] = {}  # the experiment that named a function's mistake

    def name(self, check: Check, finding: Finding) -> Diagnosis:
        """The name that the first rule gives, or the one that the function's other failures have."""
        rules = (
            self._remembers,
            self._comes_and_goes,
            self._behaves,
            self._by_values,
            self._as_in_general,
            self._by_itself,
        )
        found = next(filter(None, (rule(check, finding) for rule in rules)), Diagnosis((), ""))
        found = self._of_precision(check, found)
        ids, words = self._remembered(check, found.ids or _UNKNOWN, found.words, finding.fitting)
        if ids == _UNKNOWN:
            self._unnamed[check.id] = finding.samples
        return Diagnosis(ids, words)

    def _remembers(self, check: Check, finding: Finding) -> Diagnosis | None:
        """A pruning program that answers otherwise in a process that has seen no other call, or from call to call."""
        name = check.function
        if finding.call is None or self.reopened is None or "rho" not in FUNCTIONS[name].arguments:
            return None
        if name not in self._memory:
            self._memory[name] = ""  # where a call raises
            self._memory[name] = self._memory_of(name, finding.call)
        return Diagnosis((self._memory[name],), SENTENCES[self._memory[name]]) if self._memory[name] else None

    def _memory_of(self, name: str, call: Call) -> str:
        """The name of a result that depends on more than the inputs; "" of one that does not."""
        assert self.reopened is not None
        try:
            with self.reopened() as subject:
                fresh = Context(subject, self.context.seed, self.context.declared)
                both = (fresh, fresh, self.context, self.context)
                results = [process.call(name, call.arguments, call.keywords).parts for process in both]
        except NoAnswer:
            return ""
        apart = [not _alike(*results[:2]), not _alike(*results[2:])]
        if all(apart):
            return "nondeterministic"
        return "stateful" if any(apart) or not _alike(results[0], results[2]) else ""

    def _comes_and_goes(self, check: Check, finding: Finding) -> Diagnosis | None:
        """A race: the result of a second call is right."""
        name = check.function
        if finding.ids or name in self._behaviour or not self._differs_now(name, finding):
            return None
        self._behaviour[name] = "nondeterministic"
        return Diagnosis(("nondeterministic",), "asked again, it is right")

    def _behaves(self, check: Check, finding: Finding) -> Diagnosis | None:
        """A gradient that returns (G_K, G_Q): whatever else is wrong is that; so of what comes and goes."""
        behaviour = self._behaviour.get(check.function)
        explains = not finding.ids or (behaviour == "parts-exchanged" and finding.ids == ("wrong-shape",))
        return Diagnosis((behaviour,), SENTENCES[behaviour]) if behaviour is not None and explains else None

    def _by_values(self, check: Check, finding: Finding) -> Diagnosis | None:
        """Every wrong formula: mistakes, factors, precision, behaviour, then experiments."""
        if finding.ids or check.function not in ENCLOSED or not finding.samples:
            return None
        with searching():
            check, finding = self._tamed(check, finding)
            found = self._diagnose(check, finding)
            if found.named:
                return found
            return self._by_behaviour(check.function) or self._by_experiment(check.function, finding, found)
        return Diagnosis(_UNKNOWN, "the search for the mistake broke off")

    def on_smaller(self, check: Check, finding: Finding) -> Diagnosis | None:
        """The name of an unnamed failure that fits the smaller instance, where more may show, and the first one."""
        if check.function not in ENCLOSED:
            return None
        found = None
        with searching():
            here = self._observed(check.function, list(finding.samples[:2]))
            found = diagnose(check.function, here, pairs=False, precision=False) if here else None
        return found if found is not None and found.named and not _VANISHED & set(found.ids) else None

    def _as_in_general(self, check: Check, finding: Finding) -> Diagnosis | None:
        """A law that is broken, of a function whose values are wrong by name."""
        general = self._of_function.get(check.function)
        return general if not finding.ids and general is not None and general.named else None

    def _by_itself(self, check: Check, finding: Finding) -> Diagnosis | None:
        """A check that names what it finds, such as inputs that were changed."""
        if not finding.ids:
            return None
        if finding.ids[0] in ("nondeterministic", "wrong-shape", "parts-exchanged"):
            self._behaviour[check.function] = finding.ids[0]  # explains whatever else is wrong
        return Diagnosis(finding.ids, "; ".join(SENTENCES[id] for id in finding.ids if id != "unknown"))

    def _of_precision(self, check: Check, found: Diagnosis) -> Diagnosis:
        """float32 inputs beside others, which do what they do alone; rare errors that the tolerance left room for."""
        if check.name == "mixed-dtypes" and found.ids in ((), ("low-precision",)):
            found = self._in_single(check.function) or found
        coarser = self.context.of(check.function).coarser is not None
        if found.ids in ((), _UNKNOWN) and check.name == "rare-errors" and coarser:
            return Diagnosis(("low-precision",), SENTENCES["low-precision"])
        return found

    def _remembered(
        self, check: Check, ids: tuple[str, ...], words: str, fitting: tuple[str, ...]
    ) -> tuple[tuple[str, ...], str]:
        """A baseline or a descent that is wrong by name somewhere is wrong by that elsewhere."""
        name = check.function
        if name in ENCLOSED:
            return ids, words
        first = self._by_name.setdefault(name, (ids, words))
        if ids == _UNKNOWN or first[0] == ("wrong-shape",) or set(first[0]) <= set(fitting):
            return first
        if first[0] == _UNKNOWN:
            if (
                set(ids) <= _WEAK or check.name in _TELLING_LITTLE
            ):  # what is wrong by no name elsewhere is so here by chance
                return _UNKNOWN, ""
            self._by_name[name] = (ids, words)
        return ids, words

    def settled(self, records: list[Record], checks: tuple[Check, ...]) -> list[Record]:
        """After all checks: give unnamed failures the name of the function's mistake, where it explains them."""
        names: dict[str, list[str]] = {}
        for record in records:
            if record.status == "failed" and record.diagnosis != _UNKNOWN:
                names.setdefault(record.function, []).extend(record.diagnosis)
        stable = {check.id for check in checks if check.stability}
        return [self._as_elsewhere(one, names.get(one.function, []), one.id in stable) for one in records]

    def _as_elsewhere(self, record: Record, names: list[str], stability: bool) -> Record:
        """The mistake that was found later; large logits hide which of a function's mistakes they show."""
        samples = self._unnamed.get(record.id, ())
        known = tuple(dict.fromkeys(names))
        if record.diagnosis != _UNKNOWN or not known:
            return record
        if not samples:  # as of a law that relates two results: nothing to compare with formulas
            one = len({id for id in known if id != "low-precision"}) == 1 and record.function in ENCLOSED
            words = "by the other failures; a law that is broken tells no more"
            return replace(record, diagnosis=known, words=f"{SENTENCES[known[0]]} ({words})") if one else record
        here = self._observed(record.function, sorted(samples, key=lambda sample: sample.work)[:3])
        found = diagnose(record.function, here, known=known) if here else None
        if found is not None and found.named:
            return replace(record, diagnosis=found.ids, words=found.words)
        if len(known) == 1 and stability:
            words = f"{SENTENCES[known[0]]} (by the other failures; large logits tell no more)"
            return replace(record, diagnosis=known, words=words)
        if known == ("low-precision",) and all(sample.X.dtype == np.float32 for sample in samples):
            words = f"{SENTENCES[known[0]]} (by the other failures; here, too, only float32 is wrong)"
            return replace(record, diagnosis=known, words=words)
        return record

    def _differs_now(self, name: str, finding: Finding) -> bool:
        """Return True where the failing call, repeated, gives the right value."""
        if name not in ENCLOSED or not finding.samples:
            return False
        sample = finding.samples[0]
        with searching():
            if FailingCase(self.context, name, sample).passes(sample):
                known = self.context.known(name, sample)
                return known is None or judge(name, sample, known.parts).verdict in ("failed", "suspect")
        return False

    def _by_behaviour(self, name: str) -> Diagnosis | None:
        """Changed inputs or earlier results explain wrong values that no formula gives."""
        known = self.context.of(name)
        for id, seen in (("mutates-input", known.changed), ("overwrites-results", known.overwritten)):
            if seen is not None:
                return Diagnosis((id,), SENTENCES[id])
        return None

    def _by_experiment(self, name: str, finding: Finding, unnamed: Diagnosis) -> Diagnosis:
        """The name that an experiment gives; else the features the failure needs, and what was excluded."""
        told = self._told.get(name, "")
        if self.context.of(name).calls > MOST_CALLS // 2:
            again = by_experiment(FailingCase(self.context, name, finding.samples[0]), told, alone=True)[0]
            asked = [one for one in self.context.asked(name) if one.work <= _MOST_WORK]
            told = summed_up(name, self._observed(name, asked))
            return again if again.named else Diagnosis(_UNKNOWN, "; ".join(filter(None, (unnamed.words, told))))
        fails = FailingCase(self.context, name, finding.samples[0]).fails
        needs, bare = needed(finding.samples[0], fails)
        alike = [one for one in finding.samples if needs <= one.extras]
        found = self._of_formulas(name, sorted(alike, key=lambda one: one.work)[:_MOST_ALIKE])
        if not found.named or (_VANISHED & set(found.ids) and name != "attention"):
            case = FailingCase(self.context, name, bare, self.reopened)
            found, now = by_experiment(case, told)
            self._told[name] = now or told
        needs -= {"lam"}
        said = [unnamed.words] if not found.named else []
        said += [found.words, f"needs {' and '.join(sorted(needs))}"] if needs else [found.words]
        if found.ids in (("cached",), ("nondeterministic",)):
            self._behaviour[name] = found.ids[0]
        return Diagnosis(found.ids, "; ".join(said))

    def _of_formulas(self, name: str, alike: list[Sample]) -> Diagnosis:
        """The formula that gives what is returned on the instances that have the features a failure needs."""
        here = [one for one in self._observed(name, alike) if _any_wrong(name, [one])]
        return diagnose(name, here, pairs=False, precision=False) if here else Diagnosis(_UNKNOWN, "")

    def _tamed(self, check: Check, finding: Finding) -> tuple[Check, Finding]:
        """Return the failure on the same instance with small logits, if it fails there too; else the failure itself.

        A sum over the last tile alone is 0 beside logits of thousands, and any wrong mask picks one entry a row.
        """
        name, large = check.function, [one for one in finding.samples if _towering(one)]
        if len(large) < len(finding.samples) or self._in_general(name) is not None:
            return check, finding
        if large and np.isfinite(top := max(large[0].largest[-2:])):
            sample, factor = large[0], (_TAME / top) ** 0.5
            tame = sample.changed(X=(sample.X * factor).astype(sample.X.dtype), name=f"{sample.name}-scaled").exact()
            if not _towering(tame) and FailingCase(self.context, name, tame).fails():
                return replace(check, stability=False, says=f"on {tame.describe()}"), replace(finding, samples=(tame,))
        return check, finding

    def _in_general(self, name: str) -> Diagnosis | None:
        """The mistake on the benign instances; None where they are right."""
        if name not in self._of_function:
            core = self._core(name)
            self._of_function[name] = self._general(name, core) if _any_wrong(name, core) else None
        return self._of_function[name]

    def _diagnose(self, check: Check, finding: Finding) -> Diagnosis:
        """Diagnose on the benign and the failing instances together; else on the failing ones alone."""
        name = check.function
        here = self._observed(name, sorted(finding.samples, key=lambda sample: sample.work)[:3])
        here = [one for one in here if _any_wrong(name, [one])] or here  # of two that are compared one may be right
        general = self._in_general(name)
        if general is not None and general.named:
            return general
        if general is None and (check.stability or all(map(_towering, finding.samples))) and _overflowing(here):
            self._overflowed.add(name)
            return Diagnosis(("unstable-exp",), SENTENCES["unstable-exp"])
        if here and self._seen.get(name):  # what was found elsewhere is looked for first: that is quick
            again = diagnose(name, here, known=self._seen[name])
            if again.named:
                return self._only_here(check, again)
        kind = (name, check.stability)  # large logits may show what others hardly do
        self._tried[kind] = self._tried.get(kind, 0) + 1
        if here and self._tried[kind] <= (_MOST_SEARCHES // 2 if check.stability else _MOST_SEARCHES):
            found = self._special(check, here, general)
            if check.stability and found.ids == (
                "weights-changed",
            ):  # what vanishes beside large logits is not cut off
                found = Diagnosis(_UNKNOWN, SENTENCES["unknown"])
            if not found.named and check.stability and name in self._overflowed:  # here it vanishes, or just not yet
                return Diagnosis(("unstable-exp",), SENTENCES["unstable-exp"])
            if found.named:
                self._seen[name] = tuple(dict.fromkeys((*self._seen.get(name, ()), *found.ids)))
            return found
        return general or Diagnosis(_UNKNOWN, SENTENCES["unknown"])

    def _general(self, name: str, core: list[Observation]) -> Diagnosis:
        """Name the mistake on the benign instances; an error that follows the inputs is no rounding to 16 bits."""
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
        special = diagnose(name, here, pairs=self._tried[name, check.stability] <= 2, precision="float32")
        return self._only_here(check, special) if special.named else special

    @staticmethod
    def _only_here(check: Check, special: Diagnosis) -> Diagnosis:
        if _VANISHED & set(special.ids) and check.function != "attention":
            return Diagnosis(_UNKNOWN, f"the attention part is 0 (only here: {check.says})")
        return Diagnosis(special.ids, f"{special.words} (only here: {check.says})")

    def _in_single(self, name: str) -> Diagnosis | None:
        """Diagnose benign instances in float32; None if they are right."""
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


def _alike(first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]]) -> bool:
    """Return True where two results differ by no more than sums in another order make them differ."""
    return len(first) == len(second) and all(
        a.shape == b.shape and np.allclose(a.astype(float), b.astype(float), rtol=1e-4, atol=0, equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )


def _any_wrong(name: str, observations: list[Observation]) -> bool:
    returned = ((one.sample, tuple(part for part in one.parts if part is not None)) for one in observations)
    return any(judge(name, sample, parts).verdict in ("failed", "suspect") for sample, parts in returned)


def _towering(sample: Sample) -> bool:
    """Return True where exp may overflow, in float32 at least."""
    return max(sample.largest[-2:]) > 80.0


def _overflowing(here: list[Observation]) -> bool:
    """Return True where results are not finite, or missing, on instances where only exp can overflow."""
    return not here or any(not all(np.isfinite(part).all() for part in one.parts if part is not None) for one in here)
