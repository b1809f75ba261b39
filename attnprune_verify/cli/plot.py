"""``attnprune-verify plot``: pictures of an instance, of the bounds, of audits and of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from attnprune_verify.cli.terminal.exclusive_options import refuse_beside
from attnprune_verify.cli.terminal.number import NUMBER
from attnprune_verify.cli.terminal.output import output_file
from attnprune_verify.extras import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnprune_verify.instance.problem import Instance

_FORMATS = (".png", ".svg", ".pdf")
_DESCENT = {"lam", "rho", "readings", "steps"}
_OF_AN_INSTANCE = {"heatmaps": _DESCENT, "taylor": {"lam"}, "descent": _DESCENT, "constants": {"lam"}, "gap": {"lam"}}
_OF_A_FILE = dict.fromkeys(("perplexity", "audit", "cost"), set[str]())
_TAKES = {**_OF_AN_INSTANCE, "slack": {"claims"}, "heads": {"rho", "methods"}, **_OF_A_FILE}
"""The options that have an effect on each kind."""
KINDS = tuple(_TAKES)
_GAP_STEPS = 60
"""Steps of the search for a bound; chosen: half a second a ratio on the default instance."""


@click.command(name="plot")
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("source", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(), required=True, metavar="FILE", help="Write this .png, .svg or .pdf.")
@click.option("--rho", type=NUMBER, help="Pruning ratio.  [default: 0.5, or the smallest one measured]")
@click.option("--lam", type=NUMBER, help="Regularisation strength.  [default: the instance's own]")
@click.option("--reading", "readings", multiple=True, help="Reading of the descent (may be repeated).")
@click.option("--steps", type=int, default=100, show_default=True, help="Steps of the descent.")
@click.option("--claim", "claims", multiple=True, metavar="ID", help="Draw the slack of this bound (may be repeated).")
@click.option("--method", "methods", multiple=True, help="Draw this method's heads (may be repeated, at most nine).")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    kind: str,
    source: Path | None,
    out: str,
    rho: float | None,
    lam: float | None,
    readings: tuple[str, ...],
    steps: int,
    claims: tuple[str, ...],
    methods: tuple[str, ...],
    quiet: bool,
) -> int:
    """Draw a picture of KIND into FILE. Needs the extra `plot`.

    \b
      heatmaps    F(1), F(M), c, M and M rounded, of an instance
      taylor      Taylor remainder of the gradient, and of a wrong one
      descent     loss, gradient and M along the descent, by reading
      constants   the paper's, ours, and the values measured on the instance
      gap         the lower bound of all masks, and masks, by pruning ratio
      slack       slack of the bounds, by family of instances
      heads       error of pruned layers, heads by layers
      perplexity  perplexity against sparsity
      audit       errors of an audit's checks, in multiples of what is allowed
      cost        KL of pruned models over processor seconds, by method

    SOURCE is an instance file (default: a small random instance that meets the assumptions), for `heads` the folder of
    an `experiment layer` (default: the stored run), for `perplexity` the folder of an `experiment perplexity`, for
    `audit` a report in JSON, for `cost` the rows.jsonl of `benchmarks.real_model`.

    \b
    Example:
      attnprune-verify plot constants mine.npz --out constants.png
      attnprune-verify plot heads --rho 0.5 --method sparsegpt --method fisher-obs --out heads.svg
    """
    target = output_file(out)
    assert target is not None
    if target.suffix.lower() not in _FORMATS:
        raise click.UsageError(f"--out must end in {', '.join(_FORMATS)}; got {out!r}")
    refuse_beside(kind, set().union(*_TAKES.values()) - _TAKES[kind])
    if kind == "heatmaps" and len(readings) > 1:
        raise click.UsageError(f"heatmaps takes one --reading; got {len(readings)}")
    need("drawing", "plot")
    from attnprune_verify.experiments.figures import save_as

    if kind in _OF_AN_INSTANCE:
        figure = _of_instance(kind, _instance(source, lam), 0.5 if rho is None else rho, readings, steps)
    else:
        figure = _measured(kind, source, rho, claims, methods)
    save_as(figure, target)
    if not quiet:
        click.echo(f"Written: {target}", err=True)
    return 0


def _instance(source: Path | None, lam: float | None) -> Instance:
    from attnprune_verify.errors import InvalidInstance
    from attnprune_verify.instance.families import benign
    from attnprune_verify.instance.npz import load_instance
    from attnprune_verify.instance.problem import Instance

    if source is None:
        drawn = benign(np.random.default_rng(0), n=12, d=16, scale=3.0, lam=0.04)
        found: Any = Instance(drawn.X, drawn.W, lam=drawn.lam)
    else:
        found = load_instance(source)
    if not isinstance(found, Instance):
        raise InvalidInstance(f"plot draws one fused weight, W or W_Q and W_K without heads; {source} holds a layer")
    if lam is None:
        return found
    return Instance(found.X, found.W, M=found.M, mask=found.mask, lam=lam)


def _of_instance(kind: str, instance: Instance, rho: float, readings: tuple[str, ...], steps: int) -> Figure:
    if kind == "constants":
        from attnprune_verify.report.plots.constants import compared, draw_constants

        return draw_constants(compared(instance))
    if kind == "gap":
        from attnprune_verify.report.plots.gaps import draw_gaps, gap_rows

        return draw_gaps(gap_rows(instance, steps=_GAP_STEPS))
    if kind == "taylor":
        from attnprune_verify.report.plots.taylor import draw_taylor, remainders

        M = np.random.default_rng(0).uniform(0.1, 0.9, np.shape(instance.W)) if instance.M is None else instance.M
        return draw_taylor(remainders(instance, M))
    from attnprune_verify.report.plots.descent import READINGS, draw_descent, trajectories

    if kind == "descent":
        return draw_descent(trajectories(instance, rho, readings or READINGS, steps=steps))
    from attnprune_verify.report.plots.heatmaps import draw_heatmaps, matrices

    found = trajectories(instance, rho, readings or READINGS[:1], steps=steps)
    (result,) = found.values()
    return draw_heatmaps(matrices(instance, result.M if instance.M is None else instance.M, rho))


def _measured(
    kind: str, source: Path | None, rho: float | None, claims: tuple[str, ...], methods: tuple[str, ...]
) -> Figure:
    from attnprune_verify.report.plots import measured

    if kind == "slack":
        from attnprune_verify.report.plots.slack import BOUNDS, draw_slack, slacks

        if source is not None:
            raise click.UsageError(f"slack takes no SOURCE, but --claim; got {str(source)!r}")
        return draw_slack(slacks(claims or BOUNDS))
    if kind == "heads":
        return measured.draw_heads(
            measured.stored_heads() if source is None else measured.read_heads(source), rho, methods
        )
    if source is None:
        raise click.UsageError(f"{kind} needs SOURCE, {measured.WRITTEN[kind]}")
    if kind == "perplexity":
        return measured.draw_perplexity(measured.read_perplexity(source))
    if kind == "cost":
        return measured.draw_costs(measured.read_costs(source))
    from attnprune_verify.report.plots.audit import draw_audit, read_audit

    return draw_audit(*read_audit(source))
