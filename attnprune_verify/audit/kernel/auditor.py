"""Runs the checks on a kernel and turns findings into records, as the audit of the paper's functions does."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.kernel import bridge
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.kernel.context import KernelContext
from attnprune_verify.audit.kernel.contract import FUNCTIONS
from attnprune_verify.audit.kernel.naming import Namer
from attnprune_verify.audit.kernel.precision import precision_named
from attnprune_verify.audit.kernel.sentences import SENTENCES
from attnprune_verify.audit.kernel.shrink import smallest_failing
from attnprune_verify.audit.kernel.snippet import as_code
from attnprune_verify.audit.naming.diagnosis import Diagnosis
from attnprune_verify.audit.record import Check, Finding, Record
from attnprune_verify.audit.subject.process import NoAnswer, Subject
from attnprune_verify.audit.waivers import Waiver

__all__ = ["KernelAuditor"]


class KernelAuditor(Examiner):
    """One kernel, one precision, one seed; a context manager that holds the subject's process.

    Raises
    ------
    InvalidInstance
        On entering: if TARGET cannot be read or imported, or has neither function.
    """

    functions = FUNCTIONS

    def __init__(self, target: object, dtype: str = "float32", seed: int = 0, waivers: tuple[Waiver, ...] = ()) -> None:
        super().__init__(target, seed, waivers)
        self.precision = precision_named(dtype)
        # A framework's threads do not survive a fork.
        forked = self.target.kind != "live" or _framework(self.target.object) == "numpy"
        through = (bridge.__name__, dtype)
        self.subject = Subject(self.target, (*FUNCTIONS, bridge.FACTS), bridge=through, forked=forked)
        self._namer: Namer | None = None
        self._shrunk: set[str] = set()
        self._behaviour: dict[str, str] = {}

    def __enter__(self) -> KernelAuditor:
        super().__enter__()
        self.context: KernelContext = KernelContext(self.subject, self.seed, self.precision)
        return self

    @property
    def checks(self) -> tuple[Check, ...]:
        return kernel_checks()

    @property
    def notes(self) -> dict[str, str]:
        """Per function: the framework, the precision, the largest size, what is refused."""
        return self.context.all_notes()

    def absent(self, function: str) -> str:
        said = super().absent(function)
        if function == bridge.BACKWARD:
            return f"{said}, and NumPy does not differentiate: it is judged forward only"
        return said

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record; of a failure with the mistake's name, the smallest shape that shows it, and a snippet."""
        diagnosis, instance, snippet, reason = Diagnosis((), ""), None, None, finding.reason
        if finding.status == "failed":
            diagnosis = self._named(check, finding)
            sample = finding.samples[0] if finding.samples else None
            if sample is not None and check.function not in self._shrunk and check.name.startswith("values:"):
                self._shrunk.add(check.function)
                smaller = smallest_failing(self.context, check.function, sample)
                if smaller is not None:
                    sample, said = smaller
                    reason = f"{reason}. Smallest: {said}, on {sample.describe()}"
            if sample is not None:
                instance = sample.describe()
                snippet = as_code(check.function, sample, self.context)
        return Record(
            check.id, check.function, check.claim, check.says, check.required, finding.status, reason,
            diagnosis.ids, diagnosis.words, finding.error, finding.bound, finding.power, instance, self.seed, snippet,
        )  # fmt: skip

    def _named(self, check: Check, finding: Finding) -> Diagnosis:
        if finding.ids:
            self._behaviour.setdefault(check.function, finding.ids[0])
            return Diagnosis(finding.ids, "; ".join(SENTENCES[id] for id in finding.ids))
        behaviour = self._behaviour.get(check.function)
        if behaviour in ("wrong-shape", "nondeterministic", "cached"):
            return Diagnosis((behaviour,), SENTENCES[behaviour])
        try:
            self._namer = self._namer or Namer(self.context)
            return self._namer.name(check.function, finding.samples)
        except (ArithmeticError, ValueError, IndexError, TypeError, NoAnswer, np.linalg.LinAlgError) as error:
            return Diagnosis(("unknown",), f"the search for the mistake broke off: {type(error).__name__}")


def _framework(holder: object) -> str:
    functions = {}
    for name in FUNCTIONS:
        found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        if callable(found):
            functions[name] = found
    if not functions and callable(holder):
        functions = {bridge.FORWARD: holder}
    return bridge.framework_of(functions, holder)
