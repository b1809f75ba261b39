"""Searches for mistake ids that end without a name where an output that nobody foresaw makes them raise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import numpy as np

from attnprune_verify.audit.record import BrokeOff

__all__ = ["NO_NAME", "search_for_names"]

_P = ParamSpec("_P")
NO_NAME = ("unknown",)


def search_for_names(search: Callable[_P, tuple[str, ...]]) -> Callable[_P, tuple[str, ...]]:
    """The search, which answers ``("unknown",)`` where an output that nobody foresaw makes it raise.

    Examples
    --------
    >>> def first_entry_is_zero(output):
    ...     return ("zero-output",) if output[0] == 0 else NO_NAME
    >>> search = search_for_names(first_entry_is_zero)
    >>> search([0.0])
    ('zero-output',)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     search([])
    ('unknown',)
    """

    @wraps(search)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> tuple[str, ...]:
        try:
            with np.errstate(all="ignore"):
                return search(*args, **kwargs)
        except (ArithmeticError, ValueError, IndexError, TypeError) as error:
            warnings.warn(BrokeOff(error), stacklevel=2)
            return NO_NAME

    return guarded
