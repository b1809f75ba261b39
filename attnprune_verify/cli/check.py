"""``attnprune-verify check``: the main job on one instance."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import numpy as np

from attnprune_verify.cli.output import EXIT, deliver

__all__ = ["command"]


@click.command(name="check", epilog="Example: attnprune-verify check mine.npz --format json --strict")
@click.argument("instance", required=False, type=click.Path())
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="A failed assumption counts as failed (exit code 1).")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
@click.option(
    "--beta", type=float, metavar="B", help="Judge this beta (X X^T >= beta I) instead of the instance's own."
)
@click.option(
    "--delta", type=float, metavar="D", help="Judge this delta (F(M) >= delta) instead of the instance's own."
)
def command(instance: str | None, form: str, strict: bool, quiet: bool, beta: float | None, delta: float | None) -> int:
    """Check INSTANCE, an .npz file with X, W (or W_Q, W_K) and optionally M, mask, lam.

    Evaluates the closed-form gradient against four independent oracles, says which assumptions of the paper hold,
    and what its theorem is worth here. Without INSTANCE: the paper's synthetic set-up (n = 128, d = 64, causal).

    Exit code 0 when every gradient oracle passed (a failed assumption is a finding), 1 when one refutes the gradient
    (or, with --strict, an assumption fails), 2 for invalid input, 3 when something could not be decided.
    """
    from attnprune_verify.checking.run import run_check
    from attnprune_verify.instance.families import paper_synthetic
    from attnprune_verify.instance.npz import load_instance

    problem = paper_synthetic(np.random.default_rng(0)) if instance is None else load_instance(instance)
    with _progress(quiet) as tell:
        result = run_check(problem, beta=beta, delta=delta, strict=strict, progress=tell)
    if form == "json":
        from attnprune_verify.report.strict_json import dumps

        deliver(dumps(result.as_dict()))
    else:
        from attnprune_verify.report.check_text import closing_sentence, render_check

        deliver(closing_sentence(result) + "\n" if quiet else render_check(result))
    return EXIT[result.outcome]


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None] | None]:
    """A line on stderr that says what is being done, when someone is there to see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda what: status.update(what)
