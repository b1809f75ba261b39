"""Conversion of an audit's record to the outcome of a test."""

import pytest

from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.record import Check, Record
from attnprune_verify.audit.waivers import waiver_for
from attnprune_verify.errors import InvalidInstance

USAGE = 4  # pytest's own exit code for a usage error


def refuse_stale(auditor: Examiner) -> None:
    """Every deviation must match a check.

    Raises
    ------
    InvalidInstance
    """
    stale = auditor.stale_waivers()
    if stale:
        raise InvalidInstance(f"every deviation must match a check; {', '.join(w.check for w in stale)} match none")


def begin(auditor: Examiner, function: str) -> None:
    """Run a required check of a function that was not called yet: some checks judge the results of all calls."""
    if function in auditor.subject.functions and not auditor.context.calls.get(function):
        asked = [check for check in auditor.checks if check.function == function]
        auditor.record(next((check for check in asked if check.required), asked[0]))


def settle(record: Record, check: Check, auditor: Examiner) -> None:
    """Pass, fail or skip."""
    if record.status == "passed":
        waiver = waiver_for(check.id, auditor.waivers)
        if waiver is not None and waiver.kind == "xfail":
            pytest.fail(
                f"passed, although [[xfail]] {waiver.check!r} says it must fail: remove the entry", pytrace=False
            )
        return
    if record.status == "failed":
        snippet = f"\n\n{record.snippet}" if record.snippet else ""
        names = ", ".join(record.diagnosis) or "not searched"
        pytest.fail(
            f"{record.says}: {names} ({record.words})\n{record.reason}{snippet}",
            pytrace=False,
        )
    if record.status in ("could_not_run", "could_not_judge") or (record.status == "inconclusive" and record.required):
        pytest.fail(f"{record.status.replace('_', ' ')}: {record.reason}", pytrace=False)
    pytest.skip(f"{record.status.replace('_', ' ')}: {record.reason}")
