"""How a subject's function is called: by keyword where its names are the contract's, else in the contract's order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from attnprune_verify.audit.contract import Signature
from attnprune_verify.audit.subject.process import Parameter

__all__ = ["Binding", "NotTaken", "bound"]


class NotTaken(Exception):
    """The subject has no parameter for something that is not at its default."""


@dataclass(frozen=True)
class Binding:
    """Where each argument of the contract goes.

    Attributes
    ----------
    order : the arguments passed by position, in this order
    named : the arguments passed by keyword
    refused : the arguments there is no parameter for
    others : whether keywords beyond these are taken: any (None), or only some
    note : what is unusual about it, in words
    """

    order: tuple[str, ...]
    named: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    others: tuple[str, ...] | None = None
    note: str = ""

    def takes(self, name: str) -> bool:
        return name not in self.refused

    def reordered(self, order: tuple[str, ...]) -> Binding:
        """The same with some of the positional arguments in another order."""
        return replace(self, order=(*order, *self.order[len(order) :]))

    def place(self, values: dict[str, Any], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any], list[str]]:
        """Positional arguments, keyword arguments, and the names of all of them in this order.

        Raises
        ------
        NotTaken
            If there is no parameter for one of `values` or `options`.
        """
        unknown = [name for name in values if name in self.refused]
        unknown += [name for name in options if self.others is not None and name not in self.others]
        if unknown:
            raise NotTaken(f"has no parameter {', '.join(unknown)}")
        given = [name for name in self.order if name in values]
        if given != list(self.order[: len(given)]):  # one in the middle is left out: the rest goes by name
            given = given[: next(i for i, name in enumerate(self.order) if name not in values)]
        keywords = {**{name: value for name, value in values.items() if name not in given}, **options}
        return [values[name] for name in given], keywords, [*given, *keywords]


def bound(signature: Signature, parameters: tuple[Parameter, ...] | None) -> Binding:
    """The binding of a function with these parameters (None: unknown)."""
    arguments = signature.arguments
    if parameters is None:
        return Binding(arguments)
    names = tuple(one.name for one in parameters if one.kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"))
    slots = [one for one in parameters if one.kind in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")]
    anything = any(one.kind == "VAR_KEYWORD" for one in parameters)
    others = None if anything else names
    required = arguments[: len(arguments) - signature.defaults]
    optional = arguments[len(required) :]
    if all(name in names for name in required):
        taken = tuple(name for name in arguments if name in names or anything)
        theirs = tuple(one.name for one in parameters if one.name in taken)
        in_order = theirs == tuple(name for name in arguments if name in theirs)
        note = "" if in_order else f"called by keyword: its order is ({', '.join(theirs)})"
        return Binding((), taken, _missing(arguments, taken), others, note)
    room = len(arguments) if any(one.kind == "VAR_POSITIONAL" for one in parameters) else len(slots)
    order = [name for name in arguments if name in required or name not in names][:room]
    by_name = tuple(name for name in optional if name not in order and (name in names or anything))
    return Binding(tuple(order), by_name, _missing(arguments, (*order, *by_name)), others)


def _missing(arguments: tuple[str, ...], taken: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in arguments if name not in taken)
