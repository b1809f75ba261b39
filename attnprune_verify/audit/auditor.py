"""Runs checks on a subject and turns findings into records: waivers, diagnosis, the smallest instance, the snippet."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from attnprune_verify.audit.cases import Case
from attnprune_verify.audit.checks import all_checks
from attnprune_verify.audit.checks.values import judged
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.diagnosis import Diagnosis, diagnose
from attnprune_verify.audit.fitting import Observation
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Check, Finding, Record
from attnprune_verify.audit.reference import VALUED
from attnprune_verify.audit.shrink import shrunk
from attnprune_verify.audit.snippet import as_code
from attnprune_verify.audit.subject import NoAnswer, Subject
from attnprune_verify.audit.target import fingerprint, parse_target
from attnprune_verify.audit.tolerance import judge
from attnprune_verify.audit.waivers import Waiver, waiver_for
from attnprune_verify.errors import InvalidInstance

__all__ = ["Auditor"]

# Benign instances in double precision on which most mistakes show; the diagnosis starts here.
_MOST_SEARCHES = 4
_EXTREME = ("logits-100", "offset", "giant")  # names of instances on which only exp is in danger
_CORE = ("full", "causal", "given-mask", "outside-box", "lam-large")


class Auditor:
    """One target, one seed; a context manager that holds the subject's process.

    Raises
    ------
    InvalidInstance
        On entering: if TARGET cannot be read or imported, or has none of the contract's names.
    """

    def __init__(self, spec: str, seed: int = 0, waivers: tuple[Waiver, ...] = (), only: tuple[str, ...] = ()) -> None:
        self.target = parse_target(spec)
        self.seed = seed
        self.waivers = waivers
        self.only = only
        self.subject = Subject(self.target, tuple(FUNCTIONS))
        self.context = Context(self.subject, seed)
        self._of_function: dict[str, Diagnosis | None] = {}
        self._of_single: dict[str, Diagnosis | None] = {}
        self._shrunk: set[str] = set()
        self._tried: dict[str, int] = {}
        self._behaviour: dict[str, str] = {}

    def __enter__(self) -> Auditor:
        self.subject.__enter__()
        if not self.subject.functions and not self.subject.broken:
            self.subject.close()
            raise InvalidInstance(
                f"TARGET must have at least one of {', '.join(FUNCTIONS)}; {self.target.spec!r} has none of them"
            )
        self.sha256 = fingerprint(self.subject.file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.subject.close()

    @property
    def checks(self) -> tuple[Check, ...]:
        """What is to be asked; `only` narrows it to some functions."""
        return tuple(check for check in all_checks() if not self.only or check.function in self.only)

    def present(self, function: str) -> bool:
        """Whether the target has this name, usable or not."""
        return function in self.subject.functions or function in self.subject.broken

    def stale_waivers(self) -> list[Waiver]:
        """Entries that match no check of a function the target has."""
        present = {*self.subject.functions, *self.subject.broken}
        ids = [check.id for check in self.checks if check.function in present]
        return [waiver for waiver in self.waivers if not any(waiver.matches(id) for id in ids)]

    def record(self, check: Check) -> Record:
        """Run one check; nothing the subject does can raise from here."""
        name = check.function
        if name in self.subject.broken:
            return self._record(check, Finding("could_not_run", f"{name} cannot be had: {self.subject.broken[name]}"))
        if name not in self.subject.functions:
            return self._record(check, Finding("not_applicable", f"the target has no {name}"))
        waiver = waiver_for(check.id, self.waivers)
        if waiver is not None and waiver.kind == "skip":
            return self._record(check, Finding("waived", f"skipped: {waiver.reason}"))
        try:
            with np.errstate(all="ignore"):  # whatever a subject returns is compared without complaints
                finding = check.run(self.context)
        except NoAnswer as refusal:
            if refusal.unreadable:
                finding = Finding("failed", str(refusal), ids=("wrong-shape",))
            else:
                finding = Finding("could_not_run", f"{name} {refusal}")
        except (ArithmeticError, ValueError, IndexError, TypeError) as error:  # of an answer nobody foresaw
            finding = Finding("could_not_run", f"the answer could not be judged: {type(error).__name__}: {error}")
        if waiver is not None and finding.status in ("failed", "could_not_run", "inconclusive"):
            return self._record(check, Finding("waived", f"{waiver.reason} ({finding.status}: {finding.reason})"))
        return self._record(check, finding)

    def _record(self, check: Check, finding: Finding) -> Record:
        with np.errstate(all="ignore"):
            return self._explained(check, finding)

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record, with diagnosis, smallest instance and snippet if there is a failure to explain."""
        ids, words = finding.ids, "; ".join(SENTENCES[id] for id in finding.ids if id != "unknown")
        snippet = instance = None
        if finding.status == "failed":
            behaviour = self._behaviour.get(check.function)
            if behaviour is not None and not ids:
                ids, words = (behaviour,), SENTENCES[behaviour]
            elif not ids and check.function in VALUED and finding.cases:
                try:
                    found = self._diagnose(check, finding)
                except (ArithmeticError, ValueError, IndexError, TypeError, NoAnswer) as error:
                    # A verdict stands whether or not its cause can be found.
                    found = Diagnosis(("unknown",), f"the search for the mistake broke off: {type(error).__name__}")
                ids, words = found.ids, found.words
            elif ids and ids[0] in ("nondeterministic", "wrong-shape"):
                self._behaviour[check.function] = ids[0]  # explains whatever else is wrong
            ids = ids or ("unknown",)
            smaller = self._shrink(check, finding)
            finding = finding if smaller is None else smaller
        if finding.call is not None and finding.status in ("failed", "could_not_run"):
            snippet = as_code(self.target, finding.call)
        if finding.cases:
            instance = finding.cases[0].describe()
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

    def _diagnose(self, check: Check, finding: Finding) -> Diagnosis:
        """On the benign instances and the failing ones together; else on the failing ones alone."""
        name = check.function
        here = self._observed(name, sorted(finding.cases, key=lambda case: case.work)[:3])
        if name not in self._of_function:
            core = self._core(name)
            self._of_function[name] = diagnose(name, core) if _any_wrong(name, core) else None
        general = self._of_function[name]
        if general is not None and general.named:
            return general
        if general is None and _overflowing(here, finding):
            return Diagnosis(("unstable-exp",), SENTENCES["unstable-exp"])
        self._tried[name] = self._tried.get(name, 0) + 1
        if (
            here and self._tried[name] <= _MOST_SEARCHES
        ):  # the search is long, and the later ones find what the first did
            return self._special(check, here, general)
        return general or Diagnosis(("unknown",), SENTENCES["unknown"])

    def _special(self, check: Check, here: list[Observation], general: Diagnosis | None) -> Diagnosis:
        """A mistake of one regime: one that the benign instances do not show, or that they do not have."""
        name = check.function
        if general is not None:
            special = diagnose(name, here, pairs=False, precision=False)
            return self._only_here(check, special) if special.named else general
        hidden = diagnose(name, [*self._core(name), *here], pairs=False)
        if hidden.named:
            return hidden
        single = self._in_single(name) if all(one.case.X.dtype == np.float32 for one in here) else None
        if single is not None and single.named:
            return single
        if single is None and all(one.case.name.startswith(_EXTREME) for one in here):
            return Diagnosis(
                ("unstable-exp",), f"{SENTENCES['unstable-exp']} (at any rate, only large logits are wrong)"
            )
        special = diagnose(name, here, pairs=self._tried[name] <= 2)
        return self._only_here(check, special) if special.named else special

    @staticmethod
    def _only_here(check: Check, special: Diagnosis) -> Diagnosis:
        return Diagnosis(special.ids, f"{special.words} (only here: {check.says})")

    def _in_single(self, name: str) -> Diagnosis | None:
        """What is wrong with benign instances in float32; None if nothing is."""
        if name not in self._of_single:
            benign = self._observed(name, list(self.context.cases("float32")))
            wrong = _any_wrong(name, benign)
            found = diagnose(name, benign, pairs=False) if wrong else None
            self._of_single[name] = found and Diagnosis(found.ids, f"{found.words} (only in float32)")
        return self._of_single[name]

    def _core(self, name: str) -> list[Observation]:
        return self._observed(name, [case for regime in _CORE for case in self.context.cases(regime)])

    def _observed(self, name: str, cases: list[Case]) -> list[Observation]:
        return [Observation(case, parts) for case, parts in self.context.well_formed(name, cases)]

    def _shrink(self, check: Check, finding: Finding) -> Finding | None:
        """The same failure on a smaller instance; once per function, for wrong values only."""
        name = check.function
        if name in self._shrunk or not check.name.startswith("values:") or not finding.cases or finding.error is None:
            return None
        self._shrunk.add(name)
        stability = check.stability

        def fails(case: Case) -> bool:
            try:
                answer = self.context.ask(name, case)
                if self.context.misshapen(name, case, answer) is not None:
                    return False
                return judge(name, case, answer.parts, stability=stability).verdict == "failed"
            except (NoAnswer, ArithmeticError, ValueError):
                return False

        smallest = shrunk(finding.cases[0], fails)
        if smallest is finding.cases[0]:
            return None
        try:
            verdict = judge(name, smallest, self.context.ask(name, smallest).parts, stability=stability)
        except NoAnswer:
            return None
        if verdict.verdict != "failed":
            return None
        small = judged(name, [(smallest, verdict)], 1)
        reason = f"{finding.reason}. Smallest: {verdict.reason}, on {smallest.describe()}"
        return Finding(
            "failed", reason, small.error, small.bound, small.power, finding.ids, (smallest, *finding.cases), small.call
        )


def _any_wrong(name: str, observations: list[Observation]) -> bool:
    returned = ((one.case, tuple(part for part in one.parts if part is not None)) for one in observations)
    return any(judge(name, case, parts).verdict in ("failed", "suspect") for case, parts in returned)


def _overflowing(here: list[Observation], finding: Finding) -> bool:
    """Nothing finite, or nothing at all, on instances where only exp is in danger."""
    if not all(case.name.startswith(_EXTREME) for case in finding.cases):
        return False
    return all(not all(np.isfinite(part).all() for part in one.parts if part is not None) for one in here)
