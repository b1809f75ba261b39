"""Findings of an audit, gathered for a reader: failures of one function with one cause are one finding."""

import re
from dataclasses import dataclass

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult

# Outcomes that are not wrong in the ordinary sense, said once.
_ALONE = {
    "batch-not-averaged": "Right for one sample; sums over batches, the contract averages. ",
    "low-precision": "Right but for steps that round more coarsely than --dtype allows. ",
}


_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Findings:
    """Records of one function with the same finding, the most informative one first."""

    function: str
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """The one on the smallest instance, which carries the snippet."""
        return self.records[0]

    def checks(self, most: int = 6) -> str:
        """The names of the checks, as many as a line holds."""
        names = [record.name for record in self.records]
        rest = len(names) - most
        return ", ".join(names if rest <= 1 else [*names[:most], f"{rest} more"])


def findings(result: AuditResult) -> list[Findings]:
    """The failures: one per function and diagnosis, in the order of the contract."""
    groups: dict[tuple[str, tuple[str, ...]], list[Record]] = {}
    for record in result.checks:
        if record.status == "failed":
            groups.setdefault((record.function, record.diagnosis), []).append(record)
    return [Findings(function, tuple(sorted(records, key=_telling))) for (function, _), records in groups.items()]


def unsettled(result: AuditResult) -> list[Findings]:
    """Return checks that decided nothing or are waived, gathered by function, status and reason.

    An error that is raised at several sizes is listed once: numbers tell its reasons apart no more.
    """
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for status in ("could_not_judge", "could_not_run", "inconclusive", "waived"):
        for record in result.checks:
            if record.status == status:
                reason = record.reason if status == "waived" else record.reason.partition(", on ")[0]
                reason = _NUMBERS.sub("", reason) if status == "could_not_run" else reason
                groups.setdefault((status, record.function, reason), []).append(record)
    return [Findings(function, tuple(records)) for (_, function, _), records in groups.items()]


def _telling(record: Record) -> tuple[bool, bool]:
    return (_SMALLEST not in record.reason, record.snippet is None)


_SMALLEST = ". Smallest: "


def shown_reason(record: Record) -> str:
    """Return the failure on the smallest instance that shows it."""
    return record.reason.rpartition(_SMALLEST)[2]


def present(result: AuditResult) -> list[str]:
    """Return the functions that the target has, or that are checked in any target."""
    there = {record.function for record in result.checks if record.reason != f"the target has no {record.function}"}
    return [name for name in result.functions if name in there]


def missing(result: AuditResult) -> list[str]:
    """Return the functions that the target lacks, except those that `only` leaves out."""
    asked = {record.function for record in result.checks}
    return [name for name in result.functions if name in asked and name not in present(result)]


def power_of(records: list[Record]) -> float | None:
    """Return the coarsest detection power of the passed benign checks: they detect every larger relative error."""
    powers = [
        record.power for record in records if record.status == "passed" and record.required and record.power is not None
    ]
    return max(powers, default=None)


def command_of(result: AuditResult) -> str:
    """Return the name of the command that makes such a result."""
    return "audit-kernel" if {"attention_backward", "merge", "merge_many"} & {*result.functions} else "audit"


def accounted(result: AuditResult) -> str:
    """State the number of checks that apply to the target, and of those that are missing."""
    applying, missing = (
        len(result.checks) - result.counts()["not_applicable"],
        result.expected_checks - len(result.checks),
    )
    return f"{applying} checks apply" + (f", {missing} of {result.expected_checks} did not run" if missing else "")


def closing_sentence(result: AuditResult) -> str:
    """Return the report's sentence: the mistakes by function, the counts of checks, and the outcome."""
    lines = result.coverage.declare if result.outcome == "incomplete" else ()
    return "\n".join([f"{_unjudged(result)}{_verdict(result)}", *(["Declare in the module:"] if lines else []), *lines])


