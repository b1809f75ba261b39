"""Attention masks as a type that composes: the pairs of positions that are allowed (def:mask and its relatives).

A mask decides whether token i may attend to token j (`allows`), and bounds the columns that some neighbouring rows need
(`span`), so that the model can skip forbidden columns. Masks of any length n compose with ``&``::

    Causal() & Window(4)      token i attends to tokens i-3 .. i

A new pattern of attention is one more class with these two methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.frozen import Frozen
from attnprune_verify.instance.validate import Array, as_real
from attnprune_verify.values import as_count

Flags: TypeAlias = NDArray[np.bool_]

_TALLEST = 256  # rows of a block: matrix products of so many run at full speed
_FINEST, _FINEST_OF_SEVERAL = 64, 32  # rows of a block of one matrix, of several that share the cost of a call
_BLOCK = 2**20  # numbers of a block: 8 MiB of float64, about the last-level cache of one core


class Span(NamedTuple):
    """Columns that some rows may see: first .. last - 1; of these, all rows see the columns before `ragged`."""

    first: int
    ragged: int
    last: int


class RowBlock(NamedTuple):
    """Some rows of the attention matrix, and the columns any of them may attend to."""

    rows: slice
    columns: slice
    forbidden: Flags | None  # over the last columns of the block; None when all are allowed

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the block."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def fill_forbidden(self, block: Array, value: float) -> None:
        """Write `value` where the mask forbids, in a (..., rows, columns) block."""
        if self.forbidden is not None:
            np.copyto(block[..., -self.forbidden.shape[-1] :], value, where=self.forbidden)


class Mask(ABC):
    """An attention mask: the pairs (query i, key j) that are allowed."""

    @abstractmethod
    def allows(self, i: NDArray[np.int_], j: NDArray[np.int_]) -> Flags:
        """Return True where query i may attend to key j, for arrays of indices that broadcast."""

    @abstractmethod
    def span(self, start: int, stop: int, n: int) -> Span:
        """Return the columns that rows start .. stop - 1 may see in a sequence of n."""

    @property
    def stated(self) -> Any:
        """The mask as the public functions take it: None, "causal", an array, or this object where no word names it."""
        return self

    @property
    def kind(self) -> Literal["causal", "given"] | None:
        """Kind of the mask: None (every position), "causal", or "given"."""
        return "given"

    def allowed(self, n: int) -> Flags:
        """The mask of a sequence of n as an (n, n) boolean array."""
        i = np.arange(n)
        return np.array(np.broadcast_to(self.allows(i[:, np.newaxis], i), (n, n)))

    def blocks(self, k: int, n: int, height: int | None = None) -> Iterator[RowBlock]:
        """Cut the rows of k attention matrices into blocks of some height; by default their logits stay in cache.

        Columns that no row of a block may see are left out. Besides speed this bounds memory: nothing of size n x n is
        ever built for large n.
        """
        # Tall enough for fast matrix products, short enough for the cache; masks gain from finer steps, a batch shares.
        if height is None:
            finest = _FINEST if k == 1 else _FINEST_OF_SEVERAL
            tallest = _TALLEST if isinstance(self, Full) else max(finest, min(_TALLEST, n // 16))
            height = max(finest, min(tallest, _BLOCK // (k * n)))
        for start in range(0, n, height):
            stop = min(start + height, n)
            yield RowBlock(slice(start, stop), *self._seen(start, stop, n))

    def _seen(self, start: int, stop: int, n: int) -> tuple[slice, Flags | None]:
        first, ragged, last = self.span(start, stop, n)
        if ragged == last:
            return slice(first, last), None
        forbidden = ~self.allows(np.arange(start, stop)[:, np.newaxis], np.arange(ragged, last))
        return slice(first, last), forbidden if forbidden.any() else None

    def fits(self, n: int) -> None:
        """Raise `InvalidInstance` where this mask does not belong to sequences of n."""
        return None

    def __and__(self, other: Mask) -> Mask:
        """Return the mask of the positions that both allow."""
        if isinstance(other, Full) or self == other:
            return self
        return other if isinstance(self, Full) else Both(self, other)


@dataclass(frozen=True)
class Full(Mask):
    """Every position may attend to every position."""

    stated = None
    kind = None

    def allows(self, i: NDArray[np.int_], j: NDArray[np.int_]) -> Flags:
        return np.ones(np.broadcast_shapes(i.shape, j.shape), dtype=np.bool_)

    def span(self, start: int, stop: int, n: int) -> Span:
        return Span(0, n, n)


@dataclass(frozen=True)
class Causal(Mask):
    """Token i attends to itself and to the tokens before it: i >= j (def:mask)."""

    stated = "causal"
    kind = "causal"

    def allows(self, i: NDArray[np.int_], j: NDArray[np.int_]) -> Flags:
        return np.asarray(j <= i)

    def span(self, start: int, stop: int, n: int) -> Span:
        return Span(0, start + 1, stop)


@dataclass(frozen=True)
class Window(Mask):
    """Token i attends to tokens less than `width` away: |i - j| < width; with `Causal`, i - j < width.

    Parameters
    ----------
    width : int
        At least 1.
    """

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_count("window", self.width, least=1))

    def allows(self, i: NDArray[np.int_], j: NDArray[np.int_]) -> Flags:
        return np.asarray(np.abs(i - j) < self.width)

    def span(self, start: int, stop: int, n: int) -> Span:
        first = max(0, start - self.width + 1)
        return Span(first, first, min(n, stop + self.width - 1))


class Given(Frozen, Mask):
    """Mask given as an (n, n) array of 0 and 1; it fixes n.

    Parameters
    ----------
    table : (n, n) array of 0 and 1
        At least one 1 in every row.
    n : int, optional
        The size it must have.
    """

    table: Flags

    def __init__(self, table: ArrayLike, n: int | None = None) -> None:
        array = as_real("mask", table)
        if n is not None and array.shape != (n, n):
            raise InvalidInstance(f"mask must have shape (n, n) = ({n}, {n}); got {array.shape}")
        if array.ndim != 2 or array.shape[0] != array.shape[1]:
            raise InvalidInstance(f'mask must be None, "causal" or an (n, n) array; got shape {array.shape}')
        allowed: Flags = array == 1
        if not (allowed | (array == 0)).all():
            odd = array[~(allowed | (array == 0))].flat[0]
            raise InvalidInstance(f"mask must hold only 0 and 1; got {odd}")
        _no_row_empty(allowed)
        self._keep(table=allowed)

    @property
    def stated(self) -> Flags:
        return self.table

    def allows(self, i: NDArray[np.int_], j: NDArray[np.int_]) -> Flags:
        return np.asarray(self.table[i, j])

    def span(self, start: int, stop: int, n: int) -> Span:
        seen = np.flatnonzero(self.table[start:stop].any(axis=0))
        return Span(int(seen[0]), int(seen[0]), int(seen[-1]) + 1)

    def fits(self, n: int) -> None:
        if self.table.shape != (n, n):
            raise InvalidInstance(f"mask must have shape (n, n) = ({n}, {n}); got {self.table.shape}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.table.shape, self.table.tobytes()))

    def __repr__(self) -> str:
        return f"Given({len(self.table)} x {len(self.table)})"


@dataclass(frozen=True)
class Both(Mask):
    """Intersection of two masks."""

    one: Mask
    other: Mask

    def allows(self, i: NDArray[np.int_], j: NDArray[np.int_]) -> Flags:
        return self.one.allows(i, j) & self.other.allows(i, j)

    def span(self, start: int, stop: int, n: int) -> Span:
        one, other = self.one.span(start, stop, n), self.other.span(start, stop, n)
        first, last = max(one.first, other.first), min(one.last, other.last)
        return Span(first, max(first, min(one.ragged, other.ragged, last)), last)

    def fits(self, n: int) -> None:
        self.one.fits(n)
        self.other.fits(n)
        _no_row_empty(self.allowed(n))


def as_mask(mask: MaskLike, n: int | None = None) -> Mask:
    """The one door for masks: None, "causal", an (n, n) array of 0 and 1, or a `Mask`, checked against n if given.

    Raises
    ------
    InvalidInstance
        If `mask` is something else, has another size, or a row of it allows nothing.
    """
    if mask is None:
        return Full()
    if isinstance(mask, str):
        if mask == "causal":
            return Causal()
        raise InvalidInstance(f'mask must be None, "causal" or an (n, n) array of 0 and 1; got {mask!r}')
    if not isinstance(mask, Mask):
        return Given(mask, n)
    if n is not None:
        mask.fits(n)
    return mask


MaskLike: TypeAlias = ArrayLike | Literal["causal"] | Mask | None


def _no_row_empty(allowed: Flags) -> None:
    empty = np.flatnonzero(~allowed.any(axis=1))
    if empty.size:
        raise InvalidInstance(
            f"every row of mask must allow at least one position; {empty.size} of {len(allowed)} rows allow none, "
            f"first row {empty[0]}"
        )
