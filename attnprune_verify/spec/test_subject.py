"""The executable spec: every check of the audit as one test, for the target chosen by ``--attnprune-target``.

A failed check fails its test with the diagnosis and a runnable snippet; what could not be run, or was required and not
decided, fails too; what does not concern the target is skipped with the reason.
"""

from collections.abc import Iterator

import pytest

from attnprune_verify.audit.functions.auditor import Auditor
from attnprune_verify.audit.functions.checks import all_checks
from attnprune_verify.audit.record import Check
from attnprune_verify.audit.waivers import load_waivers
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.spec.outcome import USAGE, begin, refuse_stale, settle


@pytest.fixture(scope="session")
def auditor(pytestconfig: pytest.Config) -> Iterator[Auditor]:
    """The target in its own process, once for all tests."""
    target, seed = pytestconfig.getoption("--attnprune-target"), pytestconfig.getoption("--attnprune-seed")
    deviations = pytestconfig.getoption("--attnprune-deviations")
    try:
        waivers = load_waivers(deviations) if deviations is not None else ()
        with Auditor(target, seed, waivers) as running:
            refuse_stale(running)
            yield running
    except InvalidInstance as error:
        pytest.exit(str(error), returncode=USAGE)


@pytest.mark.parametrize("check", [pytest.param(c, id=f"{c.claim or 'baseline'}-{c.id}") for c in all_checks()])
def test_check(check: Check, auditor: Auditor) -> None:
    """One check on the target."""
    begin(auditor, check.function)
    settle(auditor.record(check), check, auditor)


def test_every_check_is_accounted_for() -> None:
    """No check may vanish from the list or hide behind another's id."""
    ids = [check.id for check in all_checks()]
    assert len(ids) == len(set(ids))
    assert len(ids) > 300
