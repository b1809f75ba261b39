"""An append-only file of finished runs: what an interrupted experiment goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance

__all__ = ["Journal", "write_whole"]


class Journal:
    """One JSON object per line, each with a `key`; a last line that was cut off is forgotten, any other damage refused.

    Parameters
    ----------
    path : path of the file; it need not exist, its folder must.

    Raises
    ------
    InvalidInstance
        If the file holds something else than finished runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished: dict[str, dict[str, Any]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                run = json.loads(line)
                self.finished[run["key"]] = run
            except (ValueError, TypeError, KeyError) as error:
                raise InvalidInstance(f"{self.path} must hold finished runs; line {number} is none") from error
        if whole != content:  # the last write was interrupted
            with self.path.open("r+b") as file:
                file.truncate(len(whole))

    def add(self, run: Mapping[str, Any]) -> None:
        """Write one finished run down, and through to the disk."""
        line = json.dumps(run, allow_nan=False) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self.finished[run["key"]] = dict(run)


def write_whole(path: Path, content: bytes) -> None:
    """Write under a temporary name and rename, so that a reader sees all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
