"""Choose checks by patterns of functions or ids."""

from __future__ import annotations

from fnmatch import fnmatchcase

from attnprune_verify.audit.record import Check
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import nearest

__all__ = ["chosen"]


def chosen(every: tuple[Check, ...], only: tuple[str, ...]) -> tuple[Check, ...]:
    """Return the checks whose function or id matches one of the patterns; without patterns all.

    Raises
    ------
    InvalidInstance
        If a pattern matches nothing.
    """
    for pattern in only:
        if not any(_matches(check, pattern) for check in every):
            functions = dict.fromkeys(check.function for check in every)
            known = [*functions, *(f"*:{check.name}" for check in every), *(check.id for check in every)]
            hint = nearest(pattern, known)
            raise InvalidInstance(
                f"only must name functions or checks, * and ? allowed; {pattern!r} matches none{hint}"
            )
    return tuple(check for check in every if not only or any(_matches(check, pattern) for pattern in only))


def _matches(check: Check, pattern: str) -> bool:
    return fnmatchcase(check.function, pattern) or fnmatchcase(check.id, pattern)
