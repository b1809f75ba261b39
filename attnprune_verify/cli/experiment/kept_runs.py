"""Experiments whose runs are kept in a folder, each as soon as it is done: their common options, and their course."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

_HOW = ("out", "jobs", "plots", "form", "quiet")


def keeps_runs(folder: str, jobs: int | None = 1) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add --out, --jobs, --plots, --format and --quiet to a command; `jobs` None is a run per core."""
    cores = "  [default: one per core]" if jobs is None else ""
    out, form = click.Path(path_type=Path, file_okay=False), click.Choice(["text", "json"])
    options = (
        click.option(
            "--out", type=out, default=Path(folder), show_default=True,
            help="Folder for runs, tables, JSON and plots; finished runs found there are not repeated.",
        ),
        click.option("--jobs", type=int, default=jobs, show_default=True, help=f"Runs at the same time.{cores}"),
        click.option("--plots/--no-plots", default=True, help="Draw PNG and SVG (needs the extra `plot`)."),
        click.option("--format", "form", type=form, default="text", show_default=True),
        click.option("--quiet", is_flag=True, help="Print nothing but warnings."),
    )  # fmt: skip
    return lambda command: reduce(lambda found, option: option(found), reversed(options), command)


def chosen(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return those of `keeps_runs`, and the experiment's own that were given."""
    own = {name: value for name, value in options.items() if name not in _HOW and value not in (None, ())}
    return {name: options[name] for name in _HOW}, own


def carried_out(
    run: Callable[..., Any],
    report: Any,
    write_plots: Callable[[Any, Path], list[Path]],
    owned: str,
    *,
    out: Path,
    jobs: int | None,
    plots: bool,
    form: str,
    quiet: bool,
) -> int:
    """Do the runs, write tables and plots over those named by the pattern `owned`, print, return the exit code.

    `report` is a module with `write_tables`, `as_document` and `summary`.
    """
    from attnprune_verify.cli.jobs import as_processes
    from attnprune_verify.cli.terminal.output import deliver, interrupted, plotted
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.files import dumps
    from attnprune_verify.state.outputs import outputs_in

    processes = as_processes(jobs)
    with outputs_in(out, owned):
        try:
            with progress_bar("runs", show=not quiet) as bar:
                results = run(out, processes=processes, progress=bar)
        except KeyboardInterrupt:
            return interrupted(out)
        paths = report.write_tables(results, out)
        if plots:
            paths += plotted(lambda: write_plots(results, out))
    if not quiet:
        deliver(dumps(report.as_document(results)) if form == "json" else f"{report.summary(results)}\n")
        click.echo("Written: " + ", ".join(map(str, paths)), err=True)
    return 0
