"""Named tensors of a model folder, read on demand. File contents are never trusted and nothing is executed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.files import parse, read_regular
from attnprune_verify.instance.validate import Array

__all__ = ["Place", "Tensors", "decoded", "encoded", "inside", "mapped", "model_folder", "read_json", "weight_files"]

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PIECE = 1 << 22  # numbers looked at together; chosen: 16 MiB as float32


class Place(NamedTuple):
    """Place of a tensor in a file."""

    name: str  # as the file calls it
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Tensors:
    """The tensors of a folder by name; each is mapped from its file when it is first used.

    Raises
    ------
    InvalidInstance
        If a file is missing, leads out of the folder, or is no intact safetensors file.
    """

    def __init__(self, folder: Path, dtype: type[np.floating[Any]]) -> None:
        self._dtype = np.dtype(dtype)
        self._places: dict[str, Place] = {}
        for file in weight_files(folder):
            for name, place in _places(file).items():
                if name in self._places:
                    first = self._places[name].file.name
                    raise InvalidInstance(f"a tensor must be in one file; {name!r} is in {first} and in {file.name}")
                self._places[name] = place

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def places(self) -> Iterable[Place]:
        """Return the places of all tensors."""
        return self._places.values()

    def strip(self, *prefixes: str, probe: str) -> None:
        """Find which of `prefixes` the file puts before a network's names, by one that must exist, and drop it."""
        for prefix in ("", *prefixes):
            if prefix + probe in self._places:
                self._places = {name.removeprefix(prefix): place for name, place in self._places.items()}
                return
        raise InvalidInstance(f"the model must hold a tensor {probe!r}; its files hold {_some(self._places)}")

    def expect(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        *,
        optional: Mapping[str, tuple[int, ...]] | None = None,
        ignored: tuple[str, ...] = (),
    ) -> None:
        """Refuse a folder that lacks one of the tensors, or holds another one that would change the computation."""
        known = {**shapes, **(optional or {})}
        for name, shape in known.items():
            if name in shapes or name in self._places:
                _check(name, self._places.get(name), shape)
        for name in self._places:
            if name not in known and not any(part in name for part in ignored):
                raise InvalidInstance(f"the model holds a tensor {name!r}, which is not computed with here")

    def place(self, name: str) -> Place:
        """Return the place of the tensor."""
        return self._places[name]

    def __call__(self, name: str) -> Array:
        """The tensor `name`."""
        return self._converted(name, mapped(self._places[name]))

    def rows(self, name: str, ids: NDArray[np.int64]) -> Array:
        """The rows `ids` of a table; nothing else of it is read."""
        return self._converted(name, mapped(self._places[name])[ids])

    def equal(self, name: str, other: str) -> bool:
        """Return whether two tensors hold the same bytes."""
        return self._places[name].dtype == self._places[other].dtype and np.array_equal(
            mapped(self._places[name]), mapped(self._places[other])
        )

    def refuse_infinite(self) -> None:
        """Refuse NaN and infinity in any tensor, also in those that nothing is computed with; a piece at a time.

        Raises
        ------
        InvalidInstance
        """
        for name, place in self._places.items():
            if place.dtype in _DTYPES:
                flat = mapped(place).reshape(-1)
                for start in range(0, len(flat), _PIECE):
                    _finite(name, decoded(flat[start : start + _PIECE], place.dtype))

    def _converted(self, name: str, raw: NDArray[Any]) -> Array:
        return _finite(name, decoded(raw, self._places[name].dtype).astype(self._dtype))


def _finite(name: str, tensor: Array) -> Array:
    if not np.isfinite(tensor).all():
        wrong = int(np.count_nonzero(~np.isfinite(tensor)))
        raise InvalidInstance(f"tensor {name!r} must be finite; {wrong} of its entries are not")
    return tensor


def _check(name: str, place: Place | None, shape: tuple[int, ...]) -> None:
    if place is None:
        raise InvalidInstance(f"the model must hold a tensor {name!r} of shape {shape}; it is missing")
    if place.dtype not in _DTYPES:
        raise InvalidInstance(f"tensor {name!r} must be one of {', '.join(_DTYPES)}; got {place.dtype}")
    if place.shape != shape:
        raise InvalidInstance(f"tensor {name!r} must have shape {shape} by config.json; got {place.shape}")


