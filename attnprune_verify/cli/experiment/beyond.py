"""``attnprune-verify experiment beyond``: where optimising the attention error does pay."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.terminal.number import NUMBER


@click.command("beyond")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("beyond-experiment"),
    show_default=True,
    help="Folder of the finished runs; those found there are not repeated.",
)
@click.option("--weights", multiple=True, type=click.Choice(["independent", "shared"]), help="Two draws, or one.")
@click.option("--candidate", "candidates", multiple=True, help="Only these (may be repeated).")
@click.option("--k", "ks", multiple=True, type=int, help="Numbers of samples (may be repeated).  [default: 16]")
@click.option("--scale", "scales", multiple=True, type=NUMBER, help="Factors of the logits.  [default: 1, 1/32]")
@click.option("--rho", "rhos", multiple=True, type=NUMBER, help="Pruning ratios.  [default: 0.5]")
@click.option("--seeds", type=int, help="[default: 3]")
@click.option("--n", type=int, help="[default: 128]")
@click.option("--d", type=int, help="[default: 64]")
@click.option("--jobs", type=int, help="Runs at the same time.  [default: one per core]")
@click.option("--quiet", is_flag=True, help="Print nothing but warnings.")
def command(out: Path, jobs: int | None, quiet: bool, **choices: Any) -> int:
    """Compare ways to use the attention error with Wanda, SparseGPT and magnitude, on fresh samples.

    \b
    Example:
      attnprune-verify experiment beyond                            some minutes on two cores
      attnprune-verify experiment beyond --k 64 --candidate tuned-pair --scale 1
    """
    from attnprune_verify.cli.jobs import as_processes
    from attnprune_verify.cli.terminal.output import interrupted
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.experiments.beyond.report import beyond_summary
    from attnprune_verify.experiments.beyond.run import BeyondPlan, run_beyond

    plan = replace(BeyondPlan(), **{name: value for name, value in choices.items() if value not in (None, ())})
    processes = as_processes(jobs)
    try:
        with progress_bar("runs", show=not quiet) as progress:
            rows = run_beyond(plan, out, processes=processes, progress=progress)
    except KeyboardInterrupt:
        return interrupted(out)
    if not quiet:
        click.echo(beyond_summary(plan, rows))
    return 0
