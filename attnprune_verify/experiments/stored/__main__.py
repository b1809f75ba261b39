"""``python -m attnprune_verify.experiments.stored``: do stored runs again."""

from __future__ import annotations

import sys

import click

from attnprune_verify.experiments.stored.record import FOLDER, NAMES, kernel, read
from attnprune_verify.experiments.stored.redo import differences, is_chaotic, measure, sample


@click.group()
def main() -> None:
    """Stored runs: a sample compared, or all of one measured anew."""


@main.command("check")
@click.option("--seed", default="", help="Draws the sample, for instance the commit.")
@click.option("--seconds", default=60.0, show_default=True, help="About how long each record may take.")
@click.option("--model", default="", help="Folder of the model; without it runs that need one are left out.")
def check(seed: str, seconds: float, model: str) -> None:
    """Do a random sample of every record's runs again; 1 if one comes out otherwise than stored."""
    found: list[str] = []
    for name in NAMES:
        stored, runs = sample(FOLDER / name, seed, seconds, model)
        found += differences(FOLDER / name, stored, runs)
        record, every = read(FOLDER / name)[0], stored.runs()
        chaotic = sum(is_chaotic(record, stored, run) for run in every)
        left_out = ", which could not be: measured on another kernel" if record.kernel != kernel() and chaotic else ""
        click.echo(f"{name}: {len(runs)} of {len(every)} runs done again; {chaotic} are chaotic{left_out}")
    for one in found:
        click.echo(one)
    sys.exit(1 if found else 0)


@main.command("measure")
@click.argument("name", type=click.Choice(NAMES))
@click.option("--model", default="", help="Folder of the model, where the runs need one.")
def measure_one(name: str, model: str) -> None:
    """Do all runs of a record's plan and write it anew."""
    measure(FOLDER / name, model, lambda done, runs: click.echo(f"\r{done} of {runs} runs", nl=done == runs, err=True))


main()
