"""The only place where raw arguments become trusted arrays.

Every rule is stated in its message, followed by the values that broke it.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.memory import require_memory

Array: TypeAlias = NDArray[np.floating[Any]]

_LARGEST_EXACT_INTEGER = 2**53  # up to here every integer is a float64


def as_real(name: str, value: object) -> Array:
    """Turn `value` into a non-empty, finite float32 or float64 array.

    float32 stays float32; every other real dtype becomes float64. The input is never modified
    (and is returned itself when nothing had to be converted).

    Raises
    ------
    InvalidInstance
        If `value` is not a rectangular array of finite real numbers that float64 can hold.
    """
    if np.ma.isMaskedArray(value):
        raise InvalidInstance(f"{name} must be a plain array; got a masked array, whose hidden entries have no meaning")
    try:
        array = np.asarray(value)
    except Exception as error:  # ragged lists, tensors that refuse conversion, huge integers
        raise InvalidInstance(f"{name} must be a rectangular array of real numbers; got {_brief(error)}") from error
    if array.dtype.kind not in "biuf":
        unknown = array.dtype == object and array.ndim == 0  # NumPy makes this of None, of a dict, of a sparse matrix
        got = type(value).__name__ if unknown else f"dtype {array.dtype}"
        raise InvalidInstance(f"{name} must hold real numbers; got {got}")
    if array.size == 0:
        raise InvalidInstance(f"{name} must not be empty; got shape {array.shape}")
    if array.dtype.kind in "iu" and (
        int(array.max()) > _LARGEST_EXACT_INTEGER or int(array.min()) < -_LARGEST_EXACT_INTEGER
    ):
        raise InvalidInstance(
            f"integers in {name} must lie within +-2**53 to be exact in float64; "
            f"got values from {array.min()} to {array.max()}"
        )
    if not all_finite(array):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInstance(f"{name} must be finite; got {array[where]} at index {where}")
    if array.dtype not in (np.float32, np.float64):
        require_memory(f"{name} as float64", 8 * array.size)
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
        if not np.isfinite(array).all():  # a longdouble beyond float64
            raise InvalidInstance(f"{name} must fit into float64; got magnitudes above {np.finfo(np.float64).max:.2e}")
    return array


def all_finite(array: Array) -> bool:
    """Return True where no entry is infinite or NaN.

    A finite sum of squares proves it in one pass, without an array of flags; if the squares overflow, every entry is
    tested.
    """
    if array.dtype.kind == "f" and array.flags.c_contiguous and math.isfinite(np.vdot(array, array)):
        return True
    return bool(np.isfinite(array).all())


def as_reals(**named: object) -> list[Array]:
    """Apply `as_real` to each argument and bring all to one dtype: float32 only if every array is float32."""
    arrays = [as_real(name, value) for name, value in named.items()]
    if all(array.dtype == np.float32 for array in arrays):
        return arrays
    for name, array in zip(named, arrays, strict=True):
        if array.dtype != np.float64:
            require_memory(f"{name} as float64, as the others are", 8 * array.size)
    return [array.astype(np.float64, copy=False) for array in arrays]


def check_shapes(forms: Mapping[str, tuple[str, ...]], arrays: Mapping[str, Array]) -> dict[str, int]:
    """Check every array against its symbolic shape and return the sizes; all problems are reported at once.

    `forms` maps a name to letters, e.g. ``{"X": ("n", "d"), "W": ("d", "d")}``; the first array that carries a
    letter fixes its size. An X of three dimensions is read as a batch (k, n, d).

    Raises
    ------
    InvalidInstance
        If any array has another number of dimensions or sizes that contradict each other.
    """
    sizes: dict[str, int] = {}
    owner: dict[str, str] = {}
    problems: list[str] = []
    for name, array in arrays.items():
        letters = forms[name]
        if name == "X" and array.ndim == 3:
            letters = ("k", *letters)
        if array.ndim != len(letters):
            problems.append(f"{name} has {array.ndim} dimensions")
            continue
        for letter, size in zip(letters, array.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                problems.append(f"{name} has {letter} = {size} where {owner[letter]} has {letter} = {sizes[letter]}")
            owner.setdefault(letter, name)
    if problems:
        rule = ", ".join(
            f"{name} ({', '.join(forms[name])})" + (" or (k, n, d)" if name == "X" else "") for name in arrays
        )
        got = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidInstance(f"shapes must be {rule}; got {got}: {'; '.join(dict.fromkeys(problems))}")
    return sizes


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120]
