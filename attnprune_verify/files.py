"""Files that are whole or not there, and JSON that every parser accepts."""

import csv
import io
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from attnprune_verify.errors import InvalidInstance

try:
    import fcntl
except ImportError:  # not on this system: nothing keeps two processes apart there
    fcntl = None  # type: ignore[assignment]  # Windows has none

LARGEST = 64 * 2**20  # bytes of a file that is read at once, chosen: ten times the largest text or JSON in use
PART = re.compile(r"\.attnprune-[0-9a-f]{16}\.part")
"""Names of files that are being written, or that a killed process was writing."""
DEEPEST = 100  # levels of JSON, chosen: nothing that is read here has ten; Python itself stops below a thousand


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a folder, or a file that is made with its folder if missing: one process at a time is at work there.

    Where the file system has no locks, nothing is held.

    Raises
    ------
    InvalidInstance
        If another one holds it. The system lets go of what a killed process held.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     journal = Path(name) / "runs.jsonl"
    ...     with alone(journal), alone(journal):  # doctest: +ELLIPSIS
    ...         pass
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: another process is at work with '...runs.jsonl'
    """
    if fcntl is None:
        yield
        return
    mode = os.O_RDONLY
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
    held = os.open(path, mode | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(held)
        raise InvalidInstance(f"another process is at work with {str(path)!r}") from error
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(held)


def read_regular(path: Path, most: int = LARGEST) -> bytes:
    """Read a file of at most `most` bytes; a pipe, on which one could wait for ever, a device and a folder are refused.

    Raises
    ------
    InvalidInstance
        If it is no regular file, or larger.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInstance(f"{str(path)!r} must be a file; it is a pipe or a device")
        content = file.read(most + 1) if found.st_size <= most else b""
        if max(found.st_size, len(content)) > most:
            raise InvalidInstance(f"{str(path)!r} must have at most {most} bytes; it has {found.st_size}")
        return content


def printable(text: str) -> str:
    """Text of others as a terminal may get it: what is not printable is escaped.

    Examples
    --------
    >>> print(printable("size" + chr(27) + "[2J"))
    size\\x1b[2J
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write under a temporary name and rename at the end, so that a reader sees all of the file or nothing.

    The content is on the disk before the rename, and the rename before the end.

    Raises
    ------
    OSError
        If the file cannot be written; it carries the name of `path`, not the temporary one.
    """
    temporary = path.with_name(f".attnprune-{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if fcntl is not None:
        with suppress(OSError):  # some file systems cannot
            held = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(held)
            finally:
                os.close(held)


def write_whole(path: Path, content: bytes) -> None:
    """`whole_file` with this content."""
    with whole_file(path) as file:
        file.write(content)


def plain(value: Any) -> Any:
    """Turn mappings, sequences, NumPy scalars and arrays into JSON's types; inf and nan become strings.

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


def parse(content: bytes | str) -> Any:
    """JSON as it may come from anywhere.

    Raises
    ------
    InvalidInstance
        If it is no JSON, holds NaN or Infinity, or is nested more than 100 levels deep.

    Examples
    --------
    >>> parse("[" * 101 + "]" * 101)
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: JSON must have at most 100 levels; got more
    """
    try:
        value = json.loads(content, parse_constant=_no_number)
    except RecursionError:
        raise InvalidInstance(f"JSON must have at most {DEEPEST} levels; got more") from None
    except ValueError as error:
        raise InvalidInstance(f"must be valid JSON; {str(error)[:100]}") from error
    level = [value]
    for _ in range(DEEPEST):
        level = [item for one in level if isinstance(one, dict | list) for item in _items(one)]
    if any(isinstance(one, dict | list) for one in level):
        raise InvalidInstance(f"JSON must have at most {DEEPEST} levels; got more")
    return value


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def lines(rows: Iterable[Any]) -> bytes:
    """Rows as JSON Lines: one object a line, so that a change of one row is a change of one line."""
    return "".join(dumps(row, None) for row in rows).encode()


def read_lines(content: bytes) -> list[Any]:
    """The inverse of `lines`."""
    return [parse(line) for line in content.splitlines()]


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """CSV with a line of names first; a row that lacks a column leaves it empty, what is no column is left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
