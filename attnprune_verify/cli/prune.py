"""``attnprune-verify prune``: a pruning mask for one instance, by the paper's descent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnprune_verify.algorithms.readings import READINGS
from attnprune_verify.cli.terminal.number import NUMBER
from attnprune_verify.cli.terminal.output import deliver, output_file

if TYPE_CHECKING:
    from attnprune_verify.algorithms.trace import Descent
    from attnprune_verify.instance.problem import Instance

_DIVERGED = 1


@click.command()
@click.argument("path", metavar="INSTANCE.npz", type=click.Path(path_type=Path))
@click.option("--rho", type=NUMBER, required=True, help="Pruning ratio: floor(rho d^2) entries become 0.")
@click.option("--lam", type=NUMBER, help="Regularisation strength.  [default: the instance's own]")
@click.option(
    "--reading",
    type=click.Choice(list(READINGS)),
    default="theorem",
    show_default=True,
    help="Reading of the algorithm: the place of lambda and the step size.",
)
@click.option("--eta", type=NUMBER, help="Fixed step.  [default: the reading's own]")
@click.option("--steps", type=int, default=100, show_default=True)
@click.option("--momentum", type=NUMBER, default=0.0, show_default=True, help="Section 6.1 uses 0.9.")
@click.option(
    "--momentum-form", type=click.Choice(["heavy-ball", "ema", "nesterov"]), default="heavy-ball", show_default=True
)
@click.option("--project", is_flag=True, help="Clip M to [0, 1] after every step.")
@click.option(
    "--effort",
    type=NUMBER,
    default=22.0,
    show_default=True,
    help="Nominal seconds for the lower bound of all masks with as many zeros; a bound that costs more is skipped.",
)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write mask (0/1), M and the trace to this .npz.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    path: Path,
    rho: float,
    lam: float | None,
    reading: str,
    eta: float | None,
    steps: int,
    momentum: float,
    momentum_form: str,
    project: bool,
    effort: float,
    out: str | None,
    quiet: bool,
) -> int:
    """Find a pruning mask for an instance by gradient descent on its attention error (alg:mask_gd).

    The mask's error is printed beside that of pruning the smallest |W|, which needs no samples; its divergence, beside
    a lower bound of all masks with as many zeros.

    \b
    Example:
      attnprune-verify prune mine.npz --rho 0.5 --out mask.npz
      attnprune-verify prune mine.npz --rho 0.5 --lam 0.04 --reading literal-norm --momentum 0.9
    """
    target = output_file(out)
    import numpy as np

    from attnprune_verify.algorithms.descent import prune_mask_gd
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.errors import InvalidInstance
    from attnprune_verify.instance.npz import load_instance
    from attnprune_verify.instance.problem import Instance

    instance = load_instance(path)
    if not isinstance(instance, Instance):
        raise InvalidInstance(f"prune takes one fused weight, W or W_Q and W_K without heads; {path!r} holds a layer")
    with progress_bar("descending", show=not quiet) as progress:
        result = prune_mask_gd(
            instance.X,
            instance.W,
            rho,
            instance.lam if lam is None else lam,
            mask=instance.mask,
            eta=eta,
            steps=steps,
            momentum=momentum,
            momentum_form=momentum_form,  # type: ignore[arg-type]  # click has checked the choice
            reading=reading,
            project=project,
            progress=progress,
        )
    if 0 < np.count_nonzero(result.mask) < result.mask.size and np.ptp(result.M) == 0:
        raise InvalidInstance(
            "entries of M must differ, or the order of ties alone decides the mask; "
            f"after {result.steps} steps with lam = {result.settings.lam:g} all are {result.M[0, 0]:g}; give --lam > 0"
        )
    if target is not None:
        _write(target, result)
    if not quiet:
        deliver(_report(result, instance, effort) + "\n")
    if result.status == "diverged":
        print(f"Warning: {result.message}", file=sys.stderr)
        return _DIVERGED
    return 0


def _report(result: Descent, instance: Instance, effort: float) -> str:
    import numpy as np

    from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask
    from attnprune_verify.model.objective import Objective

    trace = result.trace
    objective = Objective(instance.X, instance.W, 0.0, instance.mask)
    smallest = 1.0 - magnitude_mask(instance.W, result.settings.rho)
    lines = [
        f"{result.message}",
        f"reading      {result.settings.reading.name}, lam = {result.settings.lam:g}",
        f"step         {_range(trace.step)}",
        f"||gradient|| {trace.gradient_norm[0]:.4g} -> {trace.gradient_norm[-1]:.4g}",
        f"||M||_F      {trace.mask_norm[0]:.4g} -> {trace.mask_norm[-1]:.4g}",
        f"M in         [{trace.least[-1]:.4g}, {trace.greatest[-1]:.4g}], outside [0, 1]: {int(trace.outside[-1])}",
        f"pruned       {np.count_nonzero(result.mask == 0)} of {result.mask.size}",
        f"error        {objective.relative_error(result.mask):.6g}",
        f"  by pruning the smallest |W| instead: {objective.relative_error(smallest):.6g}",
    ]
    lines += _gap(result, instance, effort)
    if trace.ascents:
        lines.append(f"the loss rose in {trace.ascents} of {result.steps} steps")
    return "\n".join(lines)


def _gap(result: Descent, instance: Instance, effort: float) -> list[str]:
    """Return lines that compare the mask's KL with a bound of all masks with as many zeros."""
    from attnprune_verify.algorithms.gap.by_head import gap_cost
    from attnprune_verify.algorithms.gap.mask_gap import certified_mask_gap

    cost = gap_cost(instance.n, instance.d, instance.d, instance.k or 1)
    if cost > effort:
        return [f"bound        of all masks with as many zeros: not run, needs --effort {cost:.2g}"]
    gap = certified_mask_gap(instance, masks=result.mask, on="W")
    return [
        f"divergence   {gap.kl:.6g}, mean over rows of KL(F(1) || F(M)) in nats",
        f"  every mask with as many zeros has at least {gap.bound:.6g}; the best one found has {gap.best_kl:.6g}",
    ]


def _range(values) -> str:  # type: ignore[no-untyped-def]  # numpy is not imported here
    if not len(values):
        return "none taken"
    low, high = float(values.min()), float(values.max())
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _write(path: Path, result: Descent) -> None:
    import numpy as np

    from attnprune_verify.files import whole_file

    trace = result.trace
    traced = {name: getattr(trace, name) for name in ("loss", "gradient_norm", "mask_norm", "step")}
    with whole_file(path) as file:
        np.savez(file, mask=result.mask, M=result.M, **traced)
