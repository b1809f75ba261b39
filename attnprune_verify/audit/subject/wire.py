"""Messages between an audit and its subject's process: JSON with arrays beside it, never pickles.

A value in a header is null, a number, a string, a list, a mapping, or ``{"array": i}``. What goes to the subject is
`placed`: the arrays lie in memory that both processes see, each with the layout it was given with. What comes back is
`encoded`: a length, the header, the bytes of the arrays.

NumPy and the standard library alone; references to what a subject may replace are taken before it is imported.
"""

import json
import struct
from typing import Any

import numpy as np

_array_of, _frombuffer, _ndarray, _generic = np.asarray, np.frombuffer, np.ndarray, np.generic
_empty, _zeros = np.empty, np.zeros
_dumps, _loads, _pack, _unpack = json.dumps, json.loads, struct.pack, struct.unpack
_ALIGNED = 64  # bytes: a cache line, which is what vector instructions and other libraries like
Spans = list[tuple[int, int]]
"""Where each array lies: its first byte and how many they are."""


def encode(value: Any) -> bytes:
    """Return a message: length, JSON header, array bytes."""
    arrays: list[Any] = []
    tree = _strip(value, arrays)
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    header = _dumps({"tree": tree, "arrays": shapes}).encode()
    body = b"".join([_pack("<Q", len(header)), header, *(array.tobytes() for array in arrays)])
    return _pack("<Q", len(body)) + body


def decode(body: bytes) -> Any:
    """Return the value in a message without its leading length; every array is a fresh, writable copy."""
    (size,) = _unpack("<Q", body[:8])
    header = _loads(body[8 : 8 + size])
    position = 8 + size
    arrays = []
    for dtype, shape in header["arrays"]:
        end = position + _count(shape) * _width(dtype)
        arrays.append(_frombuffer(body[position:end], dtype=dtype).reshape(shape).copy())
        position = end
    return _fill(header["tree"], arrays)


def placed(value: Any) -> tuple[bytes, bytes, Spans]:
    """Return the header, the memory's content, and where each array lies in it."""
    arrays: list[Any] = []
    tree = _strip(value, arrays)
    shapes: list[Any] = []
    parts: list[bytes] = []
    spans: Spans = []
    position = 0
    for array in arrays:
        layout = _layout(array)
        data = _spaced(array).tobytes() if layout == "S" else array.tobytes(order=layout)
        shapes.append([array.dtype.str, list(array.shape), layout, position])
        spans.append((position, len(data)))
        parts += [data, bytes(-len(data) % _ALIGNED)]
        position += len(data) + len(parts[-1])
    return _dumps({"tree": tree, "arrays": shapes}).encode(), b"".join(parts), spans


def taken(header: bytes, memory: Any) -> Any:
    """Return the value whose arrays lie in `memory`: views, as writable as it is."""
    found = _loads(header)
    return _fill(found["tree"], [_view(memory, *one) for one in found["arrays"]])


def changed(spans: Spans, before: bytes, after: bytes) -> list[int]:
    """The arrays whose memory is another than before."""
    if before == after:
        return []
    return [index for index, (start, size) in enumerate(spans) if before[start:][:size] != after[start:][:size]]


def _view(memory: Any, dtype: str, shape: list[int], layout: str, position: int) -> Any:
    """C, F as in Fortran, or S: every other entry of a row twice as long."""
    count = _count(shape)
    _width(dtype)
    if not count:
        return _empty(shape, dtype)
    if layout == "S":
        wide = [*shape[:-1], 2 * shape[-1]]
        return _frombuffer(memory, dtype, 2 * count, position).reshape(wide)[..., ::2]
    flat = _frombuffer(memory, dtype, count, position)
    return flat.reshape(shape[::-1]).T if layout == "F" else flat.reshape(shape)


def _layout(array: Any) -> str:
    """C, F as in Fortran, or S for anything with gaps."""
    flags = array.flags
    return "C" if flags["C_CONTIGUOUS"] else ("F" if flags["F_CONTIGUOUS"] else "S")


def _spaced(array: Any) -> Any:
    wide = _zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide


def _count(shape: list[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _width(dtype: str) -> int:
    """Bytes of a number; no other type is taken."""
    if dtype[1] not in "biufc":
        raise ValueError(f"no number type: {dtype}")
    return int(dtype[2:])


def _strip(value: Any, arrays: list[Any]) -> Any:
    if isinstance(value, _generic):
        value = _array_of(value)
    if isinstance(value, _ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {str(key): _strip(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strip(item, arrays) for item in value]
    return value


def _fill(tree: Any, arrays: list[Any]) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {"array"}:
            return arrays[tree["array"]]
        return {key: _fill(item, arrays) for key, item in tree.items()}
    return [_fill(item, arrays) for item in tree] if isinstance(tree, list) else tree
