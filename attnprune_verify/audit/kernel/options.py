"""Choices of a kernel's audit: checks, names, modes, a device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnprune_verify.audit.kernel.typing import Foreign, Plain
from attnprune_verify.errors import InvalidInstance

NAMES = ("never", "first", "all")
MODES = ("bitwise", "batch-invariant", "poisoned", "replay", "many")
CPU = "cpu"


@dataclass(frozen=True)
class Options:
    """Choices of one audit of a kernel.

    Attributes
    ----------
    quick : features together in pairs and small sizes only, not in triples
    only : tuple[str, ...]
        Patterns of functions or checks; none: all.
    names : str
        Whether the mistake is looked for behind no failure, the first one of each function, or all.
    modes : further questions, of `MODES`
    device : str
        Where the kernel's arrays are.

    Raises
    ------
    InvalidInstance
        If names or a mode is no such value.
    """

    quick: bool = False
    only: tuple[str, ...] = ()
    names: str = "all"
    modes: tuple[str, ...] = ()
    device: str = CPU

    def __post_init__(self) -> None:
        if self.names not in NAMES:
            raise InvalidInstance(f"names must be one of {', '.join(NAMES)}; got {self.names!r}")
        for mode in self.modes:
            if mode not in MODES:
                raise InvalidInstance(f"modes must be of {', '.join(MODES)}; got {mode!r}")
        if not isinstance(self.device, str) or not self.device:
            raise InvalidInstance(f'device must be a text such as "cpu" or "cuda"; got {self.device!r}')

    @classmethod
    def of(
        cls, *, quick: bool, only: str | tuple[str, ...] | None, names: str, modes: str | tuple[str, ...], device: str
    ) -> Options:
        """Options in which one pattern or one mode may stand as a text."""
        return cls(quick, _tuple(only or ()), names, _tuple(modes), device)


NOTHING_CHOSEN = Options()


def _tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def declarations(
    sizes: Mapping[str, Foreign] | None = None,
    capabilities: Iterable[str] | None = None,
    layout: str | None = None,
    scale: str | None = None,
    ignored: Iterable[str] | None = None,
    conventions: Mapping[str, Foreign] | None = None,
    recipe: Mapping[str, Foreign] | None = None,
) -> Plain:
    """Return the declarations of a call, by the names that a module has for them."""
    given = {"SIZES": sizes, "CAPABILITIES": capabilities, "LAYOUT": layout, "SCALE": scale}
    given |= {"IGNORED": ignored, "CONVENTIONS": conventions, "RECIPE": recipe}
    return {name: value for name, value in given.items() if value is not None}


def as_given(declared: Plain) -> str:
    """Return declarations as a text for the subject's process.

    Raises
    ------
    InvalidInstance
        If one is not made of texts, numbers, sequences and mappings.
    """
    try:
        return json.dumps(declared, default=lambda value: dict(value) if isinstance(value, Mapping) else list(value))
    except (TypeError, ValueError):
        said = "declarations must be made of texts, numbers, sequences and mappings"
        raise InvalidInstance(f"{said}; got {declared!r:.120}") from None