def mapped(place: Place) -> NDArray[Any]:
    """The stored numbers, mapped from the file; BF16 as uint16."""
    raw: NDArray[Any] = np.memmap(place.file, _DTYPES[place.dtype], "r", place.offset, place.shape)
    return raw


def decoded(raw: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Stored numbers as numbers; a BF16 is the upper half of a float32."""
    return (raw.astype("<u4") << 16).view("<f4") if dtype == "BF16" else raw


def encoded(values: Array, dtype: str) -> NDArray[Any]:
    """Numbers as a file of `dtype` stores them, to the nearest, ties to even; zeros stay exact zeros."""
    if dtype != "BF16":
        return values.astype(_DTYPES[dtype])
    bits = values.astype("<f4").view("<u4")
    return np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def model_folder(path: str | os.PathLike[str]) -> Path:
    """The path of a folder that exists."""
    if not Path(path).is_dir():
        raise InvalidInstance(f"a model must be a folder; got {str(path)!r}")
    return Path(path)


def inside(folder: Path, name: str) -> Path:
    """The file `name` of a model folder, if it is a file of that folder or a link to a blob of the hub's cache.

    Raises
    ------
    InvalidInstance
        If it is a link to somewhere else.
    """
    home, target = folder.resolve(), (folder / name).resolve()
    blobs = home.parent.parent / "blobs"
    if not target.is_relative_to(home) and not (home.parent.name == "snapshots" and target.parent == blobs):
        raise InvalidInstance(f"links of a model must stay in its folder or the hub's cache; {name} leads out of it")
    return folder / name


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file of reasonable size."""
    if not file.is_file():
        raise InvalidInstance(f"a model folder must hold {file.name}; there is none in {str(file.parent)!r}")
    content = read_regular(inside(file.parent, file.name))
    try:
        content = parse(content)
    except ValueError as error:
        reason = str(error).removeprefix("must be valid JSON; ")[:100]
        raise InvalidInstance(f"{file.name} must be valid JSON; {reason}") from error
    if not isinstance(content, dict):
        raise InvalidInstance(f"{file.name} must hold a JSON object; got {type(content).__name__}")
    return content


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model."""
    if (folder / _SINGLE).is_file():
        return [inside(folder, _SINGLE)]
    if not (folder / _INDEX).is_file():
        raise InvalidInstance(f"a model folder must hold {_SINGLE} or {_INDEX}; {str(folder)!r} holds neither")
    weight_map = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise InvalidInstance(f"{_INDEX} must hold a non-empty object weight_map; got {type(weight_map).__name__}")
    files = []
    for name in sorted({str(value) for value in weight_map.values()}):
        if Path(name).name != name or "\\" in name or not name.endswith(".safetensors"):
            raise InvalidInstance(f"{_INDEX} may name only *.safetensors files beside it; got {name[:80]!r}")
        if not (folder / name).is_file():
            raise InvalidInstance(f"{_INDEX} names {name!r}, which is not in {str(folder)!r}")
        files.append(inside(folder, name))
    return files


def _places(file: Path) -> dict[str, Place]:
    """Return the place of each tensor; the safetensors library checks the header before its offsets are used."""
    safe_open = _safe_open()
    try:
        with safe_open(str(file), framework="np"):
            pass
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = parse(handle.read(length))
    except Exception as error:  # the library raises its own kinds, none of them public
        first = (str(error).splitlines() or [""])[0][:120]
        raise InvalidInstance(f"{file.name} must be an intact safetensors file; {first}") from error
    header.pop("__metadata__", None)
    return {
        name: Place(name, file, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def _safe_open() -> Callable[..., Any]:
    opener: Callable[..., Any] = need("reading model files", "real", "safetensors").safe_open
    return opener


def _some(names: Mapping[str, object]) -> str:
    listed = ", ".join(map(repr, list(names)[:3]))
    return f"{len(names)} tensors ({listed}, ...)" if len(names) > 3 else listed or "none"
