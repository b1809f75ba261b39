"""``attnprune-verify audit-kernel``: is someone's softmax attention right, forward and backward, in its precision?"""

from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.terminal.output import deliver, output_file
from attnprune_verify.cli.terms import ready, terms_options


@click.command(name="audit-kernel")
@click.argument("target")
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]),
    default="float32",
    show_default=True,
    help="Floating-point format of the inputs, and of the accuracy that the kernel promises.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "html"]), default="text", show_default=True
)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the report there, not to stdout.")
@click.option(
    "--deviations",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML with [[waive]], [[skip]] and [[xfail]] entries, each a check and a reason.",
)
@click.option("--only", multiple=True, metavar="PATTERN", help="These functions or checks alone; * and ? allowed.")
@click.option(
    "--name",
    "names",
    type=click.Choice(["never", "first", "all"]),
    default="all",
    show_default=True,
    help="Look for the mistake behind no failure, the first one of each function, or all.",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["bitwise", "batch-invariant", "poisoned", "replay", "many"]),
    help="Further checks: equal bits, memory that was not written, captured calls, races.",
)
@click.option(
    "--device", default="cpu", show_default=True, help="Where the arrays are, such as cuda; the truth stays here."
)
@terms_options
@click.option("--quick", is_flag=True, help="Features together in pairs and small sizes only, not in triples.")
@click.option("--plan", "planned", is_flag=True, help="List the checks and why each applies or not; judge nothing.")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
def command(
    target: str,
    dtype: str,
    form: str,
    out: str | None,
    deviations: Path | None,
    only: tuple[str, ...],
    modes: tuple[str, ...],
    quick: bool,
    planned: bool,
    quiet: bool,
    **terms: Any,
) -> int:
    """Audit an attention kernel TARGET: package.module or path/to/file.py, or package.module:object, file.py:name.

    TARGET has attention(q, k, v, *, causal=False, scale=None, mask=None) and, optionally,
    attention_backward(q, k, v, do, *, ...) -> (dq, dk, dv). FRAMEWORK = "numpy", "torch" or "jax" in the module names
    the framework of the arrays; torch and jax kernels without a backward pass are differentiated. q is (batch, heads,
    n, m), k (batch, kv_heads, l, m), v (batch, kv_heads, l, mv); mask is bool (n, l), True = may attend.
    merge(o1, lse1, o2, lse2) -> (o, lse), merge_many(o, lse) and merge_backward are judged, too, alone or beside it.

    \b
    Example:
      attnprune-verify audit-kernel mypackage.flash --dtype bfloat16
      attnprune-verify audit-kernel my_kernel.py --format junit --out kernel.xml
      attnprune-verify audit-kernel my_kernel.py --device cuda --mode bitwise --only 'attention:mode:*'

    Exit code 0 passed, 1 failed, 2 TARGET or an option is invalid, 3 something could not be run or decided.
    """
    target_file = output_file(out)
    from attnprune_verify.audit.kernel.options import Options
    from attnprune_verify.audit.kernel.plan import plan
    from attnprune_verify.audit.kernel.run import run_kernel_audit
    from attnprune_verify.audit.subject.terms import Terms, drawn
    from attnprune_verify.cli.audit import report_of
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.report.audit_findings import closing_sentence

    with ready(lambda result: report_of(result, form, quiet=quiet)):
        if planned:
            limits = Terms(*(terms[name] for name in ("limit", "call_limit", "confine", "path")))
            options = Options.of(quick=quick, only=only, names=terms["names"], modes=modes, device=terms["device"])
            deliver(f"{plan(target, dtype, drawn(terms['seed']), options, limits)}\n", target_file)
            return 0
        with progress_bar("auditing", show=not quiet) as bar:
            told = None if bar is None else lambda _, done, total: bar(done, total)
            result = run_kernel_audit(
                target, dtype, deviations=deviations, only=only, modes=modes, quick=quick, progress=told, **terms
            )
        deliver(report_of(result, form, quiet=quiet), target_file, said="" if quiet else closing_sentence(result))
    return result.exit_code
