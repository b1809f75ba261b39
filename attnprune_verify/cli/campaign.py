"""``attnprune-verify campaign``: statements attacked on very many random instances."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from attnprune_verify.cli.terminal.exclusive_options import refuse_beside
from attnprune_verify.cli.terminal.output import EXIT, deliver

_EVERY = 15.0
"""Chosen: seconds between two lines of progress where there is no bar."""


class _Count(click.ParamType):  # type: ignore[type-arg]  # generic in some releases only
    """A number of instances, which may be written 1e6."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = float(str(value))
        except ValueError:
            number = 0.5
        if not 1 <= number < 2**53 or number != int(number):
            self.fail(f"must be a whole number >= 1, such as 1e5; got {value!r:.60}", param, ctx)
        return int(number)


@click.command(name="campaign")
@click.argument("statements", nargs=-1, required=True, metavar="STATEMENT...")
@click.option(
    "--instances", type=_Count(), default=100_000, help="Number of random instances, such as 1e6.  [default: 1e5]"
)
@click.option("--sizes", metavar="SIZES", help="Tokens and features of the instances.  [default: n=2..8,d=2..8]")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(), metavar="DIR", help="Keep a checkpoint; the same command resumes from it.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Number of processes.")
@click.option("--scheduler", metavar="ADDRESS", help="Use this Dask scheduler, e.g. tcp://host:8786.")
@click.option("--index", type=int, help="Show and judge the instance with this number alone.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
def command(
    statements: tuple[str, ...],
    instances: int,
    sizes: str | None,
    seed: int,
    out: str | None,
    jobs: int,
    scheduler: str | None,
    index: int | None,
    form: str,
    quiet: bool,
) -> int:
    """Attack statements on many seeded random instances, and confirm the worst of them in ball arithmetic.

    Every instance can be drawn again from the seed and its index. The result is the same to the bit for any number of
    jobs, on any cluster of machines that round alike, and after any interruption.

    Exit code 0 when no statement of ours was violated (a violated statement of the paper is a finding), 1 when one was,
    2 for wrong usage, 3 when workers died faster than they could be replaced.

    \b
    Example:
      attnprune-verify campaign lem:PL_ineq fix:PL_ineq --instances 1e6 --out runs
    """
    from attnprune_verify.files import dumps
    from attnprune_verify.report.campaign_text import closing_sentence, render_campaign, render_instance

    if index is not None:
        refuse_beside("--index", {"instances", "out", "jobs", "scheduler"})
        from attnprune_verify.claims.campaign.examine import as_dict, examine

        found = [one for id_ in dict.fromkeys(statements) for one in examine(id_, index, seed=seed, sizes=sizes)]
        shown = {"seed": seed, "index": index, "statements": [as_dict(one) for one in found]}
        deliver(dumps(shown) if form == "json" else render_instance(found), width=80)
        return EXIT["failed" if any(one.claim.own and one.in_balls == "violated" for one in found) else "passed"]

    from attnprune_verify.claims.campaign.run import run_campaign
    from attnprune_verify.state.processes import WorkersLost

    settings: dict[str, Any] = {"seed": seed, "sizes": sizes, "out": out, "jobs": jobs, "scheduler": scheduler}
    try:
        with _telling(not quiet) as progress:
            result = run_campaign(statements, instances, **settings, progress=progress)
    except WorkersLost as error:
        click.echo(f"Error: {error}; the same command resumes from --out", err=True)
        return EXIT["incomplete"]
    if form == "json":
        deliver(dumps(result.as_dict()))
    else:
        deliver(closing_sentence(result) + "\n" if quiet else render_campaign(result), width=80)
    return EXIT[result.outcome]


@contextmanager
def _telling(show: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar with rate and time left in a terminal; elsewhere a line now and then; both on stderr."""
    if not show:
        yield None
        return
    if not sys.stderr.isatty():
        yield _line(time.monotonic)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} instances"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("time left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate="")
        began = time.monotonic()
        first: list[int] = []

        def progress(done: int, total: int) -> None:
            first[:] = first or [done]
            rate = (done - first[0]) / max(time.monotonic() - began, 1e-9)
            bar.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield progress


def _line(clock: Callable[[], float]) -> Callable[[int, int], None]:
    began, told, first = clock(), clock(), -1

    def progress(done: int, total: int) -> None:
        nonlocal told, first
        now = clock()
        if first < 0:
            first = done
            if done:
                click.echo(f"{done:,} of {total:,} instances were there already", err=True)
        if now - told < _EVERY or done == first:
            return
        told = now
        rate = (done - first) / (now - began)
        left = (total - done) / rate
        click.echo(f"{done:,} of {total:,} instances, {rate:,.0f}/s, {_span(left)} left", err=True)

    return progress


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
