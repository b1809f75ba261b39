r"""Matrix products in wider floats, by products in float64.

    A = A_1 + ... + A_r + A',  B = B_1 + ... + B_r + B',  A B = sum_{i, j <= r} A_i B_j  +  A' B + (A - A') B'

A_1 holds the leading bits of each row below its largest number, B_1 those of each column, A_2 and B_2 as many again:
so few that every partial sum of A_i B_j is an integer of at most 53 bits times a power of two. In float64 these
products are exact, in whatever order they are added (Ozaki, Ogita, Oishi & Rump, Numer. Algorithms 59 (2012) 95). The
rest, R in absolute values, errs by at most (k + 4) 2^-53 R, where k terms are not 0: with R <= 2^-12 |A| |B|, which is
checked for every entry of a bound of R, by (k + 4) / 2 units of 2^-64 |A| |B|; r is 1, or 2 where that is too few. The
additions of wider floats, at most four, err by a unit each.
"""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array


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
    a, b = left.astype(float), right.astype(float)
    size = np.abs(a) @ np.abs(b)
    for parts in (1, 2):
        (*of_a, rest_a), (*of_b, rest_b) = _split(left, a, -1, bits, parts), _split(right, b, -2, bits, parts)
        leading = sum(of_a[1:], of_a[0])
        most = np.abs(rest_a).max(axis=-1, keepdims=True) * np.abs(b).sum(axis=-2, keepdims=True)
        most += np.abs(leading).sum(axis=-1, keepdims=True) * np.abs(rest_b).max(axis=-2, keepdims=True)
        if (most <= 2.0**-12 * size).all():
            exact = (x @ y for x in of_a for y in of_b)
            return np.asarray(sum(exact, (rest_a @ b + leading @ rest_b).astype(wide)))
    return np.asarray(left @ right)


def _split(array: Array, near: Array, axis: int, bits: int, parts: int) -> list[Array]:
    """The leading bits below the largest number along an axis, for more parts as many again, and what is left."""
    largest = np.frexp(np.abs(near).max(axis=axis, keepdims=True))[1]
    found, rest = [], near
    for part in range(1, parts + 1):
        found.append(_rounded(rest, largest - part * bits))
        rest = rest - found[-1]
    return [*found, rest + (array - near).astype(float)]


def _rounded(array: Array, last: Array) -> Array:
    """Round to multiples of 2^last, by an addition of 3 2^(51 + last) that has no smaller bits."""
    large = np.ldexp(3.0, 51 + last)
    return np.asarray(array + large - large)
