"""``attnprune-verify audit``: is someone's implementation right, and if not, which mistake does it make?"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attnprune_verify.audit.run import AuditResult

__all__ = ["command"]


@click.command(name="audit")
@click.argument("target")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "html"]), default="text", show_default=True
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the report there, not to stdout.")
@click.option(
    "--deviations",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML with [[waive]], [[skip]] and [[xfail]] entries, each a check and a reason.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the instances.")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
def command(target: str, form: str, out: Path | None, deviations: Path | None, seed: int, quiet: bool) -> int:
    """Audit TARGET: package.module, package.module:object or path/to/file.py.

    TARGET has any of the functions loss, gradient, loss_and_gradient, hessian_vector_product, attention, causal_mask,
    relative_error, factored_loss, factored_gradient, binary_mask, prune_mask_gd, magnitude_mask, wanda_mask,
    sparsegpt, sparsegpt_report, with this package's signatures. NumPy arrays go in; arrays, lists, torch and jax
    tensors may come out. It runs in a process of its own, 30 seconds per call.

    \b
    Example:
      attnprune-verify audit mypackage.pruning
      attnprune-verify audit my_gradient.py --format junit --out audit.xml

    Exit code 0 passed, 1 failed, 2 TARGET or an option is invalid, 3 something could not be run or decided.
    """
    from attnprune_verify.audit.run import run_audit
    from attnprune_verify.cli.progress import progress_bar

    if out is not None and ((out.exists() and not out.is_file()) or not out.absolute().parent.is_dir()):
        raise click.UsageError(f"--out must name a file in a folder that exists; got {str(out)!r}")
    with progress_bar("auditing", show=not quiet) as bar:
        told = None if bar is None else lambda _, done, total: bar(done, total)
        result = run_audit(target, seed, deviations=deviations, progress=told)
    if form == "text" and out is None:
        _print(result, quiet)
    else:
        report = _report(result, form)
        if out is None:
            click.echo(report, nl=False)
        else:
            _write(out, report)
    return result.exit_code


def _print(result: AuditResult, quiet: bool) -> None:
    from rich.console import Console

    from attnprune_verify.report.audit_text import closing_sentence, render_audit

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(closing_sentence(result) if quiet else render_audit(result), markup=False)


def _report(result: AuditResult, form: str) -> str:
    if form == "json":
        from attnprune_verify.report.strict_json import dumps

        return dumps(result.as_dict())
    if form == "junit":
        from attnprune_verify.report.audit_junit import audit_junit

        return audit_junit(result)
    if form == "html":
        from attnprune_verify.report.audit_html import audit_html

        return audit_html(result)
    import io

    from rich.console import Console

    from attnprune_verify.report.audit_text import render_audit

    page = io.StringIO()
    Console(file=page, width=120, highlight=False).print(render_audit(result), markup=False)
    return page.getvalue()


def _write(out: Path, report: str) -> None:
    """Complete or not at all: a temporary file takes the name in the end."""
    handle, temporary = tempfile.mkstemp(dir=out.absolute().parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(report)
        os.chmod(temporary, 0o644)
        os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
