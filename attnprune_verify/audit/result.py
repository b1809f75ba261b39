"""The result of an audit: every check of an auditor run, and the outcome of the whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from attnprune_verify.audit.contract import FUNCTIONS, Signature
from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.record import NOT_SAID, Coverage, Record, Status
from attnprune_verify.audit.subject.confinement import NOTHING
from attnprune_verify.audit.subject.functions import printable
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import nearest

SCHEMA = "attnprune-verify/audit/1"
Outcome = Literal["passed", "failed", "incomplete"]


@dataclass(frozen=True, repr=False)
class AuditResult:
    """The result of an audit; `as_dict` is the JSON of ``attnprune-verify audit``.

    Attributes
    ----------
    target, version, sha256 : str, str or None
        What was audited.
    expected_checks : int
        Number of checks, independent of what the target answers.
    checks : one record per check
    notes : dict[str, str]
        Properties of each function, such as whether it takes batches.
    functions : Mapping[str, Signature]
        Those of the contract that was audited.
    dtype : str or None
        The precision that the target declares, if any.
    largest : dict[str, tuple[int, int]]
        The largest n and the largest d that each function was judged on.
    matrices : dict[str, tuple[int, int]]
        The most rows and columns for each function that prunes matrices.
    confinement : dict
        What was closed to the target: its kind, Landlock's ABI, and a list.
    counterexample : one small failing instance of a kernel: inputs, returned and right values
    coverage : Coverage
        What was judged, and which parameters were not.
    outcome : "passed", "failed", or "incomplete" when something could not be run or decided
    """

    target: str
    version: str | None
    sha256: str | None
    seed: int
    expected_checks: int
    checks: tuple[Record, ...]
    notes: dict[str, str] = field(default_factory=dict)
    functions: Mapping[str, Signature] = field(default_factory=lambda: FUNCTIONS)
    dtype: str | None = None
    largest: dict[str, tuple[int, int]] = field(default_factory=dict)
    matrices: dict[str, tuple[int, int]] = field(default_factory=dict)
    confinement: dict[str, Any] = field(default_factory=lambda: NOTHING)
    counterexample: Mapping[str, object] | None = field(default=None, compare=False)
    coverage: Coverage = NOT_SAID

    @property
    def outcome(self) -> Outcome:
        found = outcome_of(self.checks, self.expected_checks)
        return "incomplete" if found == "passed" and self.coverage.not_exercised else found

    @property
    def not_exercised(self) -> tuple[str, ...]:
        """Parameters that no check has passed."""
        return self.coverage.not_exercised

    @property
    def exit_code(self) -> int:
        return {"passed": 0, "failed": 1, "incomplete": 3}[self.outcome]

    @property
    def diagnosis(self) -> dict[str, tuple[str, ...]]:
        """The mistakes named per function, those of the first failed checks first."""
        found: dict[str, dict[str, None]] = {}
        for record in self.checks:
            if record.status == "failed":
                found.setdefault(record.function, {}).update(dict.fromkeys(record.diagnosis))
        return {name: tuple(ids) for name, ids in found.items()}

    def assert_passed(self) -> None:
        """Raise what a test raises, unless the audit passed.

        Raises
        ------
        AssertionError
            With the first failures, or with what could not be decided, and the first runnable snippet.
        """
        if self.outcome != "passed":
            snippets = [f"\n{record.snippet}" for record in self.checks if record.snippet]
            raise AssertionError("\n".join([repr(self), *snippets[:1]]))

    def __repr__(self) -> str:
        """The outcome, and the first failures: at most ten lines."""
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.counts().items() if count)
        failed = [record for record in self.checks if record.status == "failed"]
        left = f"; never exercised: {', '.join(self.not_exercised)}" if self.not_exercised else ""
        lines = [f"<audit of {self.target}: {self.outcome} ({counts}{left})"]
        for record in failed[:8]:
            reason = " ".join(record.reason.split())[:90]
            lines.append(f"  {record.id}: {', '.join(record.diagnosis) or 'not searched'}: {reason}")
        return "\n".join(lines) + (f" and {len(failed) - 8} more>" if len(failed) > 8 else ">")

    def counts(self) -> dict[str, int]:
        """Count the checks of each status."""
        return {name: sum(record.status == name for record in self.checks) for name in get_args(Status)}

    def as_dict(self) -> dict[str, Any]:
        """Plain data, in the layout of the schema "attnprune-verify/audit/1"; what was found comes first."""
        return {
            "schema": SCHEMA,
            "target": {"spec": self.target, "version": self.version, "sha256": self.sha256},
            "seed": self.seed,
            "confinement": dict(self.confinement),
            "outcome": self.outcome,
            "expected_checks": self.expected_checks,
            "counts": self.counts(),
            "notes": dict(self.notes),
            "dtype": self.dtype,
            "judged": list(self.coverage.judged),
            "not_exercised": list(self.not_exercised),
            "declare": list(self.coverage.declare),
            "largest": {name: {"n": n, "d": d} for name, (n, d) in self.largest.items()},
            "largest_matrix": {name: {"rows": n, "columns": d} for name, (n, d) in self.matrices.items()},
            **({"counterexample": self.counterexample} if self.counterexample is not None else {}),
            "checks": [record.as_dict() for record in sorted(self.checks, key=_findings_first)],
        }


def _findings_first(record: Record) -> int:
    order = ("failed", "could_not_judge", "could_not_run", "inconclusive", "waived", "passed", "not_applicable")
    return order.index(record.status)


def outcome_of(checks: tuple[Record, ...], expected: int) -> Outcome:
    """Failed if a check failed; incomplete if one is missing, could not run, broke the audit, or was required and open.

    `not_applicable` never matters. A function none of whose required checks was decided makes a run incomplete, as
    does a run in which nothing passed at all.
    """
    if any(record.status == "failed" for record in checks):
        return "failed"
    if len(checks) < expected or any(record.status in ("could_not_run", "could_not_judge") for record in checks):
        return "incomplete"
    if any(record.required and record.status == "inconclusive" for record in checks):
        return "incomplete"
    return "passed" if any(record.status == "passed" for record in checks) else "incomplete"


def run_checks(auditor: Examiner, progress: Callable[[str, int, int], object] | None = None) -> AuditResult:
    """Run every check of an auditor that has been entered.

    Raises
    ------
    InvalidInstance
        If a waiver matches no check, or a check that has to fail passes.
    """
    stale = auditor.stale_waivers()
    if stale:
        listed = ", ".join(f"[[{waiver.kind}]] {waiver.check!r}" for waiver in stale)
        hint = nearest(stale[0].check, (check.id for check in auditor.checks if auditor.present(check.function)))
        raise InvalidInstance(
            f"every entry of the deviations file must match a check of the target; {listed} match none{hint}"
        )
    checks = auditor.checks
    asked_of = tuple(dict.fromkeys(check.function for check in checks))
    if not any(map(auditor.present, asked_of)):
        raise InvalidInstance(
            f"TARGET must have a function that is asked about; {auditor.target.title!r} has no {', no '.join(asked_of)}"
        )
    records = []
    applying, done = sum(auditor.present(check.function) for check in checks), 0
    for check in checks:
        if progress is not None and auditor.present(check.function):
            progress(check.id, done, applying)
            done += 1
        records.append(auditor.record(check))
    records = auditor.completed(records)
    for waiver in auditor.waivers:
        passed = [record.id for record in records if waiver.matches(record.id) and record.status == "passed"]
        if waiver.kind == "xfail" and passed:
            raise InvalidInstance(f"[[xfail]] {waiver.check!r} must fail; {', '.join(passed)} passed: remove the entry")
    return AuditResult(
        printable(auditor.target.title),
        auditor.subject.version,
        auditor.sha256,
        auditor.seed,
        len(checks),
        tuple(records),
        auditor.notes,
        auditor.functions,
        auditor.dtype,
        auditor.largest,
        auditor.matrices,
        auditor.subject.confinement,
        auditor.counterexample,
        auditor.coverage,
    )
