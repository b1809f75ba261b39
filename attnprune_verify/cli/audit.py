"""``attnprune-verify audit``: is someone's implementation right, and if not, which mistake does it make?"""

from __future__ import annotations

from pathlib import Path

import click

from attnprune_verify.cli.output import deliver, output_file

__all__ = ["command"]


@click.command(name="audit")
@click.argument("target")
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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the instances.")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
def command(target: str, form: str, out: str | None, deviations: Path | None, seed: int, quiet: bool) -> int:
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
    target_file = output_file(out)
    from attnprune_verify.audit.run import run_audit
    from attnprune_verify.cli.progress import progress_bar

    with progress_bar("auditing", show=not quiet) as bar:
        told = None if bar is None else lambda _, done, total: bar(done, total)
        result = run_audit(target, seed, deviations=deviations, progress=told)
    if form == "json":
        from attnprune_verify.report.strict_json import dumps

        deliver(dumps(result.as_dict()), target_file)
    elif form == "junit":
        from attnprune_verify.report.audit_junit import audit_junit

        deliver(audit_junit(result), target_file)
    elif form == "html":
        from attnprune_verify.report.audit_html import audit_html

        deliver(audit_html(result), target_file)
    else:
        from attnprune_verify.report.audit_text import closing_sentence, render_audit

        deliver(closing_sentence(result) + "\n" if quiet else render_audit(result), target_file)
    return result.exit_code
