"""Attributes that are computed when they are first read, once for an object or once for all its copies."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

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


class same_in_copies(computed_once[_T]):  # noqa: N801  # used as a decorator
    """A quantity that an object shares with its `home`, the object that it was made from."""

    def __get__(self, owner: Any, kind: type | None = None) -> _T:
        if owner is None or owner.home is None:
            return super().__get__(owner, kind)
        value: _T = getattr(owner.home, self.name)
        owner.__dict__[self.name] = value
        return value
