"""``attnprune-verify prune-model FOLDER --out DIR``: a whole model, pruned block by block."""

import warnings
from pathlib import Path
from typing import Any

import click

from attnprune_verify.cli.terminal.lazy import NamingMethods
from attnprune_verify.cli.terminal.number import NUMBER


def _blocks(_: click.Context, __: click.Parameter, given: str | None) -> tuple[int, ...]:
    """The blocks of "I,J,..."."""
    try:
        return tuple(int(index) for index in given.split(",")) if given else ()
    except ValueError:
        raise click.BadParameter(f"must be numbers with commas between them, such as 4,14,24; got {given!r}") from None


@click.command("prune-model", cls=NamingMethods)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder of the pruned model; it must not exist."
)
@click.option("--rho", type=NUMBER, help="Pruning ratio, of all pruned matrices together (see --budget).")
@click.option("--pattern", metavar="N:M", help="Keep N of every M consecutive inputs, in place of --rho.")
@click.option(
    "--calibration", multiple=True, required=True, type=click.Path(), help="A text to calibrate on (may be repeated)."
)
@click.option("--attention", metavar="METHOD", default="auto", help="Method for W_Q and W_K.  [default: auto]")
@click.option("--rest", metavar="METHOD|dense", default="auto", help="Method for V, O and the MLP.  [default: auto]")
@click.option(
    "--budget",
    type=click.Choice(["auto", "matrix", "measured", "owl"]),
    default="auto",
    show_default=True,
    help="matrix: prune every matrix by rho. Else rho is the total, divided by measured damage (measured; auto: by a "
    "cheap measure) or by OWL's count of outliers (owl). Prior methods always prune every matrix by rho.",
)
@click.option("--hold", type=int, multiple=True, help="Prune this block by exactly --rho (may be repeated).")
@click.option(
    "--only-blocks",
    "only",
    metavar="I,J,...",
    callback=_blocks,
    help="Prune these blocks, and no others; counted from 0.",
)
@click.option(
    "--reconstruct",
    type=int,
    metavar="STEPS",
    help="Steps of each pruned block towards the dense output.  [default: 50, at most 15 a window; prior methods: 0]",
)
@click.option("--loss-windows", type=int, default=16, show_default=True, help="Windows for the gradients of the loss.")
@click.option("--k", type=int, default=128, show_default=True, help="Windows of calibration text.")
@click.option("--n", type=int, help="Tokens of a window.  [default: the model's context, at most 2048]")
@click.option(
    "--minutes",
    type=NUMBER,
    metavar="T",
    help="Lower k, then n, then the steps until the estimate is at most T minutes.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed by which the windows are drawn.")
@click.option(
    "--device",
    type=click.Choice(["auto", "numpy", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Device of the blocks' computations; numpy: this package's own networks (BERT, Llama, Mistral, Qwen2).",
)
@click.option(
    "--evaluate",
    multiple=True,
    type=click.Path(),
    help="Print the perplexity of this text before the work, and after it that and the KL (may be repeated).",
)
@click.option(
    "--evaluate-windows",
    type=click.IntRange(1),
    metavar="K",
    help="Windows of each text of --evaluate.  [default: all]",
)
@click.option("--fill-zeros", is_flag=True, help="Let weights that are 0 move; by default they stay 0 and count.")
@click.option("--dense-inputs", is_flag=True, help="Calibrate each block on the dense outputs of the blocks before it.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    folder: Path,
    out: Path,
    quiet: bool,
    evaluate: tuple[str, ...],
    evaluate_windows: int | None,
    fill_zeros: bool,
    **choices: Any,
) -> int:
    """Prune the model in FOLDER (config.json, safetensors, tokenizer.json) and write it to the new folder DIR.

    With torch and transformers installed: any decoder of transformers whose blocks run one after the other, such as
    Llama, Qwen, Mistral, Mixtral, Gemma, Phi, OLMo, GPT-2, OPT, GPT-NeoX, Falcon, Granite, gpt-oss, DeepSeek.
    Without them: BERT, Llama, Mistral, Qwen2. A model that cannot be pruned is refused by name, before any work.

    DIR has the same files, tensor names, dtypes and shards, pruned weights exactly 0, and a pruning.json. It appears
    whole or not at all: after an interruption the same command resumes from DIR.partial.

    \b
    Example:
      attnprune-verify prune-model models/llama --out models/llama-pruned --rho 0.5 --calibration text.txt
      attnprune-verify prune-model models/llama --out models/llama-2of4 --pattern 2:4 --calibration text.txt --k 32
    """
    from attnprune_verify.cli.terminal.output import interrupted
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.pretrained.texts import read_text
    from attnprune_verify.pruning import evaluated, prune_model
    from attnprune_verify.whole_model.request import TOKENS

    texts = {} if quiet else {name: read_text(name) for name in evaluate}
    how = {"n": choices["n"] or TOKENS, "windows": evaluate_windows, "device": choices["device"]}

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            click.echo(f"Warning: {message}", err=True)

    if choices["rho"] in (0.0, 1.0):
        warn(f"--rho {choices['rho']:g} leaves {'every' if choices['rho'] == 0 else 'no'} weight")
    if Path(f"{out}.partial").is_dir() and not quiet:
        click.echo(f"going on from {out}.partial", err=True)
    try:
        with progress_bar("steps", show=not quiet) as bar, warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = warn

            def tell(done: int, steps: int, what: str) -> None:
                if bar is None:
                    return
                if done == 0:
                    click.echo(what, err=True)
                    for name, text in texts.items():
                        click.echo(f"perplexity of {name}: {evaluated(folder, text, **how)['perplexity']:#.4g} before")
                bar(done, steps)

            report = prune_model(folder, out, progress=tell, keep_zeros=not fill_zeros, **choices)
    except KeyboardInterrupt:
        return interrupted(Path(f"{out}.partial"))
    if not quiet:
        share = report["zeros"] / max(report["size"], 1)
        methods = report["method"]
        click.echo(f"{out}: {report['zeros']} of {report['size']} weights are 0 ({share:.2%})")
        if report["zeros_before"]:
            kept = "may have moved" if fill_zeros else "stay 0 and count among these"
            click.echo(f"{report['zeros_before']} weights were 0 before: they {kept}")
        click.echo(f"W_Q and W_K by {methods['attention']}, the rest by {methods['rest']}; details in pruning.json")
        if report["damping"]["at_limit"]:
            of = report["damping"]
            click.echo(f"the damping of {of['at_limit']} of {of['maps']} maps is at its limit: {of['advice']}")
        for name, text in texts.items():
            found = evaluated(folder, text, out, **how)
            words = f"{found['perplexity']:#.4g} before, {found['pruned']:#.4g} after"
            click.echo(f"perplexity of {name}: {words}; KL {found['kl']:#.4g} nats a token")
    return 0
