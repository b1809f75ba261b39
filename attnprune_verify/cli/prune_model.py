"""``attnprune-verify prune-model FOLDER --out DIR``: a whole model, pruned block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.lazy import NamingMethods
from attnprune_verify.cli.number import NUMBER

__all__ = ["command"]

_INTERRUPTED = 130


@click.command("prune-model", cls=NamingMethods)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The new folder.")
@click.option("--rho", type=NUMBER, help="Pruning ratio of every matrix.")
@click.option("--pattern", metavar="N:M", help="Keep N of every M consecutive inputs, in place of --rho.")
@click.option(
    "--calibration", multiple=True, required=True, type=click.Path(), help="A text to calibrate on (may be repeated)."
)
@click.option("--attention", metavar="METHOD", default="auto", help="For W_Q and W_K.  [default: auto]")
@click.option("--rest", metavar="METHOD|dense", default="auto", help="For V, O and the MLP.  [default: auto]")
@click.option(
    "--budget",
    type=click.Choice(["matrix", "measured", "owl"]),
    default="matrix",
    show_default=True,
    help="Every matrix by rho, or rho in all: as far as each does least damage, or by OWL's count of outliers.",
)
@click.option("--hold", type=int, multiple=True, help="A block that --rho holds for all the same (may be repeated).")
@click.option("--k", type=int, default=128, show_default=True, help="Windows of calibration text.")
@click.option("--n", type=int, help="Tokens of a window.  [default: the model's context, at most 2048]")
@click.option("--seed", type=int, default=0, show_default=True, help="What the windows are drawn by.")
@click.option("--dense-inputs", is_flag=True, help="Calibrate on the dense blocks before, not on the pruned ones.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(folder: Path, out: Path, quiet: bool, **choices: Any) -> int:
    """Prune the model in FOLDER (config.json, safetensors, tokenizer.json) and write it to the new folder DIR.

    DIR has the same files, tensor names, dtypes and shards, pruned weights exactly 0, and a pruning.json. It appears
    whole or not at all: after an interruption the same command goes on from DIR.partial.

    \b
    Example:
      attnprune-verify prune-model models/llama --out models/llama-pruned --rho 0.5 --calibration text.txt
      attnprune-verify prune-model models/llama --out models/llama-2of4 --pattern 2:4 --calibration text.txt --k 32
    """
    from attnprune_verify.cli.progress import progress_bar
    from attnprune_verify.whole_model.folder import prune_model

    try:
        with progress_bar("blocks", show=not quiet) as bar:
            report = prune_model(folder, out, progress=bar, **choices)
    except KeyboardInterrupt:
        click.echo(f"Interrupted: the same command goes on from {out}.partial.", err=True)
        return _INTERRUPTED
    if not quiet:
        share = report["zeros"] / max(report["size"], 1)
        methods = report["method"]
        click.echo(f"{out}: {report['zeros']} of {report['size']} weights are 0 ({share:.2%})")
        click.echo(f"W_Q and W_K by {methods['attention']}, the rest by {methods['rest']}; details in pruning.json")
    return 0
