"""``python -m attnprune_verify.experiments.stored``: do stored runs again."""

import sys

import click

from attnprune_verify.experiments.stored.kinds import KINDS
from attnprune_verify.experiments.stored.record import FOLDER, NAMES, kernel, read
from attnprune_verify.experiments.stored.redo import differences, disturb, folder_of, is_chaotic, measure, odds, sample
from attnprune_verify.files import table as csv


@click.group()
def main() -> None:
    """Stored runs: a sample compared, or all of one measured anew."""


@main.command("check")
@click.option("--seed", default="", help="Draws the sample, for instance the commit.")
@click.option("--seconds", default=60.0, show_default=True, help="About how long each record may take.")
@click.option(
    "--model", "models", multiple=True, help="Folder of a model (may be repeated); runs on others are left out."
)
def check(seed: str, seconds: float, models: tuple[str, ...]) -> None:
    """Do a random sample of every record's runs again; 1 if one comes out otherwise than stored."""
    found: list[str] = []
    folders = {name: folder_of(FOLDER / name, models) for name in NAMES}
    for model in set(models) - set(folders.values()):
        raise click.UsageError(f"--model must hold a model that a record was measured on; {model!r} does not")
    for name in NAMES:
        stored, runs = sample(FOLDER / name, seed, seconds, folders[name], long=True)
        found += differences(FOLDER / name, stored, runs)
        record, every = read(FOLDER / name)[0], stored.runs()
        chaotic = sum(is_chaotic(record, stored, run) for run in every)
        left_out = ", compared by their errors: another kernel" if record.kernel != kernel() and chaotic else ""
        missing = "" if folders[name] or not stored.needs_model else "; its model is not here"
        click.echo(f"{name}: {len(runs)} of {len(every)} runs done again; {chaotic} are chaotic{left_out}{missing}")
    for one in found:
        click.echo(one)
    sys.exit(1 if found else 0)


@main.command("odds")
@click.option("--seconds", default=60.0, show_default=True, help="About how long each record may take.")
def print_odds(seconds: float) -> None:
    """Print the probability that one `check` repeats a run, and so detects a forged run with forged digests."""
    for name in NAMES:
        least, mean = odds(FOLDER / name, seconds)
        click.echo(f"{name}: {mean:.3f} on average, {least:.4f} at least")


@main.command("measure")
@click.argument("name", type=click.Choice(NAMES))
@click.option("--model", default="", help="Folder of the model, where the runs need one.")
def measure_one(name: str, model: str) -> None:
    """Do all runs of a record's plan and write it anew."""
    measure(FOLDER / name, model, lambda done, runs: click.echo(f"\r{done} of {runs} runs", nl=done == runs, err=True))


@main.command("disturb")
@click.argument("name", type=click.Choice(NAMES))
@click.option("--model", default="", help="Folder of the model, where the runs need one.")
def disturb_one(name: str, model: str) -> None:
    """Disturb every run of the settings recorded as calm; a setting that moves is recorded as chaotic."""
    disturb(FOLDER / name, model, lambda done, runs: click.echo(f"\r{done} of {runs} runs", nl=done == runs, err=True))


@main.command("rows")
@click.argument("name", type=click.Choice(NAMES))
def rows(name: str) -> None:
    """Print the rows of a record as CSV, with the numbers that it takes from other records."""
    record, found = read(FOLDER / name)
    click.echo(csv(found, KINDS[record.experiment].columns), nl=False)


@main.command("table")
@click.argument("name", type=click.Choice(NAMES))
def table(name: str) -> None:
    """Print a record of perplexity runs as a Markdown table."""
    from attnprune_verify.experiments.stored.tables import markdown

    click.echo(markdown(FOLDER / name), nl=False)


main()
