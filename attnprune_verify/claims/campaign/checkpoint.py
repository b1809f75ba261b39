"""What a campaign has found so far, in a folder: whole or not there, and of one campaign only."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import dumps, write_whole

__all__ = ["Checkpoint"]

_NAME = "campaign.json"
_SCHEMA = "attnprune-verify/campaign-checkpoint/1"
_EVERY = 2.0


class Checkpoint:
    """The groups that are done, and the sum of what was found in them.

    Parameters
    ----------
    folder : where it is kept, made if missing; None keeps nothing
    request : what the campaign depends on; a folder of another one is refused
    statements : how many tallies there are

    Raises
    ------
    InvalidInstance
        If the folder holds something else, or the campaign of another request.
    """

    def __init__(self, folder: Path | None, request: dict[str, Any], statements: int) -> None:
        self.path = None if folder is None else folder / _NAME
        self.request = json.loads(dumps(request))
        self.done: set[int] = set()
        self.tallies = [Tally()] * statements
        self.seconds = 0.0
        self.resumed = False
        self._saved_at = time.monotonic()
        if folder is None or self.path is None:
            return
        if folder.exists() and not folder.is_dir():
            raise InvalidInstance(f"--out must name a folder; got {str(folder)!r}")
        if self.path.exists():
            self._read()
        elif folder.exists() and any(not one.name.startswith(f".{_NAME}.") for one in folder.iterdir()):
            raise InvalidInstance(f"--out must be empty, new or this campaign's; got {str(folder)!r}")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self.save()

    def _read(self) -> None:
        assert self.path is not None
        try:
            content = json.loads(self.path.read_bytes())
            other = None if content["schema"] == _SCHEMA else "schema"
            if other is None:
                stored = content["request"]
                other = next((name for name in self.request if stored.get(name) != self.request[name]), None)
                done = {number for first, last in content["done"] for number in range(first, last + 1)}
                tallies = [Tally.from_dict(one) for one in content["tallies"]]
                seconds = float(content["seconds"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInstance(f"a checkpoint must be as it was written; {self.path} is not") from error
        if other is not None:
            raise InvalidInstance(
                f"--out must be this campaign's folder; {str(self.path.parent)!r} is of one with another {other}"
            )
        self.done, self.tallies, self.seconds, self.resumed = done, tallies, seconds, True

    def add(self, group: int, tallies: Sequence[Tally], seconds: float) -> None:
        """Take in one group; what comes twice counts once."""
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
        if self.path is None:
            return
        content = {
            "schema": _SCHEMA,
            "request": self.request,
            "done": _ranges(self.done),
            "tallies": [tally.as_dict() for tally in self.tallies],
            "seconds": self.seconds,
        }
        write_whole(self.path, dumps(content).encode())


def _ranges(numbers: set[int]) -> list[list[int]]:
    """{1, 2, 3, 7} as [[1, 3], [7, 7]]."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
