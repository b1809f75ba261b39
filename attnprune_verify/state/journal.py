"""A journal: one finished run a line, each with a digest, kept for the code that computed it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import read_regular
from attnprune_verify.state.sealed import sealed, unsealed

__all__ = ["Journal"]

_START = b'{"key": "'


class Journal:
    """A file with one JSON object a line, each with a `key`; a truncated last line is dropped, other damage refused.

    Parameters
    ----------
    path : Path
        The file; it need not exist, its folder must.
    code : str
        Name of the code that computes, such as a digest; runs of another code stay in the file but are not returned.

    Raises
    ------
    InvalidInstance
        If the file holds anything else than finished runs, a changed run, or a run twice.
    """

    def __init__(self, path: Path, code: str = "") -> None:
        self.path, self._code = path, code
        self.finished: dict[str, dict[str, Any]] = {}
        self._end = 0
        if os.path.lexists(path):
            self._read()

    def _read(self) -> None:
        content = read_regular(self.path)
        self._end = content.rfind(b"\n") + 1
        for number, line in enumerate(content[: self._end].split(b"\n")[:-1], 1):
            try:
                run = unsealed(line)
                mine, key = run.pop("code") == self._code, str(run["key"])
            except (ValueError, KeyError) as error:
                raise InvalidInstance(f"{self.path} must hold finished runs; line {number} is not one") from error
            if mine and key in self.finished:
                raise InvalidInstance(f"{self.path} must hold each run once; line {number} repeats a run")
            if mine:
                self.finished[key] = run
        cut = content[self._end :]
        if cut[: len(_START)] != _START[: len(cut)]:  # a line of ours that was cut off begins like this
            raise InvalidInstance(f"{self.path} must hold finished runs; its last line is not one")

    def add(self, run: Mapping[str, Any]) -> None:
        """Append one finished run and flush it to the disk; it overwrites a truncated last line."""
        line = sealed({**run, "code": self._code}, indent=None)
        with self.path.open("ab") as file:
            try:
                file.truncate(self._end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._end += len(line)
        self.finished[run["key"]] = dict(run)
