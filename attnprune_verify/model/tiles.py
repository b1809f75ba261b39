"""Tiling of one evaluation: units of matrices and rows for the products, chunks of a unit for all steps between.

A unit is tall, so that its matrix products run at full speed; a chunk of it is small, so that its logits, f~ and c stay
in the fast cache from the first pass over them to the last. Both depend on the problem alone.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.mask import Causal, Full, Mask, RowBlock
from attnprune_verify.instance.validate import Array

_UNIT = 2**18  # numbers, from which on a unit holds one matrix only
_CHUNK = 2**18  # bytes
_SMALL = 2**16  # numbers: 512 KiB of float64, which may lie about unused
_TALLEST = 256  # rows of a unit: matrix products of so many run at full speed
_TALL = 128  # the fewest rows of a long masked matrix's unit: finer steps leave out more forbidden columns
_LOW, _LOWEST = 64, 32  # rows of a short masked matrix's unit; where four and more matrices share the cost of a call
_LEAST_ROWS = 16  # of a chunk: below, calling NumPy costs more than the passes


class Unit(NamedTuple):
    """Rows of some of the matrices; where its queries, and where its keys lie in (k*heads, n, m) arrays."""

    matrices: slice
    block: RowBlock
    shape: tuple[int, int, int]  # (matrices, rows, columns)
    queries: tuple[slice, slice]
    keys: tuple[slice, slice]

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


def _unit(matrices: slice, block: RowBlock) -> Unit:
    shape = (matrices.stop - matrices.start, *block.shape)
    return Unit(matrices, block, shape, (matrices, block.rows), (matrices, block.columns))


class Layout:
    """Tiling of `count` matrices of n rows; all rows of some matrices come before the next matrices.

    Attributes
    ----------
    units : sequence of Unit
    spare : list of Workspace
        Free buffers. A call takes a buffer and puts it back at its end, so that threads never share one.
    """

    def __init__(self, visible: Mask, count: int, n: int, dtype: np.dtype[np.floating], one_by_one: bool) -> None:
        self.units, self.dtype = _units(visible, count, n, one_by_one), dtype
        self.spare: list[Workspace] = []

    @property
    def is_small(self) -> bool:
        """True for buffers that are small enough to be kept between calls."""
        return len(self.units) * self.units[0].size < _SMALL


def layout_of(visible: Mask, count: int, n: int, dtype: np.dtype[np.floating], *, one_by_one: bool) -> Layout:
    """The layout of a problem, from a small store where it can be known by its sizes."""
    if isinstance(visible, Full | Causal):  # others may be large tables
        return _known_layout(visible, count, n, dtype, one_by_one)
    return Layout(visible, count, n, dtype, one_by_one)


@lru_cache(maxsize=64)
def _known_layout(visible: Mask, count: int, n: int, dtype: np.dtype[np.floating], one_by_one: bool) -> Layout:
    return Layout(visible, count, n, dtype, one_by_one)


def _units(visible: Mask, count: int, n: int, one_by_one: bool) -> Sequence[Unit]:
    # Tall enough for fast matrix products; masks gain from finer steps, and where many small matrices share the cost
    # of a call, from still finer ones.
    if isinstance(visible, Full):
        height = _TALLEST
    elif n < _TALLEST:
        height = _LOWEST if count >= 4 and not one_by_one else _LOW
    else:
        height = max(_TALL, min(_TALLEST, n // 16))
    blocks = list(visible.blocks(1, n, height))
    most = 1 if one_by_one else max(1, min(count, _UNIT // (min(height, n) * n)))
    groups = [slice(start, min(start + most, count)) for start in range(0, count, most)]
    return [_unit(group, block) for group in groups for block in blocks]


class Chunk(NamedTuple):
    """A part of a unit: views of the buffers that its passes go over, (matrices, rows, columns)."""

    at: tuple[slice, slice]  # within the unit
    place: RowBlock
    S: Array  # logits, then f~, then p
    c: Array
    flat: Array  # c as a vector
    ones: Array
    column: Array  # (matrices, rows, 1)
    sums: Array  # the same as (matrices, rows)
    dots: Array  # the same as (matrices, rows, 1, 1)
    tail: Array | None  # the columns of S that some row may not see
    allowed: Array | None  # 0 or 1 for each of them


class Tile(NamedTuple):
    """The buffer of a unit's logits, and its chunks."""

    S: Array
    chunks: Sequence[Chunk]


