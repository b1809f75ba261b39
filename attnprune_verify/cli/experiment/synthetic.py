"""``attnprune-verify experiment synthetic``: Figure 2 under every reading, with trivial baselines and fresh samples."""

from dataclasses import replace
from functools import partial
from typing import Any

import click

from attnprune_verify.cli.experiment.kept_runs import carried_out, chosen, keeps_runs
from attnprune_verify.cli.terminal.number import NUMBER


@click.command("synthetic")
@click.option(
    "--full", is_flag=True, help="The ranges of Figure 2 with five seeds: three times the runs, and longer ones."
)
@click.option(
    "--weights",
    multiple=True,
    type=click.Choice(["independent", "shared"]),
    help="W_Q and W_K: two Gaussian draws, or one.",
)
@click.option("--reading", "readings", multiple=True, help="Readings of the algorithm to sweep (may be repeated).")
@click.option("--lam", "lams", multiple=True, type=NUMBER, help="Values of the sweep over lambda (may be repeated).")
@click.option("--fixed-lam", "fixed_lams", multiple=True, type=NUMBER, help="lambda of the sweeps over n and rho.")
@click.option("--n", "ns", multiple=True, type=int, help="Values of the sweep over n (may be repeated).")
@click.option("--rho", "rhos", multiple=True, type=NUMBER, help="Values of the sweep over rho (may be repeated).")
@click.option("--fixed-n", type=int, help="n of the sweeps over lambda and rho.  [default: 128]")
@click.option("--d", type=int, help="Features; the rank of W_Q and W_K stays 4.  [default: 64]")
@click.option("--seeds", type=int, help="Seeds for every k.")
@click.option("--k", "ks", multiple=True, type=int, help="Numbers of samples (may be repeated).")
@click.option("--steps", type=int, help="Steps of descent.  [default: 100]")
@click.option("--momentum", type=NUMBER, help="[default: 0.9]")
@click.option("--momentum-form", type=click.Choice(["heavy-ball", "ema", "nesterov"]), help="[default: heavy-ball]")
@click.option("--project", is_flag=True, help="Clip M to [0, 1] after every step.")
@click.option("--scale", type=NUMBER, help="Factor of the logits; the paper's text has none.  [default: 1]")
@keeps_runs("synthetic-experiment", jobs=None)
def command(full: bool, **choices: Any) -> int:
    """Measure Figure 2's curves for every reading of its text, and compare them with its prose.

    Each run is kept in OUT as soon as it is done: after an interruption the same command resumes.

    \b
    Example:
      attnprune-verify experiment synthetic --out results           about five minutes on two cores
      attnprune-verify experiment synthetic --scale 0.03125 --reading literal-direct --out small-logits
    """
    from attnprune_verify.experiments.synthetic import report
    from attnprune_verify.experiments.synthetic.plan import FULL, QUICK
    from attnprune_verify.experiments.synthetic.plots import write_plots
    from attnprune_verify.experiments.synthetic.run import run_synthetic

    how, given = chosen(choices)
    plan = _planned(FULL if full else QUICK, **given)
    owned = r"results\.(csv|json)|figure2_\w+\.(png|svg)"
    return carried_out(partial(run_synthetic, plan), report, write_plots, owned, **how)


def _planned(plan: Any, seeds: int | None = None, ks: tuple[int, ...] = (), **given: Any) -> Any:
    """The plan with the options that were given."""
    if "readings" in given:
        given["side_readings"] = ()
    if ks or seeds is not None:
        known = dict(plan.seeds)
        wanted = ks or tuple(known)
        given["seeds"] = tuple((k, known.get(k, 1) if seeds is None else seeds) for k in wanted)
    return replace(plan, **given)
