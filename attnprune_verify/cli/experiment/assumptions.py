"""``attnprune-verify experiment assumptions FOLDER``: the theorem's assumptions on a real model."""

from pathlib import Path

import click


@click.command("assumptions")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("assumptions-experiment"),
    show_default=True,
    help="Folder for tables, JSON and plots.",
)
@click.option("--text", "texts", multiple=True, type=click.Path(), help="Documents (may be repeated).")
@click.option("--n", "ns", multiple=True, type=int, default=(64, 128), show_default=True, help="Tokens per sequence.")
@click.option("--k", type=int, default=8, show_default=True, help="Sequences of each length.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--plots/--no-plots", default=True, help="Draw PNG and SVG (needs the extra `plot`).")
@click.option("--quiet", is_flag=True, help="Print nothing but warnings.")
def command(
    folder: Path, out: Path, texts: tuple[str, ...], ns: tuple[int, ...], k: int, seed: int, plots: bool, quiet: bool
) -> int:
    """Measure beta, delta, min|W|, mu, xi and T by layer, head and length on the model in FOLDER.

    \b
    Example:
      attnprune-verify experiment assumptions models/all-MiniLM-L6-v2 --n 64 --n 256
    """
    from attnprune_verify.cli.terminal.output import plotted
    from attnprune_verify.experiments.assumptions.measure import measure_assumptions
    from attnprune_verify.experiments.assumptions.report import draw_assumptions, summary, write_tables
    from attnprune_verify.state.outputs import outputs_in
    from attnprune_verify.values import as_count

    with outputs_in(out, r"assumptions\.(csv|json|png|svg)"):
        results = measure_assumptions(str(folder), texts, ns, k, as_count("seed", seed))
        paths = write_tables(results, out)
        if plots:
            paths += plotted(lambda: draw_assumptions(results, out))
    if not quiet:
        click.echo(summary(results))
        click.echo("Written: " + ", ".join(map(str, paths)), err=True)
    return 0
