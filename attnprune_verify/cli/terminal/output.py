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

from attnprune_verify.cli.terminal.codes import INTERRUPTED
from attnprune_verify.extras import has, lacking
from attnprune_verify.files import write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

EXIT = {"passed": 0, "failed": 1, "incomplete": 3}
_NARROWEST = 80  # a terminal's traditional width


def output_file(out: str | None, option: str = "out", renews: str = "") -> Path | None:
    """The file that --out, or another option, names, refused before any work if no file can take that name.

    Raises
    ------
    click.UsageError
        If it is a folder, a device or a pipe (a rename would replace it), or its folder does not exist; or if another
        option or argument names that file, but for the option `renews`.
    """
    if out is None:
        return None
    path = Path(out)
    _refuse_another(path, option, renews)
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir() or not path.name:
        raise click.UsageError(f"--{option.replace('_', '-')} must name a file in a folder that exists; got {out!r}")
    return path


def _refuse_another(path: Path, option: str, renews: str) -> None:
    """Refuse a file to write that the command line also names in another place, such as TARGET."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    for parameter in context.command.params:
        name, argument = str(parameter.name), isinstance(parameter, click.Argument)
        given = context.params.get(name)
        names_a_file = name == "target" or isinstance(parameter.type, click.Path)
        if given is None or name in (option, renews) or not names_a_file:
            continue
        for one in map(str, given if isinstance(given, tuple) else (given,)):
            if os.path.realpath(path) in map(os.path.realpath, (one, *_files_of_module(one.partition(":")[0]))):
                place = name.upper() if argument else f"the file of {parameter.opts[0]}"
                raise click.UsageError(f"--{option.replace('_', '-')} must not name {place}; got {str(path)!r}")


def _files_of_module(name: str) -> tuple[str, ...]:
    """Return the files that TARGET may stand for: a file itself, or a module here by its dotted name."""
    place = os.path.join(*name.split(".")) if name else name
    return name, f"{place}.py", os.path.join(place, "__init__.py")


def deliver(report: str | RenderableType, target: Path | None = None, *, width: int = 120, said: str = "") -> None:
    """Write a report to `target`, and `said` to stderr, or the report to stdout.

    Strings go out as they are. Anything else is laid out, in a terminal as wide as that, elsewhere `width` columns
    wide. A reader of stdout who leaves early, as ``| head`` does, changes nothing about the exit code.
    """
    if target is not None:
        text = report if isinstance(report, str) else laid_out(report, width, colour=False)
        write_whole(target, text.encode("utf-8", "replace"))
        if said:
            click.echo(f"{said} Written to {target}", err=True)
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


def interrupted(kept: Path) -> int:
    """Print what an interrupted command has left, a folder or file that the same command goes on with; return 130."""
    there = kept.is_file() or (kept.is_dir() and any(kept.iterdir()))
    click.echo(
        f"Interrupted: finished work is kept in {kept}; the same command resumes from there."
        if there
        else "Interrupted: nothing was finished yet, and nothing is kept.",
        err=True,
    )
    return INTERRUPTED


def reader_left() -> None:
    """Discard output that is still to be written, so that the interpreter does not fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def laid_out(report: RenderableType, width: int, *, colour: bool | None) -> str:
    """Return the report as text; `colour` None means coloured only if the environment sets FORCE_COLOR."""
    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=width, highlight=False, force_terminal=colour).print(report, markup=False)
    return "".join(line.rstrip() + "\n" for line in page.getvalue().splitlines())
