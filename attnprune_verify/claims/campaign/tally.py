"""Counts of a campaign: instances that met the hypotheses, those that violated the statement, and the worst one.

A tally holds sums of integers and a minimum by (slack, index): merging is associative, in any order.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_count, as_number


@dataclass(frozen=True)
class LeastSlack:
    """The instance with the least slack, of equal ones the first."""

    slack: float
    index: int
    n: int | None
    d: int | None

    @classmethod
    def from_list(cls, values: object) -> LeastSlack:
        """Return the worst instance from a list of slack, index, n and d; refuse wrong types.

        Raises
        ------
        InvalidInstance
        """
        if not (isinstance(values, list) and len(values) == 4 and type(values[0]) is float):
            raise InvalidInstance(f"a worst instance must be [slack, index, n, d]; got {values!r:.60}")
        sizes = [None if one is None else as_count("a size", one, least=1) for one in values[2:]]
        return cls(as_number("slack", values[0]), as_count("index", values[1]), *sizes)


@dataclass(frozen=True)
class Tally:
    """Counts of one statement under one reading over some instances."""

    instances: int = 0
    met: int = 0
    undecided: int = 0
    violations: int = 0
    worst: LeastSlack | None = None

    def __add__(self, other: Tally) -> Tally:
        worst = min((one for one in (self.worst, other.worst) if one is not None), default=None, key=_order)
        return Tally(
            self.instances + other.instances,
            self.met + other.met,
            self.undecided + other.undecided,
            self.violations + other.violations,
            worst,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the tally for a checkpoint; floats keep every bit."""
        counts: dict[str, Any] = {name: getattr(self, name) for name in ("instances", "met", "undecided", "violations")}
        return counts | {"worst": None if self.worst is None else list(astuple(self.worst))}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Tally:
        """The inverse of `as_dict`, of nothing but its types and of counts that add up.

        Raises
        ------
        InvalidInstance
        """
        counts = {name: as_count(name, values.get(name)) for name in ("instances", "met", "undecided", "violations")}
        found = cls(**counts, worst=None if values.get("worst") is None else LeastSlack.from_list(values["worst"]))
        if not found.undecided + found.violations <= found.met <= found.instances:
            raise InvalidInstance(f"undecided + violations <= met <= instances must hold; got {found}")
        return found


def _order(one: LeastSlack) -> tuple[float, int]:
    return (math.inf if math.isnan(one.slack) else one.slack), one.index
