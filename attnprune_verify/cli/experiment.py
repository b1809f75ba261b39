"""``attnprune-verify experiment ...``: the experiments, one subcommand each, imported when asked for."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["command"]

_EXPERIMENTS = {
    "synthetic": ("attnprune_verify.cli.experiment_synthetic", "Figure 2, every reading, with trivial baselines."),
    "layer": ("attnprune_verify.cli.experiment_layer", "Attention layers of a real model, methods side by side."),
    "perplexity": ("attnprune_verify.cli.experiment_perplexity", "Table 1: a whole model's predictions, end to end."),
    "assumptions": ("attnprune_verify.cli.experiment_assumptions", "What the theorem would need on a real model."),
    "beyond": ("attnprune_verify.cli.experiment_beyond", "Where optimising the attention error does pay."),
}


class _Experiments(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_EXPERIMENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _EXPERIMENTS:
            return None
        experiment: click.Command = import_module(_EXPERIMENTS[cmd_name][0]).command
        return experiment

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _EXPERIMENTS.items()])


@click.command(cls=_Experiments)
def command() -> None:
    """Repeat the paper's experiments, with everything its text leaves open as an option.

    \b
    Example:
      attnprune-verify experiment synthetic --out results
    """
