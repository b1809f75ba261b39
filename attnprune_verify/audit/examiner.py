"""Runs checks on a subject and records their findings, waivers, refusals and unexpected results."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from attnprune_verify.audit.contract import Signature
from attnprune_verify.audit.naming.searching import BrokeOff, searching
from attnprune_verify.audit.record import NOT_SAID, Check, Coverage, Finding, Record
from attnprune_verify.audit.subject.answers import NoAnswer, NotAccepted
from attnprune_verify.audit.subject.functions import line_of
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.audit.subject.target import fingerprint, source_file, target_of
from attnprune_verify.audit.waivers import Waiver, waiver_for
from attnprune_verify.errors import InvalidInstance

_OURS = "attnprune-verify itself failed, not the target, while it"


class Examiner:
    """One target, one seed; a context manager that holds the subject's process.

    What is asked, and how a failure is explained, is up to those that derive from it.

    Attributes
    ----------
    functions : Mapping[str, Signature]
        Those of the contract that the target is held to.
    context : Any
        What the checks are given.
    """

    functions: Mapping[str, Signature]
    elsewhere = ""  # who audits what is none of them
    subject: Subject
    context: Any

    def __init__(self, target: object, seed: int, waivers: tuple[Waiver, ...], adapter: str = "") -> None:
        self.target = replace(target_of(target), adapter=adapter)
        self.seed = seed
        self.waivers = waivers
        self._ruled: Callable[[Subject], object] = lambda subject: None

    def opened(self) -> Subject:
        """The target in a process that has not begun."""
        raise NotImplementedError

    def rule(self, terms: Callable[[Subject], object]) -> None:
        """Put the subject's process, and every later one, under terms such as limits and confinement."""
        self._ruled = terms
        terms(self.subject)

    def reopened(self) -> Subject:
        """The target in a process of its own, under the same terms."""
        subject = self.opened()
        self._ruled(subject)
        return subject

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.subject.close()
            raise
        return self

    def begin(self) -> None:
        """Start the subject, and prepare what the checks need."""
        # Before anything of the subject runs: afterwards its files may be others.
        self.sha256 = fingerprint(source_file(self.target, [*self.subject.first, str(Path.cwd()), *sys.path]))
        self.subject.__enter__()
        broken = self.subject.broken.values()
        if broken and not self.subject.functions and all(" is not callable but " in why for why in broken):
            raise InvalidInstance(f"TARGET must have functions; in {self.target.title!r} {'; '.join(broken)}")
        if not self.subject.functions and not broken:
            has = self.subject.has
            seen = "has none of them"
            if has:
                likely = next((name for name in has if "att" in name.lower()), has[-1])
                seen = f"has {', '.join(has)}; name what is meant, as in {self.target.spec}:{likely}"
            raise InvalidInstance(
                f"TARGET must have at least one of {', '.join(self.functions)}; "
                f"{self.target.title!r} {seen}{self.elsewhere}"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.subject.close()

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the audit."""
        raise NotImplementedError

    @property
    def notes(self) -> dict[str, str]:
        """One line about each function the target has."""
        found = {name: note for name, note in self.context.notes.items() if name in self.subject.functions}
        if not self.subject.apart:
            here = "runs in the audit's own process"
            found = {
                name: f"{here}; {found[name]}" if name in found else here
                for name in self.functions
                if self.present(name)
            }
        return found

    @property
    def dtype(self) -> str | None:
        """The precision the target declares, where the outcome shall name it."""
        return None

    @property
    def largest(self) -> dict[str, tuple[int, int]]:
        """The largest n and the largest d that each function was judged on."""
        return {}

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """The largest matrix that each pruning function was judged on, as (rows, columns)."""
        return {}

    @property
    def coverage(self) -> Coverage:
        """The coverage of the target, where the audit counts it."""
        return NOT_SAID

    @property
    def counterexample(self) -> Mapping[str, object] | None:
        """One failing instance as plain data, where the audit has such."""
        return None

    def present(self, function: str) -> bool:
        """Return True where the target has this name, usable or not."""
        return function in self.subject.functions or function in self.subject.broken

    def absent(self, function: str) -> str:
        """Return the reason that a check does not apply to a target without its function."""
        return f"the target has no {function}"

    def prepare(self, function: str) -> None:
        """Probe a function before its first check."""

    def stale_waivers(self) -> list[Waiver]:
        """Entries that match no check of a function the target has."""
        ids = [check.id for check in self.checks if self.present(check.function)]
        return [waiver for waiver in self.waivers if not any(waiver.matches(id) for id in ids)]

    def record(self, check: Check) -> Record:
        """Run one check, and time it; nothing the subject does can raise from here."""
        start = time.perf_counter()
        with _listening() as broke:
            found = self._asked(check)
        return replace(_told(found, broke), seconds=time.perf_counter() - start)

    def completed(self, records: list[Record]) -> list[Record]:
        """The settled records; where settling breaks off, the error stands beside each failure without a name."""
        with _listening() as broke, searching():
            records = self.settled(records)
        nameless = ((), ("unknown",))
        return [_told(found, broke * (found.status == "failed" and found.diagnosis in nameless)) for found in records]

    def _asked(self, check: Check) -> Record:
        name = check.function
        if name in self.subject.broken:
            return self._record(check, Finding("could_not_run", f"{name} cannot be had: {self.subject.broken[name]}"))
        if name not in self.subject.functions:
            return self._record(check, Finding("not_applicable", self.absent(name)))
        waiver = waiver_for(check.id, self.waivers)
        if waiver is not None and waiver.kind == "skip":
            return self._record(check, Finding("waived", f"skipped: {waiver.reason}"))
        if self.subject.ended:
            return self._record(check, Finding("could_not_run", f"{name} {self.subject.ended}"))
        refused = self.subject.refused
        finding = self._finding(check)
        if self.subject.refused > refused:  # what a check makes of calls that were not made is no finding
            finding = Finding("could_not_run", f"{name} {self.subject.ended}")
        if waiver is not None and finding.status in ("failed", "could_not_run", "inconclusive"):
            return self._record(check, Finding("waived", f"{waiver.reason} ({finding.status}: {finding.reason})"))
        return self._record(check, finding)

    def _finding(self, check: Check) -> Finding:
        name = check.function
        try:
            self.prepare(name)
            return check.run(self.context)
        except NotAccepted as refusal:
            return Finding("not_applicable", f"{name} {refusal}")
        except NoAnswer as refusal:
            if refusal.unreadable:
                return Finding("failed", str(refusal), ids=("wrong-shape",))
            return Finding("could_not_run", f"{name} {refusal}")
        except Exception as error:  # of a judge, by whatever answer: no finding about the subject
            return Finding("could_not_judge", f"{_OURS} judged the answer: {line_of(error)}")

    def _record(self, check: Check, finding: Finding) -> Record:
        """The record; a search for the mistake's name that raises leaves the verdict."""
        with searching():
            return self._explained(check, finding)
        ids = finding.ids or ("unknown",) if finding.status == "failed" else ()
        numbers = finding.error, finding.bound, finding.power
        known = check.id, check.function, check.claim, check.says, check.required, finding.status, finding.reason
        return Record(*known, ids, "", *numbers, seed=self.seed)

    def settled(self, records: list[Record]) -> list[Record]:
        """The records, completed with the findings that need all of them."""
        return records

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record, with diagnosis, smallest instance and snippet if there is a failure to explain."""
        raise NotImplementedError


@contextmanager
def _listening() -> Iterator[list[Exception]]:
    """Fill the list, at the end, with the errors of ours that searches for mistakes met."""
    broke: list[Exception] = []
    with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore", RuntimeWarning)  # of whatever a subject returns; its lines are the audit's
        warnings.simplefilter("always", BrokeOff)
        yield broke
    broke += [note.message.error for note in told if isinstance(note.message, BrokeOff)]


def _told(found: Record, broke: list[Exception]) -> Record:
    """The record, with the first error of ours that ended a search for its mistake."""
    named = f"{found.words}; " if found.words and "unknown" not in found.diagnosis else ""
    words = f"{named}{_OURS} looked for the mistake: {line_of(broke[0])}" if broke else found.words
    return replace(found, words=words)
