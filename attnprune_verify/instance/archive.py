"""Arrays from an .npz file that nobody vouches for: never unpickled, never larger than they are."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np

from attnprune_verify.errors import InvalidInstance

__all__ = ["read_arrays"]

_LARGEST_FILE = 4 * 2**30  # bytes of all arrays together
_LARGEST_UNSUSPICIOUS = 64 * 2**20  # above this, a compression ratio beyond _LARGEST_RATIO is a zip bomb
_LARGEST_RATIO = 200


def read_arrays(path: Path, names: Collection[str]) -> dict[str, Any]:
    """The arrays of an .npz file, by name.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, is no .npz, holds other names, or its sizes are not what it announces.
    """
    if not os.path.isfile(path):  # unlike Path.is_file, False for a name no file system takes
        raise InvalidInstance(f"an instance must be a readable .npz file; got {_kind(path)} {str(path)!r}")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_members(path, archive, names)
    except InvalidInstance:
        raise
    except Exception as error:  # zipfile and numpy raise many kinds on damaged bytes
        first = (str(error).splitlines() or [""])[0][:120]
        raise InvalidInstance(f"an instance must be an intact .npz file; {str(path)!r}: {first}") from error


def _read_members(path: Path, archive: zipfile.ZipFile, names: Collection[str]) -> dict[str, Any]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise InvalidInstance(f"an instance file must hold each name once; {str(path)!r} holds two of {name!r:.60}")
        members[name] = info
    unknown = sorted(set(members) - set(names))
    if unknown:
        raise InvalidInstance(
            f"an instance file may hold {', '.join(names)}; {str(path)!r} also holds "
            f"{', '.join(map(repr, unknown))[:200]}"
        )
    total = sum(info.file_size for info in members.values())
    packed = sum(info.compress_size for info in members.values())
    if total > _LARGEST_FILE or (total > _LARGEST_UNSUSPICIOUS and total > _LARGEST_RATIO * packed):
        raise InvalidInstance(
            f"an instance file may hold at most {_LARGEST_FILE} bytes and be compressed at most {_LARGEST_RATIO}-fold; "
            f"{str(path)!r} announces {total} bytes from {packed}"
        )
    content = {}
    for name, info in members.items():
        with archive.open(info) as file:
            _check_header(name, file, info.file_size)
        with archive.open(info) as file:
            content[name] = np.lib.format.read_array(file, allow_pickle=False)
    return content


def _check_header(name: str, file: IO[bytes], available: int) -> None:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise InvalidInstance(f"{name} must hold real numbers; got pickled objects, which are never loaded")
    announced = dtype.itemsize
    for size in shape:
        announced *= int(size)
    if announced > available:
        raise InvalidInstance(
            f"{name} must be as large as its header says; it announces shape {shape} ({announced} bytes) "
            f"and the file holds {available}"
        )


def _kind(path: Path) -> str:
    if os.path.isdir(path):
        return "the folder"
    return "a special file" if os.path.exists(path) else "no file at"
