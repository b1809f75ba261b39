"""The executable spec of an attention kernel: every check as one test, for ``--attnprune-kernel TARGET``.

A failed check fails its test with the diagnosis and a runnable snippet; what could not be run, or was required and not
decided, fails too; what the kernel refuses is skipped with the reason.
"""

from collections.abc import Iterator

import pytest

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.record import Check
from attnprune_verify.audit.waivers import load_waivers
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.spec.outcome import USAGE, begin, refuse_stale, settle


@pytest.fixture(scope="session")
def kernel(pytestconfig: pytest.Config) -> Iterator[KernelAuditor]:
    """The kernel in its own process, once for all tests."""
    option = pytestconfig.getoption
    deviations = option("--attnprune-deviations")
    try:
        waivers = load_waivers(deviations) if deviations is not None else ()
        seed, dtype = option("--attnprune-seed"), option("--attnprune-kernel-dtype")
        with KernelAuditor(option("--attnprune-kernel"), dtype, seed, waivers) as running:
            refuse_stale(running)
            yield running
    except InvalidInstance as error:
        pytest.exit(str(error), returncode=USAGE)


@pytest.mark.parametrize("check", [pytest.param(check, id=check.id) for check in kernel_checks()])
def test_kernel(check: Check, kernel: KernelAuditor) -> None:
    """One check on the kernel."""
    begin(kernel, check.function)
    settle(kernel.record(check), check, kernel)
