"""A group of commands, each imported only when it is run: --help and completion are instant."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from textwrap import fill

import click


class LazyGroup(click.Group):
    """Commands as ``name -> (module, one line)``; the error for an unknown name lists the nearest ones."""

    homes: dict[str, tuple[str, str]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.homes:
            return None
        command: click.Command = import_module(self.homes[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.homes.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        completing = ctx.resilient_parsing
        if name not in self.homes and not name.startswith("-") and not completing:
            near = get_close_matches(name, self.homes, 3, 0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self.homes)}"
            raise click.UsageError(f"No such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def lazy_group(homes: dict[str, tuple[str, str]]) -> type[LazyGroup]:
    """The class of a group with these commands.

    Examples
    --------
    >>> lazy_group({"check": ("attnprune_verify.cli.check", "Check one instance.")}).homes["check"][1]
    'Check one instance.'
    """
    return type("Commands", (LazyGroup,), {"homes": homes})


class NamingMethods(click.Command):
    """A command whose help ends with the names of the pruning methods, looked up when the help is printed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from attnprune_verify.algorithms.methods import LAYER_METHODS
        from attnprune_verify.whole_model.plan import ATTENTION_METHODS, REST_METHODS

        every = any(option.name == "rest" for option in self.params)
        with formatter.section("Methods for W_Q and W_K"):
            _write(formatter, ATTENTION_METHODS if every else LAYER_METHODS)
        if every:
            with formatter.section("Methods for the rest"):
                _write(formatter, REST_METHODS)
        super().format_epilog(ctx, formatter)


def _write(formatter: click.HelpFormatter, names: Iterable[str]) -> None:
    """Names, wrapped between them and never inside one."""
    indent = " " * formatter.current_indent
    text = fill(
        ", ".join(names), formatter.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    formatter.write(text + "\n")
