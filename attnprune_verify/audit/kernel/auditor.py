"""Runs the checks on a kernel and turns findings into records, as the audit of the paper's functions does."""

from __future__ import annotations

from dataclasses import replace

from attnprune_verify.audit.contract import Signature
from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.kernel.checks import integer_checks, kernel_checks
from attnprune_verify.audit.kernel.checks.integers import integer_mistake, integer_mistakes
from attnprune_verify.audit.kernel.checks.probe_scope import probe_scope
from attnprune_verify.audit.kernel.checks.skip_reason import skip_reason
from attnprune_verify.audit.kernel.checks.subnormal_weights import seen_precision
from attnprune_verify.audit.kernel.counterexample import counterexample
from attnprune_verify.audit.kernel.coverage import coverage
from attnprune_verify.audit.kernel.merges.check import WrongMerge
from attnprune_verify.audit.kernel.merges.checks import merge_checks, merge_named
from attnprune_verify.audit.kernel.names.conventions_diagnosis import by_convention, by_order, by_part
from attnprune_verify.audit.kernel.names.cross_talk import by_heads
from attnprune_verify.audit.kernel.names.naming import KernelNamer
from attnprune_verify.audit.kernel.names.shrink import failure, smallest_failing, without
from attnprune_verify.audit.kernel.options import CPU, NOTHING_CHOSEN, Options, as_given
from attnprune_verify.audit.kernel.problem.integer_cases import integers_of
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.process import bridge
from attnprune_verify.audit.kernel.process.bridged_merge import MERGES
from attnprune_verify.audit.kernel.process.context import KernelContext, poisoned
from attnprune_verify.audit.kernel.process.detect_framework import implied
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.reference_error import reference_errors
from attnprune_verify.audit.kernel.snippet import as_code
from attnprune_verify.audit.kernel.typing import Plain
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.record import Check, Coverage, Diagnosis, Finding, Record, chosen
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.audit.waivers import Waiver

FUNCTIONS: dict[str, Signature] = {
    "attention": Signature("attention", ("q", "k", "v"), "softmax(scale q k^T) v", "o"),
    "attention_backward": Signature(
        "attention_backward", ("q", "k", "v", "do"), "its gradients dq, dk, dv", "dq, dk, dv", parts=3
    ),
    **MERGES,
}
_MOST_MISTAKES = 3  # that one check names, each with the features it needs
_MOST_BARED = 8  # failing instances whose other features are taken away, for known formulas to be tried on
_MOST_SHOWN = 2**16  # chosen: numbers of an instance that a file of them holds
_MOST_SHRUNK = 6  # instances of a function
_NOT_LOOKED_FOR = "its name was not looked for, as the option for names says"


