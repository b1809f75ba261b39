"""Smaller instances of a failure: the loop, sizes and digits to try, and arrays that a line of code can write.

What smaller instances there are is up to the instance: `Sample.cuts`, `LinearLayer.cuts`, `Selection.cuts`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

SMALLEST = "the smallest found"
DIGITS = (0, 1, 2)  # chosen: as few as a reader compares by eye
FEW = 8  # chosen: numbers that fit beside each other on a line, and are compared one by one
_CALLS = 80  # chosen: of the subject, for one failure
_SECONDS = 3.0  # chosen: for one failure; a report has a few
_STEPS = ((31, 17, 43), (13, 41, 23), (53, 29, 11), (19, 37, 59), (47, 7, 61))
"""Chosen: primes below 97, other ones for each array, so that no two arrays are alike."""
_LETTERS = "ijk"

Case = TypeVar("Case")


def smallest(
    start: Case,
    cuts: Callable[[Case], Iterator[Case]],
    fails: Callable[[Case], bool],
    *,
    calls: int = _CALLS,
    seconds: float = _SECONDS,
) -> Case:
    """Shrink to the first smaller case that still fails, again and again, until none does or the budget is spent.

    Examples
    --------
    >>> smallest(40, lambda n: iter((n // 2, n - 1)), lambda n: n > 6)
    7
    """
    best, end = start, time.monotonic() + seconds
    shrinking = True
    while shrinking:
        shrinking = False
        for smaller in cuts(best):
            if calls <= 0 or time.monotonic() > end:
                return best
            calls -= 1
            if fails(smaller):
                best, shrinking = smaller, True
                break
    return best


def fewer(size: int) -> Iterator[int]:
    """Sizes to try in the place of one, the boldest first."""
    yield from (new for new in dict.fromkeys((1, 2, size // 2, size - 1)) if 0 < new < size)


def rounded(array: NDArray[Any], digits: int) -> NDArray[Any]:
    """Round to a number of digits, without the sign of zero."""
    return np.asarray(np.round(array, digits) + array.dtype.type(0))


def shorter(given: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:
    """Arrays that take fewer characters to write: all of them rounded, then one by one."""
    one_by_one = [(name,) for name in given] if len(given) > 1 else []
    for names, most in [(tuple(given), DIGITS), *((names, DIGITS[:2]) for names in one_by_one)]:
        for digits in most:
            short = {name: rounded(given[name], digits) for name in names}
            if _characters(short) < _characters({name: given[name] for name in names}):
                yield short


def _characters(arrays: Mapping[str, NDArray[Any]]) -> int:
    return sum(len(f"{number:.17g}") for array in arrays.values() for number in np.ravel(array))


def doubtless(rho: float, size: int) -> bool:
    """Return True where the product of the floats, of their exact values and of the decimals have one floor."""
    return len({int(rho * size), int(Fraction(rho) * size), int(Fraction(str(rho)) * size)}) == 1


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
