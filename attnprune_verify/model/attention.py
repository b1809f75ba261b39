"""F: the row-wise softmax of the logits over the allowed positions (def:attn_matrix, def:soft_prob_func)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, Mask, MaskLike, as_mask, as_reals, check_shapes

__all__ = ["RowBlock", "attention", "causal_mask", "row_blocks", "softmax_block"]


def causal_mask(n: SupportsIndex) -> NDArray[np.float64]:
    """The causal attention mask: 1 where i >= j, else 0 (def:mask).

    Parameters
    ----------
    n : int
        Number of tokens, >= 1.

    Returns
    -------
    (n, n) array

    Raises
    ------
    InvalidInstance
        If n is not an integer >= 1.

    Examples
    --------
    >>> causal_mask(3)
    array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]])
    """
    try:
        size = operator.index(n)
    except TypeError as error:
        raise InvalidInstance(f"n must be an integer >= 1; got {n!r}") from error
    if size < 1:
        raise InvalidInstance(f"n must be an integer >= 1; got {size}")
    return np.tri(size)


def attention(X: ArrayLike, W: ArrayLike, mask: MaskLike = None) -> Array:
    """Softmax attention of the fused weight (def:attn_matrix; with a mask, def:attn_prun_causal).

    ::

        F[i, j] = exp(A[i, j]) / sum_k exp(A[i, k]),   A = X W X^T,   j and k over the allowed positions

    There is no 1/sqrt(d): the paper's definition has none. The row maximum is subtracted first, which leaves F
    unchanged and keeps exp from overflowing.

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    mask : None, "causal" or (n, n) array of 0 and 1

    Returns
    -------
    (n, n) or (k, n, n) array
        Rows sum to 1; entries are 0 where the mask forbids.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> attention(np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]]))
    array([[0.33333333, 0.66666667],
           [0.66666667, 0.33333333]])
    """
    X, W = as_reals(X=X, W=W)
    sizes = check_shapes({"X": ("n", "d"), "W": ("d", "d")}, {"X": X, "W": W})
    checked = as_mask(mask, sizes["n"])
    samples = X if X.ndim == 3 else X[np.newaxis]
    queries = product(samples, W)
    F = np.zeros((*samples.shape[:2], sizes["n"]), dtype=X.dtype)
    shift = shift_is_needed(queries, samples)
    for block in row_blocks(len(samples), sizes["n"], checked):
        F[:, block.rows, block.columns] = softmax_block(queries, samples, block, shift)
    return F if X.ndim == 3 else F[0]


class RowBlock(NamedTuple):
    """Some rows of the attention matrix, and the columns any of them may attend to."""

    rows: slice
    columns: slice
    forbidden: NDArray[np.bool_] | None  # over the last columns of the block; None when all are allowed

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the block."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def fill_forbidden(self, block: Array, value: float) -> None:
        """Write `value` where the mask forbids, in a (..., rows, columns) block."""
        if self.forbidden is not None:
            np.copyto(block[..., -self.forbidden.shape[-1] :], value, where=self.forbidden)


def row_blocks(k: int, n: int, mask: Mask) -> Iterator[RowBlock]:
    """Cut the rows into blocks whose logits stay in cache; columns no row of a block may see are left out.

    Besides speed this bounds memory: nothing of size n x n is ever built for large n.
    """
    # Tall enough for fast matrix products, short enough for the cache; a mask gains from finer steps, a batch shares.
    finest = 64 if k == 1 else 32
    tallest = 256 if mask is None else max(finest, min(256, n // 16))
    height = max(finest, min(tallest, 2**20 // (k * n)))
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        if mask is None:
            yield RowBlock(rows, slice(0, n), None)
        elif isinstance(mask, str):
            size = rows.stop - start
            yield RowBlock(rows, slice(0, rows.stop), ~np.tri(size, dtype=np.bool_) if size > 1 else None)
        else:
            seen = np.flatnonzero(mask[rows].any(axis=0))
            columns = slice(int(seen[0]), int(seen[-1]) + 1)
            forbidden = ~mask[rows, columns]
            yield RowBlock(rows, columns, forbidden if forbidden.any() else None)


def product(*factors: Array) -> Array:
    """Matrix product; overflow is left to be found, with its cause, in the logits."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result = factors[0]
        for factor in factors[1:]:
            result = result @ factor
    return result


def shift_is_needed(queries: Array, keys: Array) -> bool:
    """Whether exp of an unshifted logit might overflow or vanish, by |q . k| <= |q| |k|.

    For moderate logits this saves two of the passes over every block and changes nothing else.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (np.einsum("...d,...d->...", features, features).max() for features in (queries, keys))
        largest = math.sqrt(math.prod(squares))
    return not largest < (300.0 if queries.dtype == np.float64 else 40.0)  # a NaN needs the careful way, too


def softmax_block(queries: Array, keys: Array, block: RowBlock, shift: bool = True, out: Array | None = None) -> Array:
    """Rows of F for logits ``queries @ keys^T``; (k, rows, columns)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # far below its row's maximum, exp is truly 0
        F: Array = np.matmul(queries[..., block.rows, :], keys[..., block.columns, :].swapaxes(-1, -2), out=out)
        if shift:
            block.fill_forbidden(F, -np.inf)
            highest = F.max(axis=-1, keepdims=True)
            if not np.isfinite(highest).all():
                raise InvalidInstance(f"logits must be finite in {F.dtype}; the largest is {highest.max()}")
            F -= highest
        np.exp(F, out=F)
        block.fill_forbidden(F, 0.0)
        F /= F.sum(axis=-1, keepdims=True)
    return F
