"""``attnprune-verify experiment ...``: the experiments, one subcommand each, imported when asked for."""

from __future__ import annotations

import click

from attnprune_verify.cli.lazy import lazy_group

__all__ = ["command"]

_EXPERIMENTS = {
    "synthetic": ("attnprune_verify.cli.experiment_synthetic", "Figure 2, every reading, with trivial baselines."),
    "layer": ("attnprune_verify.cli.experiment_layer", "Attention layers of a real model, methods side by side."),
    "perplexity": ("attnprune_verify.cli.experiment_perplexity", "Table 1: a whole model's predictions, end to end."),
    "assumptions": ("attnprune_verify.cli.experiment_assumptions", "What the theorem would need on a real model."),
    "beyond": ("attnprune_verify.cli.experiment_beyond", "Where optimising the attention error does pay."),
}


@click.command(cls=lazy_group(_EXPERIMENTS))
def command() -> None:
    """Repeat the paper's experiments, with everything its text leaves open as an option.

    \b
    Example:
      attnprune-verify experiment synthetic --out results
    """
