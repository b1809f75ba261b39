"""The executable spec: every check of the audit as one test, for the target chosen by ``--attnprune-target``.

A failed check fails its test with the diagnosis and a runnable snippet; what could not be run, or was required and not
decided, fails too; what does not concern the target is skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attnprune_verify.audit.auditor import Auditor
from attnprune_verify.audit.checks import all_checks
from attnprune_verify.audit.record import Check
from attnprune_verify.audit.waivers import load_waivers, waiver_for
from attnprune_verify.errors import InvalidInstance

_USAGE = 4  # pytest's own exit code for a usage error


@pytest.fixture(scope="session")
def auditor(pytestconfig: pytest.Config) -> Iterator[Auditor]:
    """The target in its own process, once for all tests."""
    target, seed = pytestconfig.getoption("--attnprune-target"), pytestconfig.getoption("--attnprune-seed")
    deviations = pytestconfig.getoption("--attnprune-deviations")
    try:
        waivers = load_waivers(deviations) if deviations is not None else ()
        with Auditor(target, seed, waivers) as running:
            stale = running.stale_waivers()
            if stale:
                raise InvalidInstance(
                    f"every deviation must match a check; {', '.join(w.check for w in stale)} match none"
                )
            yield running
    except InvalidInstance as error:
        pytest.exit(str(error), returncode=_USAGE)


@pytest.mark.parametrize("check", [pytest.param(c, id=f"{c.claim or 'baseline'}-{c.id}") for c in all_checks()])
def test_check(check: Check, auditor: Auditor) -> None:
    """One check on the target."""
    record = auditor.record(check)
    if record.status == "passed":
        waiver = waiver_for(check.id, auditor.waivers)
        if waiver is not None and waiver.kind == "xfail":
            pytest.fail(
                f"passed, although [[xfail]] {waiver.check!r} says it must fail: remove the entry", pytrace=False
            )
        return
    if record.status == "failed":
        snippet = f"\n\n{record.snippet}" if record.snippet else ""
        pytest.fail(
            f"{record.says}: {', '.join(record.diagnosis)} ({record.words})\n{record.reason}{snippet}", pytrace=False
        )
    if record.status == "could_not_run" or (record.status == "inconclusive" and record.required):
        pytest.fail(f"{record.status.replace('_', ' ')}: {record.reason}", pytrace=False)
    pytest.skip(f"{record.status.replace('_', ' ')}: {record.reason}")


def test_every_check_is_accounted_for() -> None:
    """No check may vanish from the list or hide behind another's id."""
    ids = [check.id for check in all_checks()]
    assert len(ids) == len(set(ids))
    assert len(ids) > 300
