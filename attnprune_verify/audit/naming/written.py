"""Arrays that a line of code can write: filled by a formula in the indices, so that a part of one is one, too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEW", "by_formula", "formula_of"]

FEW = 8
"""Numbers that are written one by one, and compared one beside the other."""
_STEPS = ((31, 17, 43), (13, 41, 23), (53, 29, 11), (19, 37, 59), (47, 7, 61))
"""Chosen: primes below 97, other ones for each array, so that no two arrays are alike."""
_LETTERS = "ijk"


def by_formula(shape: tuple[int, ...], place: int, positive: bool = False) -> NDArray[np.float64]:
    """Return sixteenths between -3 and 3, or above 0 and up to 1, that only the indices and `place` decide.

    Examples
    --------
    >>> by_formula((2, 2), 0)
    array([[-3.    , -1.9375],
           [-1.0625,  0.    ]])
    """
    steps = _STEPS[place % len(_STEPS)]
    total = np.tensordot(steps[: len(shape)], np.indices(shape), 1)
    return np.asarray((total % 15 + 1) / 16 if positive else (total % 97 - 48) / 16)


def formula_of(array: NDArray[Any]) -> str | None:
    """Return the code of a large array that a line can write, or None.

    Examples
    --------
    >>> formula_of(np.tri(5)), formula_of(np.ones((3, 4)))
    ('np.tri(5)', 'np.ones((3, 4))')
    >>> formula_of(by_formula((3, 4), 1))
    'np.fromfunction(lambda i, j: ((13 * i + 41 * j) % 97 - 48) / 16, (3, 4))'
    """
    if array.size <= FEW or array.ndim > len(_LETTERS) or array.dtype.kind != "f":
        return None
    if not array.any() or (array == 1).all():
        return f"np.{'ones' if array.any() else 'zeros'}({array.shape})"
    if array.ndim == 2 and array.shape[0] == array.shape[1] and np.array_equal(array, np.tri(len(array))):
        return f"np.tri({len(array)})"
    for place, steps in enumerate(_STEPS):
        for positive in (False, True):
            if np.array_equal(array, by_formula(array.shape, place, positive)):
                letters = _LETTERS[: array.ndim]
                summed = " + ".join(f"{step} * {letter}" for step, letter in zip(steps, letters, strict=False))
                value = f"(({summed}) % 15 + 1) / 16" if positive else f"(({summed}) % 97 - 48) / 16"
                return f"np.fromfunction(lambda {', '.join(letters)}: {value}, {array.shape})"
    return None
