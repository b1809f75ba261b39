"""Options that would do nothing beside another choice are refused, not ignored."""

from collections.abc import Collection

import click
from click.core import ParameterSource


def refuse_beside(choice: str, names: Collection[str]) -> None:
    """Refuse the options of these names where the command line of the running command gives them.

    Raises
    ------
    click.UsageError
        With their spelling.

    Examples
    --------
    >>> @click.command()
    ... @click.option("--index")
    ... @click.option("--jobs", default=1)
    ... def command(index, jobs):
    ...     refuse_beside("--index", ("jobs",))
    >>> command.main(["--index", "3"], standalone_mode=False)
    >>> command.main(["--index", "3", "--jobs", "1"], standalone_mode=False)
    Traceback (most recent call last):
        ...
    click.exceptions.UsageError: --index takes no --jobs
    """
    context = click.get_current_context()
    stated = {name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    found = [one.opts[0] for one in context.command.params if one.name in stated]
    if found:
        raise click.UsageError(f"{choice} takes no {' and no '.join(found)}")
