"""attnprune-verify: audits of attention kernels, pruning of attention models, verdicts on a paper about pruning.

The front door. Names are loaded from their modules on first use, so that ``import attnprune_verify`` stays cheap; they
stand once, in the stub `__init__.pyi` beside this file, which type checkers read as well. README.md has a tour.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.3.0"


def _homes(path: str) -> dict[str, str]:
    """The module of each name, from the lines ``from module import name as name`` and ``from package import *``."""
    homes = {}
    for line in __spec__.loader.get_data(path).decode().splitlines():
        if line.startswith("from "):
            _, module, _, name, *_ = line.split()
            lines_of_package = __path__[0] + module.removeprefix(__name__).replace(".", "/") + "/__init__.py"
            homes |= {name: module} if name != "*" else _homes(lines_of_package)
    return homes


_HOME = _homes(f"{__file__}i")
__all__ = ["__version__", *_HOME]  # noqa: PLE0604  # every entry is a string


def __getattr__(name: str) -> _Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
