"""Interface of the kinds of stored runs: their settings, how one run is repeated, and the findings of the rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attnprune_verify.experiments.paired import Doubts
from attnprune_verify.experiments.stored.record import Row

__all__ = ["BESIDES", "BETWEEN_KERNELS", "TOLERANCE", "MeasuredSentence", "Row", "Stored", "tuples"]

TOLERANCE = 1e-9
"""Relative; runs that are not chaotic come out equal to about 1e-13 after a change of rounding."""


BETWEEN_KERNELS = 0.5
"""Relative, for the errors of chaotic runs on a machine that rounds otherwise: 102 rows of `figure2` moved by 0.18."""


BESIDES = "besides"


class MeasuredSentence(NamedTuple):
    """One sentence under one reading, with the verdict of the measurements: "agrees", "disagrees" or "undecided".

    The verdict "besides" marks a sentence that nobody predicted before the measurement: it is reported and decides
    nothing. `doubts` is set if the sentence was tested over draws and several tables bear on it.
    """

    id: str
    says: str
    criterion: str
    verdict: str
    reading: str
    numbers: str
    doubts: Doubts | None = None


class Stored(ABC):
    """An experiment with the settings of a record; its model, if it needs one, is in a folder.

    Each of `runs` can be repeated alone; `rows` returns the rows of one run. Rounding can decide the result of a method
    that descends on a mask: `setting` names the settings of such a run ("" for any other run), and `disturbed` repeats
    it from a disturbed start (None if that is impossible).
    """

    columns: Sequence[str]
    measured: Sequence[str]
    beside: Sequence[str] = ()
    """Settings of the plan that no column shows and that change the numbers of a row."""
    errors: Sequence[str] = ()
    """The measured columns that verdicts rest on; of chaotic runs on other machines only these are compared."""
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
        """Return True where rounding chooses among nearly equal entries in a method that descends on no mask."""
        return False

    def disturbed(self, run: Any, disturbance: float) -> list[Row] | None:
        """Return the rows of the run from a start disturbed by `disturbance`; None if that is impossible."""
        return None

    @abstractmethod
    def findings(self, rows: list[Row]) -> Iterator[MeasuredSentence]: ...

    def tolerance(self, run: Any, name: str) -> float:
        """Return the relative difference that the number `name` may show when the run is repeated."""
        return TOLERANCE

    def tolerance_elsewhere(self, run: Any, name: str) -> float:
        """Return `tolerance` on a machine that rounds otherwise than the record's."""
        return self.tolerance(run, name)


def tuples(value: Any) -> Any:
    """Lists of JSON as tuples, however deep."""
    if isinstance(value, dict):
        return {name: tuples(item) for name, item in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value
