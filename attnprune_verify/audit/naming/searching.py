"""Searches for the mistake behind a verdict, which stands where this package fails in one."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import numpy as np

from attnprune_verify.audit.subject.answers import NoAnswer

_P = ParamSpec("_P")


class BrokeOff(UserWarning):
    """A search for a mistake's name raised: an error of this package, beside which the verdict stands."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


@contextmanager
def searching() -> Iterator[None]:
    """Go on behind a search that gets no answer; warn of an error of this package by `BrokeOff`.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always", BrokeOff)
    ...     with searching():
    ...         [][0]
    >>> told[0].message
    BrokeOff('IndexError: list index out of range')
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except NoAnswer:
        return
    except Exception as error:
        warnings.warn(BrokeOff(error), stacklevel=3)


def search_for_names(search: Callable[_P, tuple[str, ...]]) -> Callable[_P, tuple[str, ...]]:
    """The search, which answers ``("unknown",)`` where it breaks off."""

    @wraps(search)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> tuple[str, ...]:
        with searching():
            return search(*args, **kwargs)
        return ("unknown",)

    return guarded
