"""The results of a subject's calls: numbers, or one of the reasons why there are none."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Answer:
    """The result of a call: its numbers, the arguments it changed, and the time it took.

    Attributes
    ----------
    changed : tuple[int, ...]
        Indices of the changed arguments, keyword arguments after the others, seen from outside.
    overwritten : bool
        Whether something returned earlier, as it was received then, has changed since.
    detached : bool
        Whether tensors had to be taken out of their graph.
    """

    parts: tuple[NDArray[Any], ...]
    changed: tuple[int, ...]
    seconds: float
    overwritten: bool = False
    detached: bool = False


class NoAnswer(Exception):
    """A call without numbers: it raised, returned something unreadable, hung, or took the interpreter with it."""

    def __init__(self, reason: str, *, raised: bool = False, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.raised = raised
        self.unreadable = unreadable


class NotAccepted(NoAnswer):
    """Raised when the subject has no parameter for an argument of the check."""


class SubjectLost(NoAnswer):
    """The process hung or died; it has been replaced."""

    def __init__(self, reason: str, *, hung: bool = False) -> None:
        super().__init__(reason)
        self.hung = hung


class Ended(SubjectLost):
    """The run is over: its time is up, or nothing that comes from the subject's process can be believed any more."""


class OurError(Exception):
    """An error of this package in the subject's process, before or after the call; no finding about the subject."""


@contextmanager
def ours() -> Iterator[None]:
    """Turn errors into `OurError`, except those that a subject may cause by a broken device or full memory."""
    try:
        yield
    except (RuntimeError, MemoryError):
        raise
    except Exception as error:
        raise OurError from error
