"""Named tensors of a model folder, read on demand. File contents are never trusted and nothing is executed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_PIECE = 1 << 22  # numbers looked at together; chosen: 16 MiB as float32


class Place(NamedTuple):
    """Place of a tensor in a file."""

    name: str  # as the file calls it
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Tensors:
    """The tensors of a model by name, each mapped from its file when it is first used and converted to `dtype`."""

    def __init__(self, places: Mapping[str, Place], dtype: type[np.floating[Any]]) -> None:
        self._places, self._dtype = dict(places), np.dtype(dtype)

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
        """Return True where two tensors hold the same bytes."""
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


def _some(names: Mapping[str, object]) -> str:
    listed = ", ".join(map(repr, list(names)[:3]))
    return f"{len(names)} tensors ({listed}, ...)" if len(names) > 3 else listed or "none"