class KernelAuditor(Examiner):
    """One kernel, one precision, one seed; a context manager that holds the subject's process.

    Raises
    ------
    InvalidInstance
        On entering: if TARGET cannot be read or imported, or has none of the functions.
    """

    functions = FUNCTIONS

    def __init__(
        self,
        target: object,
        dtype: str = "float32",
        seed: int = 0,
        waivers: tuple[Waiver, ...] = (),
        options: Options = NOTHING_CHOSEN,
        declared: Plain | None = None,
    ) -> None:
        super().__init__(target, seed, waivers)
        self.options = options
        self._checks = chosen((*kernel_checks(options.modes), *integer_checks(), *merge_checks()), options.only)
        self.precision = precision_named(dtype)
        # A framework's threads do not survive a fork.
        self._forked = self.target.kind != "live" or _framework(self.target.object) == "numpy"
        self._through = (bridge.__name__, dtype, options.device, as_given(declared or {}))
        self.subject = self.opened()
        self._namer: KernelNamer | None = None
        self._shrunk: dict[str, int] = {}
        self._ordered: dict[str, Diagnosis | None] = {}
        self._behaviour: dict[str, str] = {}
        self._failing: list[tuple[Check, KernelSample]] = []
        self._wrong_merges: dict[str, list[WrongMerge]] = {}
        self._wrong_integers: dict[Check, tuple[KernelSample, ...]] = {}

    def begin(self) -> None:
        super().begin()
        self.context: KernelContext = KernelContext(self.subject, self.seed, self.precision)
        self.context.quick, self.context.on_cpu = self.options.quick, self.options.device == CPU
        self.context.skip_reason = skip_reason
        needed = self.context.declared.integers_alone
        self.context.scope = self.context.declared.scope if needed else probe_scope(self.context)
        self.context.precision = self.precision if needed else seen_precision(self.context)
        self.context.reopened = self.reopened if self._forked else None
        only_merges = any(map(self.present, MERGES)) and not any(map(self.present, (bridge.FORWARD, bridge.BACKWARD)))
        asked = {name for name in FUNCTIONS if name in self.subject.functions or (name in MERGES) == only_merges}
        asked -= {name for name in MERGES if not self.present(name)}
        self._checks = tuple(filter(self._of_kernel, (x for x in self._checks if x.function in asked))) or self._checks
        asked &= {check.function for check in self._checks} if needed else asked
        self.functions = {name: signature for name, signature in FUNCTIONS.items() if name in asked}
        judged = {check.function for check in self._checks if self.present(check.function)}
        self.context.both = {bridge.FORWARD, bridge.BACKWARD} <= judged

    def _of_kernel(self, check: Check) -> bool:
        """Report whether the kernel has the integers of a check, or a check without them can call it."""
        needed, integers = self.context.declared.integers_alone, integers_of(check)
        if integers:
            return integers in needed or self.context.has(check.function, integers)
        return not needed or check.function in MERGES

    def opened(self) -> Subject:
        return Subject(
            self.target, (*FUNCTIONS, bridge.FACTS), bridge=self._through, itself=bridge.FORWARD, forked=self._forked
        )

    @property
    def checks(self) -> tuple[Check, ...]:
        return self._checks

    @property
    def notes(self) -> dict[str, str]:
        """Notes by function: the framework, the precision, the largest size, the refused features."""
        found = self.context.all_notes()
        for function, said in reference_errors(self.context).items():
            found[function] = f"{found[function]}; {said}"
        return found | dict.fromkeys(MERGES.keys() & self.functions.keys(), self.precision.name)

    @property
    def coverage(self) -> Coverage:
        """The features and sizes that were judged, the parameters that no check has passed, the lines to declare."""
        found, joined = coverage(self.context, self.options), [name for name in self.functions if name in MERGES]
        return replace(found, judged=(*found.judged, *joined))

    @property
    def counterexample(self) -> Plain | None:
        """The smallest failing instance, those with the fewest features first."""
        if not self._failing:
            return None
        check, sample = min(self._failing, key=lambda one: _plainest(one[1]))
        return counterexample(check.id, check.function, sample, self.context)

    def absent(self, function: str) -> str:
        said = super().absent(function)
        if "forward_only" in self.context.declared.capabilities:
            return f"{said}: it declares forward_only"
        if function == bridge.BACKWARD:
            return f"{said}, and NumPy does not differentiate: it is judged forward only"
        return said

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record; of a failure with the mistake's name, the smallest instance that shows it, and a snippet."""
        diagnosis, instance, snippet, reason = Diagnosis((), ""), None, None, finding.reason
        if finding.status == "failed" and check.function in MERGES and not finding.ids:
            self._wrong_merges.setdefault(check.function, []).extend(finding.samples)
            instance = finding.samples[0].problem.says  # its name needs all failures
        elif finding.status == "failed":
            small = finding.samples[0] if finding.samples else None
            if not finding.ids and integers_of(check):
                id = integer_mistake(self.context, check.function, finding.samples)  # of these alone
                diagnosis, small = Diagnosis((id,), SENTENCES[id]), min(finding.samples, key=_plainest)
            elif finding.ids or not check.name.startswith("values:"):
                diagnosis = self._behaves(check, finding)
            else:
                diagnosis, small, reason = self._by_values(check, finding)
            if small is not None and integers_of(check) and max(x.size for x in poisoned(small)) > _MOST_SHOWN:
                instance = small.describe()
            elif small is not None:
                self._failing.append((check, small))
                instance = small.describe()
                snippet = as_code(check.function, small, self.context)
            if not finding.ids and integers_of(check):  # last: what broke off above keeps its words
                self._wrong_integers[check] = finding.samples
        return Record(
            check.id, check.function, check.claim, check.says, check.required, finding.status, reason,
            diagnosis.ids, diagnosis.words, finding.error, finding.bound, finding.power, instance, self.seed, snippet,
        )  # fmt: skip

    def settled(self, records: list[Record]) -> list[Record]:
        """The records, those of wrong merges and integers with the name of the mistake behind all of them."""
        ids = integer_mistakes(self.context, self._wrong_integers)
        records = [
            replace(record, diagnosis=(ids[record.id],), words=SENTENCES[ids[record.id]])
            if record.id in ids
            else record
            for record in records
        ]
        names = {function: merge_named(self.context, function, wrong) for function, wrong in self._wrong_merges.items()}
        return [
            replace(record, diagnosis=(names[record.function],), words=SENTENCES[names[record.function]])
            if record.function in names and record.status == "failed" and not record.diagnosis else record
            for record in records
        ]  # fmt: skip

    def _behaves(self, check: Check, finding: Finding) -> Diagnosis:
        """The name of what a kernel does as a program."""
        if finding.ids:
            self._behaviour.setdefault(check.function, finding.ids[0])
            return Diagnosis(finding.ids, "; ".join(SENTENCES[id] for id in finding.ids))
        return self._name(check.function, finding.samples)

    def _by_values(self, check: Check, finding: Finding) -> tuple[Diagnosis, KernelSample, str]:
        """The names of all mistakes that a check of values shows, each with the features it needs."""
        function, left = check.function, sorted(finding.samples, key=_plainest)
        first, said = left[0], finding.reason
        if not self._looked_for(function):
            general = self._ordered.get(function)  # found behind the first one
            general = general or (None if self._namer is None else self._namer.everywhere(function))
            return general or Diagnosis((), _NOT_LOOKED_FOR), first, said
        meant = self._by_order(function, finding.samples) or by_convention(self.context, function, finding.samples)
        if meant is not None:
            small, why = self._smallest(function, first) or (first, "")
            return meant, small, f"{said}. Smallest: {why}, on {small.describe()}" if why else said
        found: list[Diagnosis] = []
        while left and len(found) < _MOST_MISTAKES:
            small, why = self._smallest(function, left[0]) or (left[0], "")
            needs = set(self.context.features(small))
            mine = tuple(one for one in left if needs <= set(one.features))
            left = [one for one in left if not needs <= set(one.features)]
            name = self._name(function, mine or finding.samples, small)
            needs |= {"a batch"} if small.shape[0] > 1 else set()
            if needs:
                name = Diagnosis(name.ids, f"{name.words} (needs {' and '.join(sorted(needs))})")
            if not found and why:
                first, said = small, f"{finding.reason}. Smallest: {why}, on {small.describe()}"
            found.append(name)
            if self._namer is not None and self._namer.everywhere(function):
                break
        ids = tuple(dict.fromkeys(id for one in found for id in one.ids))
        ids = tuple(id for id in ids if id != "unknown") or ids
        return Diagnosis(ids, "; ".join(dict.fromkeys(one.words for one in found))), first, said

    def _by_order(self, function: str, samples: tuple[KernelSample, ...]) -> Diagnosis | None:
        """The order of axes that is meant: looked for at a function's first failure, and where it was found."""
        if function in self._ordered and self._ordered[function] is None:
            return None
        found = by_order(self.context, function, samples, function in self._ordered)
        self._ordered.setdefault(function, found)
        return found

    def _looked_for(self, function: str) -> bool:
        """Report whether the options allow a search for the name of one more failure of a function."""
        first = function not in self._shrunk
        self._shrunk.setdefault(function, 0)
        return self.options.names == "all" or (self.options.names == "first" and first)

    def _smallest(self, function: str, sample: KernelSample) -> tuple[KernelSample, str] | None:
        """A smaller instance that fails; a few times for each function."""
        self._shrunk[function] = self._shrunk.get(function, 0) + 1
        return smallest_failing(self.context, function, sample) if self._shrunk[function] <= _MOST_SHRUNK else None

    def _name(self, function: str, samples: tuple[KernelSample, ...], small: KernelSample | None = None) -> Diagnosis:
        behaviour = self._behaviour.get(function)
        replies = [(sample, self.context.known(function, sample)) for sample in samples]
        if replies and all(reply and misshapen(function, sample, reply) for sample, reply in replies):
            behaviour = "wrong-shape"  # on these alone, maybe
        if behaviour in ("wrong-shape", "nondeterministic", "cached"):
            return Diagnosis((behaviour,), SENTENCES[behaviour])
        if (meant := self._by_order(function, samples)) is not None:
            return meant
        found = Diagnosis(("unknown",), "the search for the mistake broke off")
        with searching():
            self._namer = self._namer or KernelNamer(self.context)
            general = self._namer.everywhere(function)
            if general is None and (known := self._namer.again(function, samples)) is not None:
                return known
            if small is not None and small.extended and general is None:
                part = self._namer.roughly(function, samples)
                part = part or by_heads(self.context, function, min(samples, key=_plainest))
                part = part or (self._namer.of_numbers(samples) if function == bridge.FORWARD else None)
                part = part or by_part(self.context, function, small)
                if part is not None:
                    return part
            if small is not None and not small.extended and all(one.extended for one in samples):
                bare = tuple(_bare(one, small) for one in samples[:_MOST_BARED])
                samples = tuple(one for one in bare if failure(self.context, function, one)) or (small,)
            found = self._namer.name(function, samples)
        if found.ids[0] in ("nondeterministic", "cached"):
            self._behaviour.setdefault(function, found.ids[0])
        return found


def _bare(sample: KernelSample, small: KernelSample) -> KernelSample:
    """The sample without the features that a smaller one fails without."""
    for feature in sample.features:
        if feature not in small.features and feature in sample.features:
            sample = without(sample, feature) or sample
    return sample


def _plainest(sample: KernelSample) -> tuple[int, float]:
    return len(sample.features), sample.work


def _framework(holder: object) -> str:
    functions = {}
    for name in FUNCTIONS:
        found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        if callable(found):
            functions[name] = found
    if not functions and callable(holder):
        functions = {bridge.FORWARD: holder}
    declared = bridge.framework_of(functions, holder)
    others = [implied(one) for one in functions.values()]
    return next((one for one in others if one != "numpy"), declared) if declared == "numpy" else declared
