"""``attnprune-verify experiment perplexity FOLDER``: Table 1, pruning methods side by side end to end."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.experiment.kept_runs import carried_out, chosen, keeps_runs
from attnprune_verify.cli.terminal.lazy import NamingMethods
from attnprune_verify.cli.terminal.number import NUMBER


@click.command("perplexity", cls=NamingMethods)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--calibration", multiple=True, type=click.Path(), help="A text to calibrate on (may be repeated).")
@click.option("--held-out", multiple=True, type=click.Path(), help="A text to measure on (may be repeated).")
@click.option(
    "--attention",
    multiple=True,
    metavar="METHOD|dense",
    help="Method for W_Q and W_K (may be repeated).  [default: wanda, sparsegpt, auto]",
)
@click.option(
    "--rest",
    multiple=True,
    metavar="METHOD|dense|same",
    help="Method for V, O, MLP; same: as W_Q and W_K (may be repeated).  [default: dense]",
)
@click.option("--rho", "rhos", multiple=True, type=NUMBER, help="A pruning ratio (may be repeated).  [default: 0.5]")
@click.option("--pattern", "patterns", multiple=True, metavar="N:M", help="Keep N of every M (may be repeated).")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    type=click.Choice(["matrix", "measured", "owl"]),
    help="Division of the zeros between matrices (may be repeated).  [default: matrix]",
)
@click.option("--hold", type=int, multiple=True, help="Prune this block by exactly rho (may be repeated).")
@click.option("--k", "ks", multiple=True, type=int, help="Calibration windows (may be repeated).  [default: 8]")
@click.option("--n", type=int, help="Tokens of a window.  [default: the model's context, at most 2048]")
@click.option("--seeds", type=int, help="Draws of the calibration windows.  [default: 1]")
@click.option("--windows", type=int, help="Held-out windows, evenly spaced.  [default: all]")
@click.option("--by-layer", is_flag=True, help="Measure also the effect of pruning each block alone.")
@keeps_runs("perplexity-experiment")
def command(folder: Path, **choices: Any) -> int:
    """Prune the language model in FOLDER in memory, and measure its next-token predictions on held-out text.

    Every combination of --rest, --attention, --rho or --pattern, --k and draw is one run: perplexity, KL to the dense
    model, paired ratios to SparseGPT. Each run is kept in OUT as soon as it is done: after an interruption the same
    command resumes. The results hold a fingerprint of everything they depend on (see `compare`).

    \b
    Example:
      attnprune-verify experiment perplexity models/llama --calibration a.txt --held-out b.txt --rho 0.5 --rho 0.7
      attnprune-verify experiment perplexity models/llama --rest dense --rest wanda --rest sparsegpt --seeds 5
    """
    from attnprune_verify.experiments.perplexity import report
    from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
    from attnprune_verify.experiments.perplexity.run import run_perplexity

    how, given = chosen(choices)
    plan = PerplexityPlan(str(folder), **given)
    owned = r"(perplexity(-\w+)?|times)\.(csv|json|png|svg)"
    return carried_out(partial(run_perplexity, plan), report, _plots, owned, **how)


def _plots(results: Any, out: Path) -> list[Path]:
    from attnprune_verify.experiments.figures import save
    from attnprune_verify.experiments.perplexity.plots import write_plots
    from attnprune_verify.experiments.perplexity.report import as_document
    from attnprune_verify.report.plots.measured import draw_perplexity

    paths = write_plots(results, out)
    if any(row["rho"] is not None and row["layer"] is None for row in results.rows):
        paths += save(draw_perplexity(as_document(results)), out, "perplexity")
    return paths
