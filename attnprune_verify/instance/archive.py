"""Reading of arrays from an untrusted .npz file: nothing is unpickled, and announced sizes must be the real ones."""

import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.memory import require_memory
from attnprune_verify.values import nearest

_LARGEST_FILE = 4 * 2**30  # bytes of all arrays together
_LARGEST_UNSUSPICIOUS = 64 * 2**20  # above this, a compression ratio beyond _LARGEST_RATIO is a zip bomb
_LARGEST_RATIO = 200
_LEAST_MAPPED = 64 * 2**20  # chosen: below 64 MiB reading costs less than mapping's care


def read_arrays(path: Path, names: Collection[str]) -> dict[str, Any]:
    """The arrays of an .npz file, by name.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, is no .npz, holds other names, or its sizes differ from those it announces.
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
        raise InvalidInstance(
            f"an instance must be an intact .npz file; {str(path)!r}: {first}: np.savez('own.npz', X=X, W=W) writes one"
        ) from error


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
            f"{', '.join(map(repr, unknown))[:200]}{nearest(unknown[0], names)}"
        )
    mapped = {name for name, info in members.items() if _can_be_mapped(name, info)}
    total = sum(info.file_size for name, info in members.items() if name not in mapped)
    packed = sum(info.compress_size for name, info in members.items() if name not in mapped)
    if total > _LARGEST_FILE or (total > _LARGEST_UNSUSPICIOUS and total > _LARGEST_RATIO * packed):
        raise InvalidInstance(
            f"an instance file may hold at most {_LARGEST_FILE} bytes and be compressed at most {_LARGEST_RATIO}-fold; "
            f"{str(path)!r} announces {total} bytes from {packed}"
        )
    require_memory(
        f"{str(path)!r}, which holds {total} bytes to be read,", total, "an uncompressed X is not read at once"
    )
    content: dict[str, Any] = {}
    for name, info in members.items():
        with archive.open(info) as file:
            shape, fortran, dtype = _check_header(name, file, info.file_size)
            start = file.tell()
        if name in mapped:
            content[name] = _mapped(path, info, start, shape, "F" if fortran else "C", dtype)
            continue
        with archive.open(info) as file:
            content[name] = array = np.lib.format.read_array(file, allow_pickle=False)
        if dtype.kind == "U" and dtype.itemsize:
            points = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(dtype.byteorder))
            if points.size and points.max() > sys.maxunicode:
                raise InvalidInstance(
                    f"{name} must hold text in Unicode; {str(path)!r} holds a point {points.max():#x}"
                )
    return content


def _can_be_mapped(name: str, info: zipfile.ZipInfo) -> bool:
    """Tokens stored uncompressed, and too large to be read at once."""
    return name == "X" and info.compress_type == zipfile.ZIP_STORED and info.file_size >= _LEAST_MAPPED


def _mapped(
    path: Path, info: zipfile.ZipInfo, start: int, shape: tuple[int, ...], order: Literal["C", "F"], dtype: Any
) -> Any:
    """An array mapped from the file, whose pages are read on use; its check sum is compared as any other's.

    Before a member's bytes stand 30 bytes, its name and an extra field; `start` is where the numbers begin in it.
    """
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)
        begin = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
        if header[:4] != b"PK\x03\x04" or begin + info.file_size > os.fstat(file.fileno()).st_size:
            raise InvalidInstance(f"{info.filename} must lie in the file; {str(path)!r} was cut off")
        file.seek(begin)
        found, left = 0, info.file_size
        while left:
            piece = file.read(min(left, 2**18))
            found, left = zlib.crc32(piece, found), left - len(piece)
    if found != info.CRC:
        raise InvalidInstance(f"{info.filename} must be as it was written; its check sum differs in {str(path)!r}")
    return np.memmap(path, dtype, "r", begin + start, shape, order)


def _check_header(name: str, file: IO[bytes], available: int) -> tuple[tuple[int, ...], bool, Any]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(file)
    except ValueError as error:  # whose text holds addresses, and lines of what was read
        raise ValueError(f"the header of {name} cannot be read") from error
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
    return shape, fortran, dtype


def _kind(path: Path) -> str:
    if os.path.isdir(path):
        model = os.path.exists(os.path.join(path, "config.json"))
        return "a model's folder, for prune-model or for check with --layer," if model else "the folder"
    return "a special file" if os.path.exists(path) else "no file at"