class Workspace:
    """The buffers of one thread: a tall one for a unit's logits, and small ones for the other arrays of a chunk.

    Parameters
    ----------
    units : sequence of Unit
    dtype : dtype
    """

    def __init__(self, units: Sequence[Unit], dtype: np.dtype[np.floating]) -> None:
        shapes = {(unit.shape[0], unit.block.rows.start): unit for unit in units}.values()
        self._dtype = dtype
        self._tall = max(unit.size for unit in shapes)
        self._small = max(size for unit in shapes for size in _chunk_sizes(unit, dtype))
        self._ones = np.ones(max(max(unit.shape[1:]) for unit in shapes), dtype)
        self._column = np.empty(max(unit.shape[0] * unit.shape[1] for unit in shapes), dtype)
        self._layers: list[tuple[Array, Array]] = []
        self._tiles: dict[tuple[int, int, int], Tile] = {}
        self._allowed: dict[tuple[tuple[int, ...], bytes], Array] = {}

    def tile(self, unit: Unit, layer: int = 0) -> Tile:
        """The views for a unit; units with the same rows of as many matrices share them."""
        key = (layer, unit.shape[0], unit.block.rows.start)
        tile = self._tiles.get(key)
        if tile is None:
            while len(self._layers) <= layer:
                self._layers.append((np.empty(self._tall, self._dtype), np.empty(self._small, self._dtype)))
            S = self._layers[layer][0][: unit.size].reshape(unit.shape)
            tile = self._tiles[key] = Tile(S, list(self._chunks(unit, S, self._layers[layer][1])))
        return tile

    def _chunks(self, unit: Unit, S: Array, small: Array) -> Iterator[Chunk]:
        block = unit.block
        for matrices, rows in _cuts(unit, self._dtype):
            part = S[matrices, rows]
            c = small[: part.size].reshape(part.shape)
            flat = self._column[: part.shape[0] * part.shape[1]]
            start = block.rows.start
            place = RowBlock(slice(start + rows.start, start + rows.stop), block.columns, None)
            tail = allowed = None
            if block.forbidden is not None:
                forbidden = block.forbidden[rows]
                place = place._replace(forbidden=forbidden)
                tail, allowed = part[..., -forbidden.shape[1] :], self._as_numbers(forbidden)
            column = flat.reshape(*part.shape[:2], 1)
            yield Chunk(
                at=(matrices, rows), place=place, S=part, c=c, flat=c.reshape(-1), ones=self._ones[: part.shape[2]],
                column=column, sums=column[..., 0], dots=column[..., np.newaxis], tail=tail, allowed=allowed,
            )  # fmt: skip

    def _as_numbers(self, forbidden: NDArray[np.bool_]) -> Array:
        """1 where it is allowed; chunks of the same pattern, as all of a causal mask's, share one array."""
        key = (forbidden.shape, forbidden.tobytes())
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = self._allowed[key] = (~forbidden).astype(self._dtype)
        return allowed


def _cuts(unit: Unit, dtype: np.dtype[np.floating]) -> Iterator[tuple[slice, slice]]:
    """Return the cuts of a unit: some matrices, if several fit into a chunk, else some rows of one."""
    count, rows, columns = unit.shape
    numbers = _CHUNK // dtype.itemsize
    if rows * columns <= numbers:
        most = max(1, numbers // (rows * columns))
        for start in range(0, count, most):
            yield slice(start, min(start + most, count)), slice(0, rows)
        return
    most = max(_LEAST_ROWS, numbers // columns)
    for matrix in range(count):
        for start in range(0, rows, most):
            yield slice(matrix, matrix + 1), slice(start, min(start + most, rows))


def _chunk_sizes(unit: Unit, dtype: np.dtype[np.floating]) -> Iterator[int]:
    for matrices, rows in _cuts(unit, dtype):
        yield (matrices.stop - matrices.start) * (rows.stop - rows.start) * unit.shape[2]
