"""The audit as JUnit XML, for continuous-integration servers."""

import re
from xml.etree import ElementTree

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.report.audit_findings import command_of, confined, present, shown_reason

# What XML 1.0 cannot hold at all; a subject's error message may.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def audit_junit(result: AuditResult) -> str:
    """One test case per check of a function the target has, with the seconds it took.

    Failed is a failure, what could not be run or decided an error, the rest skipped. The layout is that of the schema
    JUnit readers agree on: ``testsuites > testsuite > properties, testcase*``.
    """
    there = set(present(result))
    cases = [(record, _kind(record)) for record in result.checks if record.function in there]
    missing = result.expected_checks - len(result.checks)
    never = result.not_exercised if result.outcome == "incomplete" else ()
    totals = {
        "tests": str(len(cases) + (missing > 0) + bool(never)),
        "failures": str(sum(kind == "failure" for _, kind in cases)),
        "errors": str(sum(kind == "error" for _, kind in cases) + (missing > 0) + bool(never)),
        "time": _seconds(sum(record.seconds for record, _ in cases)),
    }
    skipped = {"skipped": str(sum(kind == "skipped" for _, kind in cases))}
    root = ElementTree.Element("testsuites", {"name": f"attnprune-verify {command_of(result)}", **totals})
    name = _clean(f"audit of {result.target}")
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **totals, **skipped})
    properties = ElementTree.SubElement(suite, "properties")
    known = {
        "target": result.target,
        "version": result.version,
        "sha256": result.sha256,
        "seed": str(result.seed),
        "outcome": result.outcome,
        "confinement": confined(result),
        "judged": ", ".join(result.coverage.judged) or None,
        "not_exercised": ", ".join(result.not_exercised) or None,
        "declare": "; ".join(result.coverage.declare) or None,
    }
    for name, value in known.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    for record, kind in cases:
        _add(suite, record, kind)
    if missing > 0:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "audit", "name": "expected_checks", "time": "0"})
        ElementTree.SubElement(case, "error", {"message": f"{missing} of {result.expected_checks} checks did not run"})
    if never:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "audit", "name": "not_exercised", "time": "0"})
        ElementTree.SubElement(case, "error", {"message": _clean(f"no check has passed {', '.join(never)}")})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _kind(record: Record) -> str | None:
    if record.status == "passed":
        return None
    if record.status == "failed":
        return "failure"
    if record.status in ("could_not_run", "could_not_judge") or (record.status == "inconclusive" and record.required):
        return "error"
    return "skipped"


def _add(suite: ElementTree.Element, record: Record, kind: str | None) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": f"audit.{record.function}", "name": _clean(record.name), "time": _seconds(record.seconds)},
    )
    if kind is None:
        return
    label = f"{', '.join(record.diagnosis)}: " if record.diagnosis else ""
    message = _clean(f"{label}{shown_reason(record)}")
    attributes = {"message": message} if kind == "skipped" else {"message": message, "type": record.status}
    child = ElementTree.SubElement(case, kind, attributes)
    details = "\n".join(part for part in (record.says, record.words, record.instance, record.snippet) if part)
    if kind != "skipped":
        child.text = _clean(details)


def _seconds(value: float) -> str:
    return f"{value:.4f}"


def _clean(text: str) -> str:
    return _ILLEGAL.sub("?", text)
