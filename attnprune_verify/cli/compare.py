"""``attnprune-verify compare A B``: the differences between the fingerprints of two results."""

from pathlib import Path
from typing import Any

import click

from attnprune_verify.files import printable

_SAME, _DIFFERENT = 0, 1
_WIDTH = 44  # chosen: two columns on a terminal of 100


@click.command("compare")
@click.argument("one", metavar="A", type=click.Path(path_type=Path))
@click.argument("other", metavar="B", type=click.Path(path_type=Path))
@click.option("--attribute", is_flag=True, help="Rerun A with one choice of B at a time.")
def command(one: Path, other: Path, attribute: bool) -> int:
    """List the differences between everything that two results depend on: weights, texts, windows, seeds, versions.

    A and B are written by `experiment perplexity` or `prune-model`: the JSON file or its folder. Exit code 0: same
    fingerprint, 1: different, 2: unreadable.

    \b
    Example:
      attnprune-verify compare monday/perplexity.json tuesday/perplexity.json
      attnprune-verify compare monday/perplexity.json tuesday/perplexity.json --attribute
      attnprune-verify compare half 2of4                     two folders that prune-model wrote
    """
    from attnprune_verify.cli.terminal.output import deliver
    from attnprune_verify.experiments.perplexity.compare import attribute as attributed
    from attnprune_verify.experiments.perplexity.compare import compare, read_result

    results = [read_result(path) for path in (one, other)]
    found = compare(*results)
    lines = ["same fingerprint"] if found.same else [f"{len(found.fields)} fields differ:"]
    fields = found.fields.items()
    lines += [f"  {printable(name)}: {_short(first)} | {_short(second)}" for name, (first, second) in fields]
    if attribute and not found.same:
        lines += ["", f"{'taken from B':16} {'dense':>10} {'perplexity':>12} {'KL (1e-3)':>10}"]
        for step in attributed(*results):
            name = step.choice or "nothing"
            lines.append(f"{name:16} {step.dense:10.4f} {step.perplexity:12.4f} {1000 * step.kl:10.4f}")
        lines.append("Versions and the machine are not exchanged: they cause the difference that no choice explains.")
    deliver("\n".join(lines) + "\n")
    return _SAME if found.same else _DIFFERENT


def _short(value: Any) -> str:
    text = printable(str(value))
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
