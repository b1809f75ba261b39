"""``attnprune-verify kernel-vectors``: test vectors of attention for every language, and the judge of their answers."""

from pathlib import Path

import click

from attnprune_verify.cli.terminal.output import EXIT, deliver

_SHOWN = 8  # wrong or missing answers that a text lists; chosen: what a screen holds


@click.group(name="kernel-vectors", invoke_without_command=True)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Write index.json and vectors.safetensors there."
)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Floating-point format of the inputs, and of the promised accuracy.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="Write at most N vectors.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of the inputs."
)
@click.pass_context
def command(context: click.Context, out: Path | None, dtype: str, count: int, seed: int) -> int:
    """Write test vectors of softmax attention: inputs, and the lowest and highest right value of every output.

    About fifty lines in any language read the files; docs/kernel_vectors.md has them for Python and JavaScript.

    \b
    Example:
      attnprune-verify kernel-vectors --out vectors --dtype bfloat16
      attnprune-verify kernel-vectors check vectors answers.safetensors

    Exit code 0 written, 2 an option is invalid.
    """
    if context.invoked_subcommand is not None:
        if out is not None:
            raise click.UsageError("--out does not go with check")
        return 0
    if out is None:
        raise click.UsageError("--out must be given")
    from attnprune_verify.audit.kernel.vectors import write_vectors

    index = write_vectors(out, dtype, count, seed)
    answers = sum(len(vector["answers"]) for vector in index["vectors"])
    deliver(f"{len(index['vectors'])} vectors in {dtype} with {answers} answers: {out}\n")
    return 0


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("answers", metavar="ANSWERS", type=click.Path(path_type=Path))
@click.option(
    "--without",
    multiple=True,
    metavar="FEATURE",
    help="A feature that the kernel has not, such as window or backward: such answers may be missing.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def check(folder: Path, answers: Path, without: tuple[str, ...], form: str) -> int:
    """Judge ANSWERS, a safetensors file with arrays named as DIR/index.json names them.

    \b
    Example:
      attnprune-verify kernel-vectors check vectors answers.safetensors --without window --without backward

    Exit code 0 all answers lie inside, 1 one lies outside, 2 a file or an option is invalid, 3 answers are missing.
    """
    from attnprune_verify.audit.kernel.answers import check_answers
    from attnprune_verify.files import dumps, printable

    result = check_answers(folder, answers, without)
    if form == "json":
        deliver(dumps(result.as_dict()))
        return EXIT[result.outcome]
    counts = f"{len(result.passed)} inside, {len(result.failed)} outside, {len(result.missing)} missing"
    lines = [f"Outcome: {result.outcome} ({counts})."]
    lines += [f"  {printable(f'{name}: {reason}')}" for name, reason in list(result.reasons.items())[:_SHOWN]]
    if result.missing:
        more = f" and {len(result.missing) - _SHOWN} more" if len(result.missing) > _SHOWN else ""
        names = printable(", ".join(result.missing[:_SHOWN]))
        lines.append(f"  missing: {names}{more}; --without declares what a kernel has not")
    deliver("\n".join(lines) + "\n")
    return EXIT[result.outcome]
