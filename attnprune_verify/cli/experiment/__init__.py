"""``attnprune-verify experiment ...``: the experiments, one subcommand each, imported when it is run."""

import click

from attnprune_verify.cli.terminal.lazy import lazy_group

__all__ = ["command"]

_EXPERIMENTS = {
    "synthetic": ("attnprune_verify.cli.experiment.synthetic", "Figure 2, every reading, with trivial baselines."),
    "layer": ("attnprune_verify.cli.experiment.layer", "Attention layers of a real model, methods side by side."),
    "perplexity": ("attnprune_verify.cli.experiment.perplexity", "Table 1: a whole model's predictions, end to end."),
    "assumptions": ("attnprune_verify.cli.experiment.assumptions", "The theorem's assumptions on a real model."),
    "beyond": ("attnprune_verify.cli.experiment.beyond", "Where optimising the attention error does pay."),
}


@click.command(cls=lazy_group(_EXPERIMENTS))
def command() -> None:
    """Repeat the paper's experiments; every choice that its text leaves open is an option.

    \b
    Example:
      attnprune-verify experiment synthetic --out results
    """
