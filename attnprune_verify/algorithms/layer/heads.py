"""A weight (d, heads*m) as one block per head (heads, d, m), and back."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.instance.validate import Array

_T = TypeVar("_T", bound=np.generic)


def split_heads(weight: NDArray[_T], heads: int) -> NDArray[_T]:
    """(d, heads*m) -> (heads, d, m); a copy."""
    d = weight.shape[0]
    return np.ascontiguousarray(weight.reshape(d, heads, -1).transpose(1, 0, 2))


def join_heads(blocks: NDArray[_T]) -> NDArray[_T]:
    """(heads, d, m) -> (d, heads*m)."""
    return np.ascontiguousarray(blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1))


def keep_largest(scores: Array, rho: float) -> NDArray[np.bool_]:
    """Return a mask, True = kept, with exactly ``floor(rho * size)`` False entries, the smallest scores, in each head.

    Examples
    --------
    >>> keep_largest(np.array([[[1.0, 3.0, 2.0]], [[5.0, 5.0, 5.0]]]), 0.5)
    array([[[False,  True,  True]],
    <BLANKLINE>
           [[False,  True,  True]]])
    """
    flat = scores.reshape(len(scores), -1)
    return np.asarray(~smallest(flat, pruned_count(rho, flat.shape[1]))).reshape(scores.shape)
