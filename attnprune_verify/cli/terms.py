"""The terms of ``audit`` and ``audit-kernel``: seed, limits, confinement; and preparation of the audit's process."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

import click

from attnprune_verify.cli.terminal.output import laid_out

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attnprune_verify.audit.result import AuditResult


class _Seed(click.ParamType):  # type: ignore[type-arg]  # generic in some releases only
    name = "N|random"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text != "random" and not (text.isascii() and text.isdigit()):
            self.fail(f'must be an integer >= 0 or "random"; got {text!r}', param, ctx)
        return text if text == "random" else int(text)


_SECONDS = click.FloatRange(min=0, min_open=True)
OPTIONS = {"seed", "limit", "call_limit", "confine", "path"}


def terms_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of both audits."""
    for option in (
        click.option(
            "--confine",
            type=click.Choice(["available", "required", "off"]),
            default="available",
            show_default=True,
            help="Keep TARGET from files, network and signals: as far as possible; by Landlock or not run; not at all.",
        ),
        click.option(
            "--path",
            multiple=True,
            type=click.Path(exists=True, file_okay=False),
            metavar="FOLDER",
            help="Open to TARGET for reading, and first on its import path; may be repeated.",
        ),
        click.option(
            "--call-limit",
            type=_SECONDS,
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="Processor time of a call; its wall-clock time may be ten times that.",
        ),
        click.option(
            "--limit",
            type=_SECONDS,
            metavar="SECONDS",
            help="Time limit of the whole audit; checks left at its end count as not run.",
        ),
        click.option(
            "--seed",
            type=_Seed(),
            default="0",
            show_default=True,
            help="Seed of the instances; random draws one (recommended for continuous integration).",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def ready(report_of: Callable[[AuditResult], str | RenderableType]) -> Iterator[None]:
    """Import all modules that judge and report, before the target runs, and none from the working directory.

    A target may write files where Python looks for modules; a module that is already imported cannot be replaced. One
    report is rendered in advance, because libraries import more modules when they are used.
    """
    from attnprune_verify import audit
    from attnprune_verify.audit.subject.reach import leave_working_directory

    for module in pkgutil.walk_packages(audit.__path__, f"{audit.__name__}."):
        import_module(module.name)
    with leave_working_directory():
        report = report_of(_rehearsal())
        if not isinstance(report, str):
            laid_out(report, 80, colour=True)
        yield


def _rehearsal() -> AuditResult:
    """Return a result with one example of everything that a report shows."""
    from attnprune_verify.audit.record import Record, Status
    from attnprune_verify.audit.result import AuditResult

    words = "é \N{CJK UNIFIED IDEOGRAPH-4E00}"
    records = tuple(
        Record(f"loss:{status}", "loss", "", words, True, status, words, ("unknown",), words, snippet="1\n")
        for status in get_args(Status)
    )
    return AuditResult(words, None, None, 0, len(records), records)
