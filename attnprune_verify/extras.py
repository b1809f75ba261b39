"""The extras of the package: the modules each one needs, and one message for a missing one."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from attnprune_verify.errors import InvalidInstance

MODULES = {
    "plot": ("matplotlib",),
    "torch": ("torch",),
    "jax": ("jax",),
    "parallel": ("joblib", "distributed"),
    "real": ("safetensors", "tokenizers"),
}
"""The extras that code of this package imports, and what it imports of each."""


class MissingExtra(ModuleNotFoundError, InvalidInstance):
    """Raised when a function needs an extra that is not installed."""


def lacking(what: str, extra: str) -> str:
    """The one sentence about a missing extra. The command works in any folder: the package itself is there.

    Examples
    --------
    >>> lacking("drawing", "plot")
    "drawing needs the extra `plot`: pip install 'attnprune-verify[plot]'"
    """
    return f"{what} needs the extra `{extra}`: pip install 'attnprune-verify[{extra}]'"


def has(extra: str) -> bool:
    """Return True where all modules of an extra are installed.

    Examples
    --------
    >>> has("no such extra")
    Traceback (most recent call last):
        ...
    KeyError: 'no such extra'
    """
    return all(find_spec(module) is not None for module in MODULES[extra])


def need(what: str, extra: str, module: str | None = None) -> ModuleType:
    """Import a module of an extra, its first one if none is named.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    wanted = module or MODULES[extra][0]
    try:
        return import_module(wanted)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != wanted.partition(".")[0]:
            raise  # it is there, and what it needs is not
        raise MissingExtra(lacking(what, extra), name=wanted) from None
