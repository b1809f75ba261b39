"""Files that are whole or not there, and JSON that every parser accepts."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from attnprune_verify.errors import InvalidInstance

try:
    import fcntl
except ImportError:  # not on this system: nothing keeps two processes apart there
    fcntl = None  # type: ignore[assignment]  # Windows has none

__all__ = ["alone", "dumps", "lines", "plain", "read_lines", "table", "whole_file", "write_whole"]


@contextmanager
def alone(lock: Path, folder: Path) -> Iterator[None]:
    """Hold the file `lock`, made if missing, until the end: one process at a time is at work in `folder`.

    Raises
    ------
    InvalidInstance
        If another one holds it. The system lets go of what a killed process held.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     lock = Path(name) / "lock"
    ...     with alone(lock, Path("results")), alone(lock, Path("results")):
    ...         pass
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: another process is at work in 'results'
    """
    with lock.open("ab") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidInstance(f"another process is at work in {str(folder)!r}") from error
        yield


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write under a temporary name and rename at the end, so that a reader sees all of the file or nothing.

    Raises
    ------
    OSError
        If the file cannot be written; it carries the name of `path`, not the temporary one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """`whole_file` with this content."""
    with whole_file(path) as file:
        file.write(content)


def plain(value: Any) -> Any:
    """Turn mappings, sequences, NumPy scalars and arrays into what JSON knows; inf and nan become strings.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"T": float("inf"), "shape": (2, np.int64(3))})
    {'T': 'inf', 'shape': [2, 3]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def dumps(value: Any, indent: int | None = 2) -> str:
    """Strict JSON with a final newline, on one line where `indent` is None; keys keep their order."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def lines(rows: Iterable[Any]) -> bytes:
    """Rows as JSON Lines: one object a line, so that a change of one row is a change of one line."""
    return "".join(dumps(row, None) for row in rows).encode()


def read_lines(content: bytes) -> list[Any]:
    """The inverse of `lines`."""
    return [json.loads(line) for line in content.splitlines()]


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """CSV with a line of names first; a row that lacks a column leaves it empty, what is no column is left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
