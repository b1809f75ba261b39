"""Instances as .npz files: never unpickled, never trusted, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance

__all__ = ["load_instance", "save_instance"]

_KEYS = ("X", "W", "W_Q", "W_K", "M", "mask", "lam")
_LARGEST_FILE = 4 * 2**30  # bytes of all arrays together
_LARGEST_UNSUSPICIOUS = 64 * 2**20  # above this, a compression ratio beyond _LARGEST_RATIO is a zip bomb
_LARGEST_RATIO = 200


def load_instance(path: str | os.PathLike[str]) -> Instance:
    """Read an instance from an .npz file.

    The file holds `X` (n, d) or (k, n, d) and `W` (d, d), or `W_Q` and `W_K` (d, m), and optionally `M`,
    `mask` ((n, n) of 0 and 1, or the string "causal") and `lam`.

    Every array's announced size is compared with the bytes that are really there before anything is allocated;
    nothing is ever unpickled.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Instance

    Raises
    ------
    InvalidInstance
        If the file cannot be read, is no .npz, holds other names or other content, or breaks a rule of `Instance`.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.npz"
    ...     save_instance(path, Instance(np.eye(3), np.eye(3), lam=0.1))
    ...     load_instance(path)
    Instance(n=3, d=3, k=None, mask=None, lam=0.1, dtype=float64)
    """
    path = Path(path)
    if not os.path.isfile(path):  # unlike Path.is_file, False for a name no file system takes
        raise InvalidInstance(f"an instance must be a readable .npz file; got {_kind(path)} {str(path)!r}")
    try:
        with zipfile.ZipFile(path) as archive:
            content = _read_members(path, archive)
    except InvalidInstance:
        raise
    except Exception as error:  # zipfile and numpy raise many kinds on damaged bytes
        first = (str(error).splitlines() or [""])[0][:120]
        raise InvalidInstance(f"an instance must be an intact .npz file; {str(path)!r}: {first}") from error
    for needed in ("X",) if "W" in content else ("X", "W_Q", "W_K"):
        if needed not in content:
            wanted = "X and W, or X, W_Q and W_K"
            raise InvalidInstance(
                f"an instance file must hold {wanted}; {str(path)!r} holds {', '.join(content) or 'nothing'}"
            )
    if "mask" in content and content["mask"].dtype.kind in "US":
        content["mask"] = _text(content["mask"])
    if "lam" in content:
        if content["lam"].size != 1:
            raise InvalidInstance(f"lam must be one number; got shape {content['lam'].shape}")
        content["lam"] = content["lam"].reshape(()).item()
    return Instance(**content)


def save_instance(path: str | os.PathLike[str], instance: Instance) -> None:
    """Write `instance` to `path` as .npz: first under a temporary name, then renamed, so no half file is left.

    Parameters
    ----------
    path : str or path-like
        Taken as it is: no suffix is added.
    instance : Instance

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> save_instance("no/such/folder/file.npz", Instance(np.eye(2), np.eye(2)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] No such file or directory: ...
    """
    content: dict[str, Any] = {"X": instance.X, "lam": np.float64(instance.lam)}
    if instance.W_Q is not None and instance.W_K is not None:
        content |= {"W_Q": instance.W_Q, "W_K": instance.W_K}
    else:
        content["W"] = instance.W
    if instance.M is not None:
        content["M"] = instance.M
    if instance.mask is not None:
        content["mask"] = np.asarray(instance.mask)
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes private files; an ordinary file is wanted
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read_members(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise InvalidInstance(f"an instance file must hold each name once; {str(path)!r} holds two of {name!r:.60}")
        members[name] = info
    unknown = sorted(set(members) - set(_KEYS))
    if unknown:
        raise InvalidInstance(
            f"an instance file may hold {', '.join(_KEYS)}; {str(path)!r} also holds "
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


def _text(array: Any) -> str:
    if array.size != 1:
        raise InvalidInstance(
            f'mask must be an (n, n) array of 0 and 1 or the string "causal"; got {array.size} strings'
        )
    item = array.reshape(()).item()
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _kind(path: Path) -> str:
    if os.path.isdir(path):
        return "the folder"
    return "a special file" if os.path.exists(path) else "no file at"
