"""``attnprune-verify experiment layer FOLDER``: pruning methods side by side on the layers of a real model."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.experiment.kept_runs import carried_out, chosen, keeps_runs
from attnprune_verify.cli.terminal.lazy import NamingMethods
from attnprune_verify.cli.terminal.number import NUMBER


@click.command("layer", cls=NamingMethods)
@click.argument("folder", type=click.Path(path_type=Path))
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
@keeps_runs("layer-experiment")
def command(folder: Path, **choices: Any) -> int:
    """Prune W_Q and W_K of the model in FOLDER (config.json, safetensors, tokenizer.json) and measure the attention.

    Errors are reported on the calibration texts and on other ones, by layer and head, with paired ratios against
    SparseGPT. Each run is kept in OUT as soon as it is done: after an interruption the same command resumes.

    \b
    Example:
      attnprune-verify experiment layer models/all-MiniLM-L6-v2 --rho 0.5 --rho 0.7
      attnprune-verify experiment layer models/all-MiniLM-L6-v2 --layer 3 --method sparsegpt --method fisher-obs-kl
    """
    from attnprune_verify.experiments.layer import report
    from attnprune_verify.experiments.layer.plan import LayerPlan
    from attnprune_verify.experiments.layer.plots import write_plots
    from attnprune_verify.experiments.layer.run import run_layers

    how, given = chosen(choices)
    plan = LayerPlan(str(folder), **given)
    return carried_out(partial(run_layers, plan), report, write_plots, r"layer(-n\d+)?\.(csv|json|png|svg)", **how)
