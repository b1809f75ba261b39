"""Named tensors of a model folder, read on demand. File contents are never trusted and nothing is executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array

__all__ = ["Tensors", "read_json"]

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_LARGEST_JSON = 64 * 2**20  # bytes


class _Place(NamedTuple):
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Tensors:
    """The tensors of a folder by name; each is mapped from its file when it is asked for.

    Raises
    ------
    InvalidInstance
        If a file is missing, leads out of the folder, or is no intact safetensors file.
    """

    def __init__(self, folder: Path, dtype: type[np.floating[Any]]) -> None:
        self._dtype = np.dtype(dtype)
        self._places: dict[str, _Place] = {}
        for file in _weight_files(folder):
            self._places |= _places(file)
        self.prefix = ""

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self._places

    def strip(self, *prefixes: str, probe: str) -> None:
        """Find which of `prefixes` the file puts before every name, by one name that must exist."""
        for prefix in ("", *prefixes):
            if prefix + probe in self._places:
                self.prefix = prefix
                return
        raise InvalidInstance(f"the model must hold a tensor {probe!r}; its files hold {_some(self._places)}")

    def __call__(self, name: str, *shape: int) -> Array:
        """The tensor `name`, which must have `shape`."""
        return self._converted(name, self._mapped(name, shape))

    def rows(self, name: str, ids: NDArray[np.int64], *shape: int) -> Array:
        """The rows `ids` of a table that must have `shape`; nothing else of it is read."""
        return self._converted(name, self._mapped(name, shape)[ids])

    def _mapped(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        place = self._places.get(self.prefix + name)
        if place is None:
            raise InvalidInstance(
                f"the model must hold a tensor {self.prefix + name!r} of shape {shape}; it is missing"
            )
        if place.dtype not in _DTYPES:
            raise InvalidInstance(f"tensor {name!r} must be one of {', '.join(_DTYPES)}; got {place.dtype}")
        if place.shape != shape:
            raise InvalidInstance(f"tensor {name!r} must have shape {shape} by config.json; got {place.shape}")
        mapped: NDArray[Any] = np.memmap(place.file, _DTYPES[place.dtype], "r", place.offset, shape)
        return mapped

    def _converted(self, name: str, raw: NDArray[Any]) -> Array:
        if self._places[self.prefix + name].dtype == "BF16":  # the upper half of a float32
            raw = (raw.astype("<u4") << 16).view("<f4")
        tensor = np.asarray(raw, dtype=self._dtype)
        if not np.isfinite(tensor).all():
            wrong = int(np.count_nonzero(~np.isfinite(tensor)))
            raise InvalidInstance(f"tensor {name!r} must be finite; {wrong} of its entries are not")
        return tensor


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file of reasonable size."""
    if not file.is_file():
        raise InvalidInstance(f"a model folder must hold {file.name}; there is none in {str(file.parent)!r}")
    size = file.stat().st_size
    if size > _LARGEST_JSON:
        raise InvalidInstance(f"{file.name} must have at most {_LARGEST_JSON} bytes; got {size}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInstance(f"{file.name} must be valid JSON; got {str(error)[:100]}") from error
    if not isinstance(content, dict):
        raise InvalidInstance(f"{file.name} must hold a JSON object; got {type(content).__name__}")
    return content


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _SINGLE).is_file():
        return [folder / _SINGLE]
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
        files.append(folder / name)
    return files


def _places(file: Path) -> dict[str, _Place]:
    """Where each tensor lies; the header is checked by the safetensors library before its offsets are used."""
    safe_open = _safe_open()
    try:
        with safe_open(str(file), framework="np"):
            pass
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = json.loads(handle.read(length))
    except Exception as error:  # the library raises its own kinds, none of them public
        first = (str(error).splitlines() or [""])[0][:120]
        raise InvalidInstance(f"{file.name} must be an intact safetensors file; {first}") from error
    header.pop("__metadata__", None)
    return {
        name: _Place(file, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def _safe_open() -> Callable[..., Any]:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise InvalidInstance(
            "reading model files needs the extra 'real': pip install 'attnprune-verify[real]'"
        ) from error
    opener: Callable[..., Any] = safe_open
    return opener


def _some(names: Mapping[str, object]) -> str:
    listed = ", ".join(map(repr, list(names)[:3]))
    return f"{len(names)} tensors ({listed}, ...)" if len(names) > 3 else listed or "none"
