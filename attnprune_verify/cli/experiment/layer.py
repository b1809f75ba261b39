"""``attnprune-verify experiment layer FOLDER``: pruning methods side by side on the layers of a real model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.terminal.lazy import NamingMethods
from attnprune_verify.cli.terminal.number import NUMBER

__all__ = ["command"]


@click.command("layer", cls=NamingMethods)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("layer-experiment"),
    show_default=True,
    help="Folder for runs, tables, JSON and plots; finished runs found there are not repeated.",
)
@click.option("--calibration", multiple=True, type=click.Path(), help="Documents to calibrate on (may be repeated).")
@click.option("--held-out", multiple=True, type=click.Path(), help="Documents to measure on (may be repeated).")
@click.option(
    "--layer", "layers", multiple=True, type=int, help="Layers (may be repeated).  [default: all, end to end]"
)
@click.option(
    "--method", "methods", multiple=True, help="A method, with options as in fisher-obs:sweeps=1 (may be repeated)."
)
@click.option("--rho", "rhos", multiple=True, type=NUMBER, help="Pruning ratios (may be repeated).  [default: 0.5]")
@click.option("--n", "ns", multiple=True, type=int, help="Tokens per sequence (may be repeated).  [default: 128]")
@click.option("--held-out-n", type=int, help="Tokens per sequence that is measured on.  [default: as in calibration]")
@click.option("--k", type=int, help="Sequences for calibration, and as many for measuring.  [default: 8]")
@click.option("--seeds", type=int, help="Draws of sequences.  [default: 1]")
@click.option("--jobs", type=int, default=1, show_default=True, help="Runs at the same time.")
@click.option("--plots/--no-plots", default=True, help="Draw PNG and SVG (needs the extra `plot`).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="Print nothing but warnings.")
def command(folder: Path, out: Path, jobs: int, plots: bool, form: str, quiet: bool, **choices: Any) -> int:
    """Prune W_Q and W_K of the model in FOLDER (config.json, safetensors, tokenizer.json) and measure the attention.

    Errors are reported on the calibration texts and on other ones, by layer and head, with paired ratios against
    SparseGPT. Each run is kept in OUT as soon as it is done: after an interruption the same command resumes.

    \b
    Example:
      attnprune-verify experiment layer models/all-MiniLM-L6-v2 --rho 0.5 --rho 0.7
      attnprune-verify experiment layer models/all-MiniLM-L6-v2 --layer 3 --method sparsegpt --method fisher-obs-kl
    """
    from attnprune_verify.cli.jobs import as_processes
    from attnprune_verify.cli.terminal.output import interrupted, plotted
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.experiments.layer.plan import LayerPlan
    from attnprune_verify.experiments.layer.plots import write_plots
    from attnprune_verify.experiments.layer.report import as_document, summary, write_tables
    from attnprune_verify.experiments.layer.run import run_layers
    from attnprune_verify.files import dumps
    from attnprune_verify.state.outputs import outputs_in

    given = {name: value for name, value in choices.items() if value not in (None, ())}
    plan = LayerPlan(str(folder), **given)
    processes = as_processes(jobs)
    with outputs_in(out, r"layer(-n\d+)?\.(csv|json|png|svg)"):
        try:
            with progress_bar("runs", show=not quiet) as bar:
                results = run_layers(plan, out, processes=processes, progress=bar)
        except KeyboardInterrupt:
            return interrupted(out)
        paths = write_tables(results, out)
        if plots:
            paths += plotted(lambda: write_plots(results, out))
    if not quiet:
        click.echo(dumps(as_document(results), None).rstrip() if form == "json" else summary(results))
        click.echo("Written: " + ", ".join(map(str, paths)), err=True)
    return 0
