"""What a kind of stored run is: what is in a record, how a run is done again, what the rows say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attnprune_verify.experiments.paired import Doubts

__all__ = ["BESIDES", "BETWEEN_KERNELS", "TOLERANCE", "Finding", "Row", "Stored", "tuples"]

Row = dict[str, Any]

TOLERANCE = 1e-9
"""Relative; runs that are not chaotic come out equal to about 1e-13 after a change of rounding."""


BETWEEN_KERNELS = 0.5
"""Relative, for the errors of chaotic runs on another kernel: 102 rows of `figure2` differed by 0.18 at most."""


BESIDES = "besides"


class Finding(NamedTuple):
    """One sentence under one reading: what was measured says "agrees", "disagrees" or "undecided".

    Or it stands besides, where nobody had said beforehand that it would hold: that is reported and decides nothing.

    `doubts` is there where it was tested over draws and several tables speak of the sentence.
    """

    id: str
    says: str
    criterion: str
    verdict: str
    reading: str
    numbers: str
    doubts: Doubts | None = None


class Stored(ABC):
    """An experiment with the settings of a record, the model (if it reads one) in a folder.

    `runs` can be done again one by one: `rows` says what one leaves. Rounding may decide the result of what descends on
    a mask: `setting` names its settings ("" for everything else), and `disturbed` does such a run again from a start
    that is disturbed (None where it cannot).
    """

    columns: Sequence[str]
    measured: Sequence[str]
    errors: Sequence[str] = ()
    """Of what is measured: what verdicts rest on, and what is compared of chaotic runs on another kernel."""
    command: str
    data: str
    needs_model: bool

    @abstractmethod
    def __init__(self, plan: Row, folder: str = "") -> None: ...

    @abstractmethod
    def inputs(self) -> dict[str, str]: ...

    @abstractmethod
    def runs(self) -> list[Any]: ...

    @abstractmethod
    def rows(self, run: Any) -> list[Row]: ...

    @abstractmethod
    def setting(self, run: Any) -> str: ...

    def by_rounding(self, run: Any) -> bool:
        """Whether a method that descends on no mask still lets rounding choose among entries that are nearly equal."""
        return False

    def disturbed(self, run: Any, disturbance: float) -> list[Row] | None:
        """Its rows when the start is disturbed by so much."""
        return None

    @abstractmethod
    def findings(self, rows: list[Row]) -> Iterator[Finding]: ...

    def tolerance(self, run: Any, name: str) -> float:
        """How far, relatively, the measured number `name` of a run may lie from its row when it is done again."""
        return TOLERANCE


def tuples(value: Any) -> Any:
    """Lists of JSON as tuples, however deep."""
    if isinstance(value, dict):
        return {name: tuples(item) for name, item in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value
