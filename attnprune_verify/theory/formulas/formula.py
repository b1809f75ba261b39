"""Registration of this folder's formulas: one function for every arithmetic, tied to the statement that judges it.

`check` evaluates the formulas in balls; `claims` evaluates the same functions in floats, fractions and balls on the
instances that attack the statements. Each formula is registered with its printed form; `claims` parses that text and
compares.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from attnprune_verify.theory.numbers.arithmetic import BALL, Number

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Formula:
    """A registered formula (or condition).

    Attributes
    ----------
    module, name : str
        Module and name of the function.
    claims : tuple of str
        Ids of the statements that print and use it.
    printed : str
        The formula as those statements print it.
    symbols : Mapping
        How each argument is printed.
    """

    module: str
    name: str
    claims: tuple[str, ...]
    printed: str
    symbols: Mapping[str, str]

    @property
    def function(self) -> Callable[..., Any]:
        """The function of that name as callers see it now, after any replacement in the module."""
        found: Callable[..., Any] = getattr(sys.modules[self.module], self.name)
        return found

    @property
    def path(self) -> str:
        """``sharp.lipschitz``."""
        return f"{self.module.rpartition('.')[2]}.{self.name}"


FORMULAS: dict[str, Formula] = {}
"""Every formula of the folder by its path."""


def formula(printed: str, *claims: str, **symbols: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Register a function of numbers and of an `arithmetic`, balls by default, into which its arguments are lifted.

    Parameters
    ----------
    printed : str
        The formula in the notation of the statements.
    claims : str
        Ids of the statements that print it.
    symbols : str
        How an argument is printed, where not by its own name.

    Examples
    --------
    >>> from attnprune_verify.theory.formulas import sharp
    >>> from attnprune_verify.theory.numbers.arithmetic import EXACT, FLOAT
    >>> sharp.mu(1, 0.5, 0.5, arithmetic=EXACT), sharp.mu(1, 0.5, 0.5, arithmetic=FLOAT), float(sharp.mu(1, 0.5, 0.5))
    (Fraction(1, 8), 0.125, 0.125)
    >>> FORMULAS["sharp.mu"].printed
    '2 (min|W| beta delta)^2'
    """

    def register(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def evaluated(*values: _P.args, **named: _P.kwargs) -> _T:
            arithmetic: Number = named.get("arithmetic", BALL)
            with arithmetic.precision():
                return function(*(arithmetic.lift(value) for value in values), **named)

        names = [name for name in signature(function).parameters if name != "arithmetic"]
        shown = {name: symbols.get(name, name) for name in names}
        entry = Formula(function.__module__, function.__name__, claims, printed, shown)
        FORMULAS[entry.path] = entry
        return evaluated

    return register
