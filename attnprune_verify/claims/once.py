"""An attribute that is computed when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["computed_once"]

_T = TypeVar("_T")


class computed_once(Generic[_T]):  # noqa: N801  # used as a decorator
    """`functools.cached_property` without its lock, which before Python 3.12 takes longer than most quantities."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> _T:
        if owner is None:
            return self  # type: ignore[return-value]  # read from the class, as help() does
        value: _T = self.compute(owner)
        owner.__dict__[self.name] = value  # found before this descriptor from now on
        return value
