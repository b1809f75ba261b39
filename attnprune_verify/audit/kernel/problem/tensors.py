"""Named arrays as one safetensors file: eight bytes, a JSON header, the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.errors import InvalidInstance

_CODES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16", "bool": "BOOL", "int32": "I32"}
_STORED = {"F64": "<f8", "F32": "<f4", "BF16": "<u2", "F16": "<f2", "BOOL": "?", "I32": "<i4"}
_PREFIX, _ALIGNED = 8, 8  # bytes: the header's length, and what the format wants it to be a multiple of
_LARGEST_HEADER = 100_000_000  # bytes, as the format says
Stored = tuple[str, Foreign]


def of_dtype(values: Foreign, dtype: str) -> Stored:
    """Numbers that are exact in a dtype, as a file stores them.

    Examples
    --------
    >>> of_dtype(np.array([1.0, -2.0]), "bfloat16")[1].tolist()
    [16256, 49152]
    """
    code = _CODES[dtype]
    if code == "BF16":
        return code, (values.astype("<f4").view("<u4") >> 16).astype("<u2")
    return code, values.astype(_STORED[code])


def packed(tensors: Mapping[str, Stored]) -> bytes:
    """The content of a file with these arrays."""
    header, start = {}, 0
    for name, (code, array) in tensors.items():
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(_PREFIX, "little") + text + b"".join(array.tobytes() for _, array in tensors.values())


def unpacked(content: bytes, what: str) -> dict[str, Foreign]:
    """The arrays of a file, as float64 or bool.

    Raises
    ------
    InvalidInstance
        If the content, which messages call `what`, is no safetensors file of these types.
    """
    size = int.from_bytes(content[:_PREFIX], "little")
    numbers = memoryview(content)[_PREFIX + size :]
    try:
        if len(content) < _PREFIX + size or size > _LARGEST_HEADER:
            raise ValueError("its header is cut off")
        header = json.loads(content[_PREFIX : _PREFIX + size])
        return {name: _array(place, numbers) for name, place in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"{type(error).__name__}: {error}"[:120]
        raise InvalidInstance(f"{what} must be a safetensors file of {', '.join(_CODES)}; {said}") from None


def _array(place: Mapping[str, Foreign], numbers: memoryview) -> Foreign:
    kind, shape, (start, end) = np.dtype(_STORED[place["dtype"]]), tuple(place["shape"]), place["data_offsets"]
    counts = (*shape, start, end)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts) or end > len(numbers):
        raise ValueError("a tensor lies outside of it")
    if end - start != math.prod(shape) * kind.itemsize:
        raise ValueError("a tensor has another size than its shape")
    raw = np.frombuffer(numbers[start:end], kind).reshape(shape)
    if place["dtype"] == "BF16":
        raw = (raw.astype("<u4") << 16).view("<f4")
    return raw if place["dtype"] == "BOOL" else raw.astype(np.float64)
