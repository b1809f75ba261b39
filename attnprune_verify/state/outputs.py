"""Files for the user in a folder that may hold files of others: replaced only where their content was written here."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import PART, alone, read_regular, write_whole
from attnprune_verify.state.digests import of_file
from attnprune_verify.state.sealed import keep_document, unsealed

LIST = "written.json"
"""The sealed list of what was written into a folder: by name, the size and the SHA-256 of each content."""


@contextmanager
def outputs_in(folder: Path, own: str) -> Iterator[None]:
    """Make a folder and lock it for one process; a folder that is still empty at the end goes if it was made here.

    Parameters
    ----------
    folder : Path
    own : str
        Regular expression of the names that are to be written.

    Raises
    ------
    InvalidInstance
        If a file of such a name is not as it was written here, or another process uses the folder.
    """
    new = not os.path.lexists(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with alone(folder):
            listed = _listed(folder)
            for name in sorted(os.listdir(folder)):
                if re.fullmatch(own, name):
                    _refuse_foreign(folder / name, listed)
                elif PART.fullmatch(name):  # of a killed process: this one alone is at work here
                    (folder / name).unlink()
            yield
    finally:
        if new:
            with suppress(OSError):  # it holds what was written
                folder.rmdir()


def write_output(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, in the place of one that this function wrote.

    The list names the new content before the file has it, so that a killed process leaves no file that is foreign.

    Raises
    ------
    InvalidInstance
        If another file is there, or the file is not as it was written here.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     path = Path(name) / "results.csv"
    ...     write_output(path, b"1,2")
    ...     write_output(path, b"1,3")
    ...     _ = path.write_bytes(b"1,4 by hand")
    ...     write_output(path, b"1,2")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: only files that were written here are replaced; '...results.csv' is not ...
    """
    listed = _listed(path.parent)
    there = _refuse_foreign(path, listed)
    new = [len(content), hashlib.sha256(content).hexdigest()]
    keep_document(path.parent / LIST, {**listed, path.name: [new] if there is None else [there, new]}, LIST)
    write_whole(path, content)
    keep_document(path.parent / LIST, {**listed, path.name: [new]}, LIST)


def _listed(folder: Path) -> dict[str, Any]:
    path = folder / LIST
    if not os.path.lexists(path):
        return {}
    try:
        return unsealed(read_regular(path), LIST)
    except InvalidInstance as error:
        raise InvalidInstance(
            f"{str(path)!r} must be the list of what was written into its folder; move it away, or give another folder"
        ) from error


def _refuse_foreign(path: Path, listed: dict[str, Any]) -> list[Any] | None:
    """Return the size and SHA-256 of a file that was written here; None if there is none."""
    if not os.path.lexists(path):
        return None
    sizes = [size for size, _ in listed.get(path.name, [])]
    if path.is_file() and not path.is_symlink() and path.stat().st_size in sizes:
        found = [path.stat().st_size, of_file(path)]
        if found in listed[path.name]:
            return found
    raise InvalidInstance(
        f"only files that were written here are replaced; {str(path)!r} is not as it was written by this release; "
        "move it away, or give another folder"
    )
