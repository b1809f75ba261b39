"""Writing of reports to a terminal, a pipe or a file (complete or not there), and the exit code of each."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from attnprune_verify.extras import has, lacking
from attnprune_verify.files import write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["EXIT", "deliver", "laid_out", "output_file", "plotted", "reader_left"]

EXIT = {"passed": 0, "failed": 1, "incomplete": 3}
_NARROWEST = 80  # a terminal's traditional width


def output_file(out: str | None) -> Path | None:
    """The file that --out names, refused before any work if no file can take that name.

    Raises
    ------
    click.UsageError
        If it is a folder, a device or a pipe (a rename would replace it), or its folder does not exist.
    """
    if out is None:
        return None
    path = Path(out)
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir() or not path.name:
        raise click.UsageError(f"--out must name a file in a folder that exists; got {out!r}")
    return path


def deliver(report: str | RenderableType, target: Path | None = None, *, width: int = 120) -> None:
    """Write a report to `target`, or to stdout.

    Strings go out as they are. Anything else is laid out, in a terminal as wide as that, elsewhere `width` columns
    wide. A reader of stdout who leaves early, as ``| head`` does, changes nothing about the exit code.
    """
    if target is not None:
        text = report if isinstance(report, str) else laid_out(report, width, colour=False)
        write_whole(target, text.encode("utf-8", "replace"))
        return
    terminal = sys.stdout.isatty()
    if terminal:
        # A terminal too narrow for the tables folds their lines itself; rich would cut 1.41e-17 to 1.41e-1.
        width = max(_NARROWEST, get_terminal_size().columns)
    try:
        sys.stdout.write(report if isinstance(report, str) else laid_out(report, width, colour=terminal or None))
        sys.stdout.flush()
    except BrokenPipeError:
        reader_left()


def plotted(write: Callable[[], list[Path]]) -> list[Path]:
    """The figures that `write` makes; none, and a note, without the extra `plot`."""
    if has("plot"):
        return write()
    click.echo(f"Note: no plots; {lacking('drawing', 'plot')}", err=True)
    return []


def reader_left() -> None:
    """Discard output that is still to be written, so that the interpreter does not fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def laid_out(report: RenderableType, width: int, *, colour: bool | None) -> str:
    """Return the report as text; `colour` None means coloured only if the environment sets FORCE_COLOR."""
    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=width, highlight=False, force_terminal=colour).print(report, markup=False)
    return "".join(line.rstrip() + "\n" for line in page.getvalue().splitlines())
