"""The audit's checks as parameters of a test, in the manner of scikit-learn's `parametrize_with_checks`.

Imports pytest alone until a test module uses it: the plugin is loaded by every run of pytest.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from attnprune_verify.audit.examiner import Examiner
    from attnprune_verify.audit.record import Check
    from attnprune_verify.audit.waivers import Waiver

_open: list[_Audit] = []


def parametrize_with_checks(
    target: object,
    *,
    dtype: str | None = None,
    only: tuple[str, ...] = (),
    seed: int = 0,
    expected_failed_checks: Mapping[str, str] | None = None,
    deviations: str | Path | None = None,
) -> pytest.MarkDecorator:
    """Every check of the functions that a target has, as the parameter `check` of one test.

    ::

        from attnprune_verify.spec import parametrize_with_checks

        @parametrize_with_checks("mypackage.pruning", dtype="float32")
        def test_contract(check):
            check()

    A test's id is that of its check, as in ``test_contract[gradient:values:causal]``. The target is imported once, in a
    process of its own, to see which functions it has, and again before the first test that runs.

    Parameters
    ----------
    target, dtype, only, seed
        As of `attnprune_verify.run_audit`.
    expected_failed_checks : mapping of str to str, optional
        Checks (``*`` and ``?`` allowed) that are known to fail, with the reason: skipped then; one that passes fails.
    deviations : path, optional
        A file of deviations, as of ``attnprune-verify audit``.

    Returns
    -------
    pytest.MarkDecorator
        A check that fails, could not be run, or is required and was not decided, fails its test.

    Raises
    ------
    InvalidInstance
        If the target cannot be imported or has none of the functions, or an expected failure matches no check.
    """

    def made(waivers: tuple[Waiver, ...]) -> Examiner:
        from attnprune_verify.audit.functions.auditor import Auditor

        return Auditor(target, seed, waivers, only, dtype)

    return _parametrized(made, expected_failed_checks, deviations)


def parametrize_with_kernel_checks(
    target: object,
    *,
    backward: Callable[..., object] | None = None,
    dtype: str = "float32",
    framework: str | None = None,
    device: str = "cpu",
    sizes: Mapping[str, object] | None = None,
    capabilities: Iterable[str] | None = None,
    layout: str | None = None,
    scale: str | None = None,
    ignored: Iterable[str] | None = None,
    conventions: Mapping[str, object] | None = None,
    recipe: Mapping[str, object] | None = None,
    only: str | tuple[str, ...] = (),
    modes: str | tuple[str, ...] = (),
    quick: bool = False,
    seed: int = 0,
    expected_failed_checks: Mapping[str, str] | None = None,
    deviations: str | Path | None = None,
) -> pytest.MarkDecorator:
    """Make each check of an attention kernel one test, with the arguments of `attnprune_verify.check_attention`."""

    def made(waivers: tuple[Waiver, ...]) -> Examiner:
        from attnprune_verify.audit.kernel.eight_auditor import auditor_of
        from attnprune_verify.audit.kernel.options import Options, declarations
        from attnprune_verify.audit.kernel.process.callables import subject_of

        options = Options.of(quick=quick, only=only, names="all", modes=modes, device=device)
        declared = declarations(sizes, capabilities, layout, scale, ignored, conventions, recipe)
        return auditor_of(subject_of(target, backward, framework), dtype, seed, waivers, options, declared)

    return _parametrized(made, expected_failed_checks, deviations)


class OneCheck:
    """A check on a target: called, it passes, fails or skips the test that calls it."""

    def __init__(self, audit: _Audit, check: Check) -> None:
        self.audit, self.check = audit, check
        self.__name__ = check.id

    def __call__(self) -> None:
        from attnprune_verify.spec.outcome import begin, settle

        auditor = self.audit.running()
        begin(auditor, self.check.function)
        settle(auditor.record(self.check), self.check, auditor)

    def __repr__(self) -> str:
        return f"<check {self.__name__}>"


class _Audit:
    """One target; its process lives from the first check that runs to the end of the test run."""

    def __init__(self, made: Callable[[], Examiner]) -> None:
        self._made = made
        self._running: Examiner | None = None

    def checks(self) -> list[Check]:
        """The checks of the functions that the target has."""
        from attnprune_verify.spec.outcome import refuse_stale

        with self._made() as auditor:
            refuse_stale(auditor)
            return [check for check in auditor.checks if auditor.present(check.function)]

    def running(self) -> Examiner:
        if self._running is None:
            self._running = self._made().__enter__()
            _open.append(self)
        return self._running

    def close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)


def close_all() -> None:
    """End the process of every target; the plugin does so when a run of pytest ends."""
    while _open:
        _open.pop().close()


atexit.register(close_all)


def _parametrized(
    made: Callable[[tuple[Waiver, ...]], Examiner],
    expected_failed_checks: Mapping[str, str] | None,
    deviations: str | Path | None,
) -> pytest.MarkDecorator:
    from attnprune_verify.audit.waivers import Waiver, load_waivers

    waivers = load_waivers(deviations) if deviations is not None else ()
    waivers += tuple(Waiver("xfail", check, reason) for check, reason in (expected_failed_checks or {}).items())
    audit = _Audit(lambda: made(waivers))
    found = [pytest.param(OneCheck(audit, check), id=check.id) for check in audit.checks()]
    return pytest.mark.parametrize("check", found)