def _unjudged(result: AuditResult) -> str:
    """Return a warning if there is no backward pass, or it was judged without features; else nothing."""
    reasons = [one.reason for one in result.checks if one.function == "attention_backward"]
    if reasons and all(reason.startswith("the target has no attention_backward") for reason in reasons):
        return "The kernel has no backward pass. "
    missing = next((one for one in result.coverage.judged if one.startswith("backward without ")), "")
    return f"The backward pass was judged without {missing.removeprefix('backward without ')}. " if missing else ""


def _verdict(result: AuditResult) -> str:
    counts = result.counts()
    asked = sum(counts.values()) - counts["not_applicable"]
    ours = counts["could_not_judge"]
    broke = f"; {ours} broke attnprune-verify itself, its mistake and not the target's" if ours else ""
    if result.outcome == "failed":
        named = [f"{name} ({', '.join(ids) or 'names not searched'})" for name, ids in result.diagnosis.items()]
        alone = {id for ids in result.diagnosis.values() for id in ids}
        why = _ALONE.get(min(alone), "") if len(alone) == 1 else ""
        failed = f"{counts['failed']} of {asked} checks failed{broke}"
        return f"Wrong: {'; '.join(named)}. {why}{failed}{_judged(result)}. {_never(result)}Outcome: failed."
    if result.outcome == "incomplete" and counts["waived"] == asked:
        return f"Nothing passed: {counts['waived']} checks were waived, the others do not apply. Outcome: incomplete."
    if result.outcome == "incomplete":
        unsettled = {"could_not_run": "checks could not run", "inconclusive": "were not decided"}
        left = (
            " and ".join(f"{counts[status]} {words}" for status, words in unsettled.items() if counts[status]) + broke
        )
        if counts["could_not_run"] == asked:
            left += f" ({next(record.reason for record in result.checks if record.status == 'could_not_run')})"
        if result.not_exercised and not counts["could_not_run"] + ours:
            left = f"not all of it was asked for: {counts['passed']} of {asked} checks passed"
        return f"Nothing wrong was found, but {left}{_judged(result)}. {_never(result)}Outcome: incomplete."
    waived = f", {counts['waived']} waived" if counts["waived"] else ""
    quick = "Right in what --quick asks, pairs of features in small sizes"
    right = quick if result.coverage.quick else "Right in every regime checked"
    right = "Nothing wrong but what is waived" if waived else right
    undecided = f", {counts['inconclusive']} were not decided" if counts["inconclusive"] else ""
    passed = f"{counts['passed']} of {asked} checks passed{undecided}{waived}{_judged(result)}"
    return f"{right}{_where(result)}: {passed}. Outcome: passed."


def _judged(result: AuditResult) -> str:
    return f"; judged: {', '.join(result.coverage.judged)}" if result.coverage.judged else ""


def _never(result: AuditResult) -> str:
    """Name the parameters that no check has passed, and what to do about them; an empty text where there are none."""
    names = result.not_exercised
    if not names:
        return ""
    listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
    return f"Never exercised: {', '.join(names)}; rename as the contract does, or declare IGNORED = ({listed}). "


def _where(result: AuditResult) -> str:
    """The declared precision, and the largest sizes judged, function by function where they differ: the audit sees none
    above."""
    precision = f" in {result.dtype}" if result.dtype else ""
    sizes: dict[str, list[str]] = {}
    for name, (n, d) in result.largest.items():
        sizes.setdefault(f"n = {n} and d = {d}", []).append(name)
    for name, (rows, columns) in result.matrices.items():
        sizes.setdefault(f"matrices of {rows} x {columns}", []).append(name)
    if not sizes:
        return precision
    said = [
        size if len(sizes) == 1 else f"{size} ({', '.join(names)})"
        for size, names in sorted(sizes.items(), key=lambda item: -len(item[1]))
    ]
    return f"{precision}, up to {'; '.join(said)}, and no larger"


def confined(result: AuditResult) -> str:
    """Return, in a few words, what was closed to the target's process."""
    found = result.confinement
    version = f" (Landlock, ABI {found['abi']})" if found["kind"] == "landlock" else ""
    if found["closed"]:
        return f"closed to the target: {', '.join(found['closed'])}{version}"
    return "not confined, by --confine off" if found["kind"] == "off" else "not confined: this platform has no means"
