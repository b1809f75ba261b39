"""Checks, their findings, and the records of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import nearest

Status = Literal["passed", "failed", "inconclusive", "not_applicable", "could_not_run", "could_not_judge", "waived"]


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the subject that shows the failure, with what it should have returned (None: see the reason).

    Attributes
    ----------
    literal : bool
        Whether it is made as the contract says, where the subject was found to want it otherwise.
    earlier : Call or None
        The call before, without which this one is right.
    """

    function: str
    arguments: dict[str, Any]
    keywords: dict[str, Any] = field(default_factory=dict)
    expected: tuple[NDArray[Any], ...] | None = None
    literal: bool = False
    earlier: Call | None = None


@dataclass(frozen=True, eq=False)
class Finding:
    """The outcome of a check, before its mistake has a name.

    Attributes
    ----------
    error, bound : float or None
        The largest error and what is allowed there.
    power : float or None
        The smallest relative error the check would have noticed.
    ids : tuple[str, ...]
        The mistakes it names by itself.
    fitting : tuple[str, ...]
        All the names that would do, where one was chosen.
    samples : tuple
        The failing instances, smallest first, for the diagnosis.
    shrink : Callable[[tuple[str, ...]], Finding or None] or None
        Looks for the same failure on a smaller instance, under one of these ids (none: any).
    """

    status: Status
    reason: str
    error: float | None = None
    bound: float | None = None
    power: float | None = None
    ids: tuple[str, ...] = ()
    fitting: tuple[str, ...] = ()
    samples: tuple[Any, ...] = ()
    call: Call | None = None
    shrink: Callable[[tuple[str, ...]], Finding | None] | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Mistake ids, most important first, and what is known in words."""

    ids: tuple[str, ...]
    words: str

    @property
    def named(self) -> bool:
        return self.ids != ("unknown",)


@dataclass(frozen=True, eq=False)
class Check:
    """One question about one function.

    Attributes
    ----------
    required : bool
        A benign question that has to be decided before anything can pass.
    """

    function: str
    name: str
    says: str
    claim: str | None
    run: Callable[[Any], Finding]
    required: bool = False
    stability: bool = False

    @property
    def id(self) -> str:
        """Unique in an audit, and the pattern that a waiver matches."""
        return f"{self.function}:{self.name}"


@dataclass(frozen=True)
class Record:
    """A check and its outcome, as reported; `seconds` is how long it took, which no two runs share."""

    id: str
    function: str
    claim: str | None
    says: str
    required: bool
    status: Status
    reason: str
    diagnosis: tuple[str, ...] = ()
    words: str = ""
    error: float | None = None
    bound: float | None = None
    power: float | None = None
    instance: str | None = None
    seed: int = 0
    snippet: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The check without its function."""
        return self.id.partition(":")[2]

    def as_dict(self) -> dict[str, Any]:
        """The record as plain data (schema "attnprune-verify/audit/1")."""
        return {
            "id": self.id,
            "function": self.function,
            "claim": self.claim,
            "status": self.status,
            "reason": self.reason,
            "diagnosis": None if self.status == "failed" and not self.diagnosis else list(self.diagnosis),
            "evidence": {
                "error": _number(self.error),
                "bound": _number(self.bound),
                "detection_power": _number(self.power),
                "instance": self.instance,
                "seed": self.seed,
                "snippet": self.snippet,
            },
            "says": self.says,
            "required": self.required,
            "explanation": self.words or None,
        }


@dataclass(frozen=True)
class Coverage:
    """The parts of a target that an audit has judged.

    Attributes
    ----------
    judged : tuple[str, ...]
        Cases, features and sizes.
    not_exercised : tuple[str, ...]
        Parameters of the target that no check has passed, and that it does not declare as ignored.
    declare : tuple[str, ...]
        Lines that the target lacks.
    quick : bool
        Whether features were combined in pairs of small sizes only.
    """

    judged: tuple[str, ...] = ()
    not_exercised: tuple[str, ...] = ()
    declare: tuple[str, ...] = ()
    quick: bool = False


NOT_SAID = Coverage()


def _number(value: float | None) -> float | str | None:
    if value is None or np.isfinite(value):
        return value
    return "nan" if np.isnan(value) else ("inf" if value > 0 else "-inf")


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
            if not hint and any(pattern in check.id for check in every):
                hint = f"; did you mean '*{pattern}*'?"
            raise InvalidInstance(
                f"only must name functions or checks, * and ? allowed; {pattern!r} matches none{hint}"
            )
    return tuple(check for check in every if not only or any(_matches(check, pattern) for pattern in only))


def _matches(check: Check, pattern: str) -> bool:
    return fnmatchcase(check.function, pattern) or fnmatchcase(check.id, pattern)
