"""A folder that belongs to one request: claimed, locked, and read back only as it was written."""

import errno
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import PART, alone, dumps, parse, read_regular, whole_file
from attnprune_verify.state.digests import differing_fields, of_document
from attnprune_verify.state.sealed import keep_document, kept_document, unsealed

_SEAL = hashlib.sha256().digest_size
_CHUNK = 1 << 20  # bytes read at a time, chosen: no larger buffer hashes faster


class Sink:
    """A file that is being written, with the digest of its content so far."""

    def __init__(self, file: BinaryIO, about: str) -> None:
        self._file, self._digest = file, hashlib.sha256(about.encode())

    def write(self, content: bytes) -> None:
        """Write the content, and add it to the digest."""
        self._digest.update(content)
        self._file.write(content)

    def allocate(self, size: int) -> None:
        """Reserve the bytes that are to come, so that a full disk shows before the work and not in its midst."""
        try:
            os.posix_fallocate(self._file.fileno(), 0, size + _SEAL)
        except AttributeError:  # not on this system
            pass
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not on this file system
                raise

    def seal(self) -> None:
        """Write the digest behind the content."""
        self._file.write(self._digest.digest())


class Keeper:
    """A folder for the results that one request has computed so far; every file holds or ends with a digest.

    The first file written is the claim, which holds the request; a folder without a claim must be empty. The digest of
    a file covers its request and its name, so that no file can be put in the place of another.

    Parameters
    ----------
    folder : Path
        Path of the folder, made if missing.
    request : mapping
        Everything that the kept results depend on.
    claim : str
        Name of the file with the request.
    own : str
        Regular expression of all other names that are written here; no other name is ever deleted.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any], *, claim: str = "request.json", own: str = "") -> None:
        self.folder = folder
        self._request: dict[str, Any] = parse(dumps(request).encode())
        self._about, self._claim_name = of_document(self._request), claim
        self._own = re.compile(own or "(?!)")

    @contextmanager
    def claimed(self) -> Iterator[dict[str, Any] | None]:
        """Lock the folder for one process; yield the claim's content beside the request, None if the folder is new.

        Raises
        ------
        InvalidInstance
            If the folder is not empty and not of this request, its claim was changed, or another process uses it.
        """
        rule = f"{str(self.folder)!r} must be empty, new or a folder of this very request"
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise InvalidInstance(f"{rule}; it is a link or no folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        with alone(self.folder):
            yield self._claim(rule)

    def _claim(self, rule: str) -> dict[str, Any] | None:
        path = self.folder / self._claim_name
        if not os.path.lexists(path):
            strangers = [one.name for one in self.folder.iterdir() if not PART.fullmatch(one.name)]
            if strangers:
                raise InvalidInstance(f"{rule}; it holds {min(strangers)!r}")
            self._remove_parts()
            self.write_claim({})
            return None
        try:
            state = unsealed(read_regular(path))
            theirs = dict(state.pop("request"))
        except (InvalidInstance, KeyError, TypeError, ValueError) as error:
            raise InvalidInstance(f"a claim must be as it was written; {str(path)!r} is not") from error
        if theirs != self._request:
            other = differing_fields(theirs, self._request)[0]
            raise InvalidInstance(f"{rule}; its request has another {other}: repeat that request, or move it away")
        self._remove_parts()
        return state

    def is_ours(self) -> bool:
        """Return True where the folder exists and belongs to this request."""
        claim = kept_document(self.folder / self._claim_name)
        return claim is not None and claim.get("request") == self._request

    def write_claim(self, state: Mapping[str, Any]) -> None:
        """Write the claim, with a state beside the request."""
        keep_document(self.folder / self._claim_name, {"request": self._request, **state})

    def keep(self, name: str, document: Mapping[str, Any]) -> None:
        """Keep a JSON document."""
        keep_document(self.folder / name, document, f"{self._about} {name}")

    def kept(self, name: str) -> dict[str, Any] | None:
        """The document `name`; None where it is not there, or not as it was written."""
        return kept_document(self.folder / name, f"{self._about} {name}")

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        """Write the file `name` piece by piece; it appears whole, with its digest behind the content."""
        with whole_file(self.folder / name) as file:
            sink = Sink(file, f"{self._about} {name}")
            yield sink
            sink.seal()

    def intact(self, name: str) -> Path | None:
        """Return the path of the file `name`, or None if the file is missing or was changed since it was written."""
        path, digest = self.folder / name, hashlib.sha256(f"{self._about} {name}".encode())
        if path.is_symlink() or not path.is_file():
            return None
        left = path.stat().st_size - _SEAL
        with path.open("rb") as file:
            while left > 0 and (piece := file.read(min(left, _CHUNK))):
                digest.update(piece)
                left -= len(piece)
            return path if left == 0 and file.read() == digest.digest() else None

    def keep_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep arrays by name: their names on a line, then one array after the other as ``numpy.save`` writes it."""
        with self.writing(name) as sink:
            sink.write(dumps(list(arrays), None).encode())
            for array in arrays.values():
                np.lib.format.write_array(sink, np.asarray(array), allow_pickle=False)

    def arrays(self, name: str) -> dict[str, NDArray[Any]] | None:
        """The arrays that `keep_arrays` wrote; None where they are not there, or not as they were written."""
        path = self.intact(name)
        if path is None:
            return None
        with path.open("rb") as file:
            return {one: np.lib.format.read_array(file, allow_pickle=False) for one in parse(file.readline())}

    def remove(self, *names: str) -> None:
        """Delete files of ours."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete our files, the claim last, and the folder if it is then empty."""
        self._remove_parts()
        self.remove(*(one.name for one in self.folder.iterdir() if self._own.fullmatch(one.name)))
        self.remove(self._claim_name)
        with suppress(OSError):  # it holds what is not ours
            self.folder.rmdir()

    def _remove_parts(self) -> None:
        """Delete the partial files of a killed process."""
        self.remove(*(one.name for one in self.folder.iterdir() if PART.fullmatch(one.name)))
