"""A journal: one finished run a line, each with a digest, kept for the code that computed it."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import read_regular
from attnprune_verify.state.sealed import sealed, unsealed

_LARGEST = 256 * 2**20  # bytes, chosen: a hundred thousand runs of the largest kind


class Journal:
    """A file with one JSON object a line, each with a `key`; a truncated last line is dropped, other damage refused.

    A last line that was cut off is one of ours where it begins with the code of a run of this file, or of this class;
    a shorter rest, where a finished run stands before it.

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
        content = read_regular(self.path, _LARGEST)
        self._end, codes = content.rfind(b"\n") + 1, {self._code}
        for number, line in enumerate(content[: self._end].split(b"\n")[:-1], 1):
            try:
                run = unsealed(line)
                code, key = run.pop("code"), str(run["key"])
                codes.add(code)
                mine = code == self._code
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidInstance(f"{self.path} must hold finished runs; line {number} is not one") from error
            if mine and key in self.finished:
                raise InvalidInstance(f"{self.path} must hold each run once; line {number} repeats a run")
            if mine:
                self.finished[key] = run
        cut, starts = content[self._end :], [f'{{"code": "{code}", "key": "'.encode() for code in codes]
        if cut and not any(cut.startswith(start) or (self._end and start.startswith(cut)) for start in starts):
            raise InvalidInstance(
                f"{self.path} must hold finished runs; its last line is none, and was not cut off while it was "
                "written by this release; delete that line, or move the file away"
            )

    def add(self, run: Mapping[str, Any]) -> None:
        """Append one finished run and flush it to the disk; it overwrites a truncated last line."""
        line = sealed({"code": self._code, "key": run["key"], **run}, indent=None)
        try:
            with self.path.open("ab") as file:
                file.truncate(self._end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, self._end)  # what a full disk took of the line
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._end += len(line)
        self.finished[run["key"]] = dict(run)

    def remove(self) -> None:
        """Delete the file, which holds finished runs only."""
        self.path.unlink(missing_ok=True)
