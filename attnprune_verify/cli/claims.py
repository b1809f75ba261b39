"""``attnprune-verify claims``: every statement of the paper, its verdict and its evidence."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnprune_verify.errors import InvalidInstance

if TYPE_CHECKING:
    from attnprune_verify.claims.run import ClaimsResult

__all__ = ["command"]

_EXIT = {"passed": 0, "failed": 1, "incomplete": 3}


@click.command(name="claims", epilog="Example: attnprune-verify claims --format html --out claims.html")
@click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write to FILE instead of the terminal.")
@click.option("--thorough", is_flag=True, help="Attack every statement for minutes instead of seconds.")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
def command(form: str, out: str | None, thorough: bool, quiet: bool) -> int:
    """Judge every statement of the paper, and every repaired and new one.

    Each is attacked by adversarial families, guided random search, limits and optimisation; a violation counts only
    when exact or ball arithmetic confirms it. The verdict on the printed proof stands beside the verdict on the
    statement.

    Exit code 0 when everything was computed (a refuted statement of the paper is a finding), 1 when a repaired or new
    statement does not stand, 2 for wrong usage, 3 when something could not be run or decided.
    """
    target = _target(out)
    from attnprune_verify.claims.falsifier import QUICK, THOROUGH
    from attnprune_verify.claims.run import run_claims
    from attnprune_verify.cli.progress import progress_bar
    from attnprune_verify.experiments.journal import write_whole

    with progress_bar("judging statements", show=not quiet) as tell:
        result = run_claims(THOROUGH if thorough else QUICK, tell)
    if target is None and form == "text":
        _print(result, quiet)
    else:
        text = _written(result, form, quiet)
        if target is None:
            click.echo(text, nl=False)
        else:
            write_whole(target, text.encode())
    return _EXIT[result.outcome]


def _target(out: str | None) -> Path | None:
    """The output path, refused before any work if it cannot be written."""
    if out is None:
        return None
    path = Path(out)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInstance(f"--out must name a file in an existing folder; got {out!r}")
    return path


def _written(result: ClaimsResult, form: str, quiet: bool) -> str:
    if form == "json":
        from attnprune_verify.report.strict_json import dumps

        return dumps(result.as_dict())
    if form == "html":
        from attnprune_verify.report.claims_html import render_page

        return render_page(result)
    from rich.console import Console

    from attnprune_verify.report.claims_text import closing_sentence, render_claims

    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        console = Console(file=file, width=140, highlight=False)
        console.print(closing_sentence(result) if quiet else render_claims(result), markup=False)
        file.seek(0)
        return file.read()


def _print(result: ClaimsResult, quiet: bool) -> None:
    from rich.console import Console

    from attnprune_verify.report.claims_text import closing_sentence, render_claims

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(closing_sentence(result) if quiet else render_claims(result), markup=False)
