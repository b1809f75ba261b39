"""``attnprune-verify audit``: is someone's implementation right, and if not, which mistake does it make?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnprune_verify.cli.terminal.exclusive_options import refuse_beside
from attnprune_verify.cli.terminal.output import deliver, output_file
from attnprune_verify.cli.terms import OPTIONS, ready, terms_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attnprune_verify.audit.result import AuditResult

_OF_A_RUN = {"form", "dtype", "adapter", "deviations", "waive_current", "names", "quick", *OPTIONS}
"""Options that mean nothing where nothing is audited."""


@click.command(name="audit")
@click.argument("target", required=False)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "html"]), default="text", show_default=True
)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the report there, not to stdout.")
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "bfloat16", "float16"]),
    help="Floating-point format that the target promises, for inputs and tolerances. Without it: float64.",
)
@click.option(
    "--as",
    "adapter",
    metavar="ADAPTER",
    help="Put a published adapter around TARGET, such as original_sparsegpt around a class; docs/audit.md lists them.",
)
@click.option("--only", multiple=True, metavar="PATTERN", help="These functions or checks alone; * and ? allowed.")
@click.option(
    "--deviations",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML with [[waive]], [[skip]] and [[xfail]] entries, each a check and a reason.",
)
@click.option(
    "--waive-current",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what fails now as such a file, after the entries of --deviations; the exit code is 0 then.",
)
@terms_options
@click.option(
    "--name",
    "names",
    type=click.Choice(["never", "first", "all"]),
    default="all",
    show_default=True,
    help="Look for the mistake behind no failure, the first one of each function, or all.",
)
@click.option("--quick", is_flag=True, help="Without large sizes, features together, random instances, long descents.")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
@click.option("--list", "listing", is_flag=True, help="Print the checks and end.")
@click.option(
    "--contract", is_flag=True, help="Print signatures, shapes and conventions (of the function TARGET) and end."
)
def command(
    target: str | None,
    form: str,
    out: str | None,
    dtype: str | None,
    adapter: str | None,
    only: tuple[str, ...],
    deviations: Path | None,
    waive_current: Path | None,
    quiet: bool,
    listing: bool,
    contract: bool,
    **terms: Any,
) -> int:
    """Audit TARGET: package.module or path/to/file.py, or package.module:object, file.py:name.

    TARGET has any of the functions that --contract lists. NumPy arrays go in; arrays, lists, torch and jax tensors may
    come out. It runs in a process of its own, confined as far as the kernel can; the result lists what was closed.

    \b
    Example:
      attnprune-verify audit mypackage.pruning
      attnprune-verify audit my_gradient.py --dtype float32 --format junit --out audit.xml
      attnprune-verify audit sparsegpt.py:SparseGPT --as original_sparsegpt --dtype float32
      attnprune-verify audit mypackage.pruning --seed random --limit 600 --confine required
      attnprune-verify audit --contract gradient

    Exit code 0 passed, 1 failed, 2 TARGET or an option is invalid, 3 something could not be run or decided.
    """
    target_file = output_file(out)
    waivers_file = None if waive_current is None else output_file(str(waive_current), "waive_current", "deviations")
    if contract:
        refuse_beside("--contract", {*_OF_A_RUN, "only", "listing"})
        deliver(_contract(target), target_file)
        return 0
    if listing:
        refuse_beside("--list", _OF_A_RUN)
        deliver(_list(only), target_file)
        return 0
    if target is None:
        raise click.UsageError("TARGET must be given")
    from attnprune_verify.audit.functions.run import run_audit
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.report.audit_findings import closing_sentence

    with ready(lambda result: report_of(result, form, quiet=quiet)):
        with progress_bar("auditing", show=not quiet) as bar:
            told = None if bar is None else lambda _, done, total: bar(done, total)
            result = run_audit(
                target, dtype=dtype, adapter=adapter, deviations=deviations, only=only, progress=told, **terms
            )
        deliver(report_of(result, form, quiet=quiet), target_file, said="" if quiet else closing_sentence(result))
        if waivers_file is not None:
            from attnprune_verify.audit.waivers import load_waivers, waivers_toml

            kept = () if deviations is None else load_waivers(deviations)
            deliver(waivers_toml(result.checks, kept), waivers_file, said="What fails now is waived with --deviations.")
            return 0
    return result.exit_code


def _contract(function: str | None) -> str:
    from attnprune_verify.audit.contract import FUNCTIONS
    from attnprune_verify.report.audit_contract import contract_text
    from attnprune_verify.values import nearest

    if function is not None and function not in FUNCTIONS:
        hint = nearest(function, FUNCTIONS) or f"; it has {', '.join(FUNCTIONS)}"
        raise click.UsageError(f"the contract has no function {function!r}{hint}")
    return contract_text([] if function is None else [function])


def _list(only: tuple[str, ...]) -> str:
    from attnprune_verify.audit.functions.checks import chosen_checks

    found = chosen_checks(only)
    width = max(len(check.id) for check in found)
    return "".join(f"{check.id:{width}}  {check.says}\n" for check in found)


def report_of(result: AuditResult, form: str, *, quiet: bool = False) -> str | RenderableType:
    """The result in one of the formats."""
    if form == "json":
        from attnprune_verify.files import dumps

        return dumps(result.as_dict())
    if form == "junit":
        from attnprune_verify.report.audit_junit import audit_junit

        return audit_junit(result)
    if form == "html":
        from attnprune_verify.report.audit_html import audit_html

        return audit_html(result)
    from attnprune_verify.report.audit_findings import closing_sentence
    from attnprune_verify.report.audit_text import render_audit

    return closing_sentence(result) + "\n" if quiet else render_audit(result)
