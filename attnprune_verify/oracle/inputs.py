"""Arguments of the oracles: shapes checked, batches and attention masks brought to one form. No mathematics here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike, as_mask, check_shapes

__all__ = ["Exact", "Floats", "exact", "floats"]

_FEATURES = ("d", "d")
_FACTOR = ("d", "m")
_FORMS = {
    "X": ("n", "d"),
    **dict.fromkeys(("W", "M", "V", "D", "gradient"), _FEATURES),
    **dict.fromkeys(("W_Q", "W_K", "M_Q", "M_K"), _FACTOR),
}


class Floats(NamedTuple):
    """The named arrays in float64, the samples (k, n, d) and the allowed positions (n, n)."""

    arrays: list[NDArray[np.float64]]
    samples: NDArray[np.float64]
    allowed: NDArray[np.bool_]


class Exact(NamedTuple):
    """The named arrays as they were given (floats, integers or fractions), the samples and the allowed positions."""

    arrays: list[NDArray[Any]]
    samples: NDArray[Any]
    allowed: NDArray[np.bool_]


def exact(X: ArrayLike, mask: MaskLike, **named: ArrayLike) -> Exact:
    """Check shapes without converting any number.

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.
    """
    arrays = {"X": np.asarray(X), **{name: np.asarray(value) for name, value in named.items()}}
    sizes = check_shapes(_FORMS, arrays)
    checked = as_mask(mask, sizes["n"])
    if checked is None:
        allowed = np.ones((sizes["n"], sizes["n"]), dtype=np.bool_)
    elif isinstance(checked, str):
        allowed = np.tri(sizes["n"], dtype=np.bool_)
    else:
        allowed = checked
    tokens = arrays.pop("X")
    return Exact(list(arrays.values()), tokens if tokens.ndim == 3 else tokens[np.newaxis], allowed)


def floats(X: ArrayLike, mask: MaskLike, **named: ArrayLike) -> Floats:
    """Check shapes and convert every array to float64 (exact for float32 and float64 arguments)."""
    arrays, samples, allowed = exact(X, mask, **named)
    return Floats([array.astype(np.float64) for array in arrays], samples.astype(np.float64), allowed)
