"""``attnprune-verify check``: the main job on one instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import numpy as np

from attnprune_verify.cli.terminal.number import NUMBER
from attnprune_verify.cli.terminal.output import EXIT, deliver
from attnprune_verify.cli.terminal.progress import stages

if TYPE_CHECKING:
    from attnprune_verify.instance.problem import Instance, LayerInstance


@click.command(name="check", epilog="Example: attnprune-verify check mine.npz --format json --strict")
@click.argument("instance", required=False, type=click.Path())
@click.option(
    "--layer", type=int, metavar="I", help="INSTANCE is a model's folder: check its attention layer I (from 0)."
)
@click.option("--text", type=click.Path(), metavar="FILE", help="Read the layer's tokens from this text; with --layer.")
@click.option("--n", type=int, metavar="N", help="Use the first N tokens of the text; with --layer.  [default: 128]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="A failed assumption counts as failed (exit code 1).")
@click.option(
    "--effort",
    type=NUMBER,
    default=22.0,
    show_default=True,
    help="Nominal seconds for the oracles in exact arithmetic; the report lists an oracle that needs more as skipped.",
)
@click.option(
    "--rho",
    type=NUMBER,
    metavar="R",
    help="Also bound the divergence of all masks with this share of zeros, if that costs less than --effort.",
)
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
@click.option(
    "--beta", type=NUMBER, metavar="B", help="Judge this beta (X X^T >= beta I) instead of the instance's own."
)
@click.option(
    "--delta", type=NUMBER, metavar="D", help="Judge this delta (F(M) >= delta) instead of the instance's own."
)
def command(
    instance: str | None,
    layer: int | None,
    text: str | None,
    n: int | None,
    form: str,
    strict: bool,
    effort: float,
    rho: float | None,
    quiet: bool,
    beta: float | None,
    delta: float | None,
) -> int:
    """Check INSTANCE, an .npz file with X, W (or W_Q, W_K) and optionally M, mask, lam; or a layer.

    A layer is an .npz file with X, W_Q, W_K, heads (and kv_heads, b_Q, b_K, rope_theta, window, softcap, ...), or one
    of a model in Hugging Face layout: check FOLDER --layer 3 --text FILE.

    The check compares the closed-form gradient with four independent oracles, tests the paper's assumptions, and
    evaluates its theorem. Without INSTANCE it runs on the paper's synthetic set-up (n = 128, d = 64, causal).

    Exit code 0 when every gradient oracle passed (a failed assumption is a finding), 1 when one refutes the gradient
    (or, with --strict, an assumption fails), 2 for invalid input, 3 when something could not be decided.
    """
    from attnprune_verify.check import run_check

    problem = _problem(instance, layer, text, n)
    with stages(show=not quiet) as tell:
        result = run_check(problem, beta=beta, delta=delta, strict=strict, effort=effort, rho=rho, progress=tell)
    if form == "json":
        from attnprune_verify.files import dumps

        deliver(dumps(result.as_dict()))
    else:
        from attnprune_verify.report.check_text import closing_sentence, render_check

        deliver(closing_sentence(result) + "\n" if quiet else render_check(result))
    return EXIT[result.outcome]


def _problem(instance: str | None, layer: int | None, text: str | None, n: int | None) -> Instance | LayerInstance:
    from attnprune_verify.check import instance_of_model
    from attnprune_verify.instance.families import paper_synthetic
    from attnprune_verify.instance.npz import load_instance

    if layer is None and text is None and n is None:
        return paper_synthetic(np.random.default_rng(0)) if instance is None else load_instance(instance)
    if instance is None or layer is None or text is None:
        raise click.UsageError("a model's layer needs its folder, --layer and --text; --n goes with them")
    return instance_of_model(instance, layer, text, 128 if n is None else n)
