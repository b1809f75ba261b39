r"""Matrix products in wider floats, by products in float64.

    A = A_1 + A_2 + A_3,  B = B_1 + B_2 + B_3,  A B = sum_{i, j <= 2} A_i B_j  +  A_3 B + (A_1 + A_2) B_3

A_1 and A_2 hold the leading bits of each row below its largest number, B_1 and B_2 those of each column: so few that
every partial sum of A_i B_j is an integer of at most 53 bits times a power of two. In float64 these products are exact,
in whatever order they are added (Ozaki, Ogita, Oishi & Rump, Numer. Algorithms 59 (2012) 95). The rest, R in absolute
values, errs by at most (k + 4) 2^-53 R, where k terms are not 0: with R <= 2^-12 |A| |B|, which is checked for every
entry, by (k + 4) / 2 units of 2^-64 |A| |B|. The four additions of wider floats err by a unit each.
"""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array

__all__ = ["wide_product"]


@np.errstate(all="ignore")  # what overflows fails the check
def wide_product(left: Array, right: Array) -> Array:
    """Return the matrix product, off by at most k + 7 units of |A| |B|, where k terms are not 0.

    What float64 cannot hold loses a smallest normal number a term at most. Few terms, and wider floats, are added as
    they are.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.ones((2, 33), np.longdouble) / 3
    >>> bool(abs(wide_product(a, a.T) - 11 / np.longdouble(3)).max() < 1e-17)
    True
    """
    terms, wide = left.shape[-1], np.result_type(left, right)
    if wide == np.float64 or np.finfo(wide).nmant > 63 or terms < 32:
        return np.asarray(left @ right)
    bits = (53 - (terms - 1).bit_length()) // 2
    (a1, a2, a3), (b1, b2, b3) = _split(left, -1, bits), _split(right, -2, bits)
    a, b = np.abs(left.astype(float)), np.abs(right.astype(float))
    rest = np.abs(a3) @ b + a @ np.abs(b3)
    if not (rest <= 2.0**-12 * (a @ b)).all():
        return np.asarray(left @ right)
    exact = (x @ y for x in (a1, a2) for y in (b1, b2))
    return np.asarray(sum(exact, (a3 @ right.astype(float) + (a1 + a2) @ b3).astype(wide)))


def _split(array: Array, axis: int, bits: int) -> tuple[Array, Array, Array]:
    """The leading bits below the largest number along an axis, as many again, and what is left; in float64."""
    near = array.astype(float)
    largest = np.frexp(np.abs(near).max(axis=axis, keepdims=True))[1]
    first = _rounded(near, largest - bits)
    second = _rounded(near - first, largest - 2 * bits)
    return first, second, near - first - second + (array - near).astype(float)


def _rounded(array: Array, last: Array) -> Array:
    """Round to multiples of 2^last, by an addition of 3 2^(51 + last) that has no smaller bits."""
    large = np.ldexp(3.0, 51 + last)
    return np.asarray(array + large - large)
