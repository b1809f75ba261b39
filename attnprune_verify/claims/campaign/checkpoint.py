"""The findings of a campaign so far, in a folder: whole or not there, checked against each other, of one campaign."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnprune_verify.claims.campaign.draw import Quota, locate
from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.state.keeper import Keeper
from attnprune_verify.values import as_nonnegative

_NAME = "campaign.json"
_EVERY = 2.0
"""Seconds between two writes; chosen: at most so much work is lost, and writing costs less than a thousandth of it."""


class Checkpoint:
    """The groups that are done, and the sum of their tallies.

    Parameters
    ----------
    folder : Path or None
        Where the checkpoint is kept, made if missing; None keeps nothing.
    request : dict
        Everything that the campaign depends on; the folder of another request is refused.
    statements : int
        Number of tallies.
    """

    def __init__(self, folder: Path | None, request: dict[str, Any], statements: int) -> None:
        self._keeper = None if folder is None else Keeper(folder, request, claim=_NAME)
        self.done: set[int] = set()
        self.tallies = [Tally()] * statements
        self.seconds = 0.0
        self.resumed = False
        self._saved_at = time.monotonic()

    @contextmanager
    def opened(self, groups: Iterable[Quota]) -> Iterator[None]:
        """Lock the folder, read its findings on these groups, and write all findings at the end.

        Raises
        ------
        InvalidInstance
            If the folder holds anything else or the campaign of another request, if its numbers contradict each
            other, or if another process uses it.
        """
        if self._keeper is None:
            yield
            return
        with self._keeper.claimed() as kept:
            if kept:
                try:
                    self._take_in(kept, {group.number: group.lanes for group in groups})
                except (ValueError, TypeError, KeyError) as error:
                    path = str(self._keeper.folder / _NAME)
                    raise InvalidInstance(
                        f"a checkpoint must be as it was written; {path!r} is not: {error}"
                    ) from error
            try:
                yield
            finally:
                self.save()

    def _take_in(self, kept: dict[str, Any], lanes: dict[int, int]) -> None:
        done = [number for first, last in kept["done"] for number in range(first, last + 1)]
        tallies = [Tally.from_dict(one) for one in kept["tallies"]]
        if kept["done"] != _ranges(set(done)) or not lanes.keys() >= set(done):
            raise InvalidInstance("done must be ranges of its groups that do not overlap")
        instances = sum(lanes[number] for number in done)
        if len(tallies) != len(self.tallies) or any(one.instances != instances for one in tallies):
            raise InvalidInstance(f"every statement must have a tally of {instances} instances")
        for one in tallies:
            if one.worst is not None and locate(one.worst.index)[0] not in done:
                raise InvalidInstance(f"the worst instance must be of a group that is done; got {one.worst.index}")
        self.seconds = as_nonnegative("seconds", kept["seconds"])
        self.done, self.tallies, self.resumed = set(done), tallies, True

    def add(self, group: int, tallies: Sequence[Tally], seconds: float) -> None:
        """Add one group; a group that comes twice counts once."""
        if group in self.done:
            return
        self.done.add(group)
        self.tallies = [one + other for one, other in zip(self.tallies, tallies, strict=True)]
        self.seconds += seconds
        if time.monotonic() - self._saved_at > _EVERY:
            self.save()

    def save(self) -> None:
        """Write it, under a temporary name first."""
        self._saved_at = time.monotonic()
        if self._keeper is not None:
            tallies = [tally.as_dict() for tally in self.tallies]
            self._keeper.write_claim({"done": _ranges(self.done), "tallies": tallies, "seconds": self.seconds})


def _ranges(numbers: set[int]) -> list[list[int]]:
    """{1, 2, 3, 7} as [[1, 3], [7, 7]]."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
