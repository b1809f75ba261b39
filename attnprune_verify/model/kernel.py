"""The passes over one unit of rows: logits, f~, c, p and the sums for the loss, its derivatives and the errors.

Everything is written over buffers of a `Workspace`; the steps are those of `attnprune_verify.model.plain`, and only
their order in memory differs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.scores import Bend, ScoreModifier, modify
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.softmax import largest_norm, shift_is_needed
from attnprune_verify.model.tiles import Chunk, Tile, Unit

_LONG_SUM = 2**19  # terms: the relative rounding error of so long a float32 sum stays below 2^19 2^-24 = 1/32
_FINISHED_AT_ONCE = 2**15  # numbers: 256 KiB of float64, which stay in the second-level cache between three passes

_vecdot = getattr(np, "vecdot", None)  # since NumPy 2.0; the same bits as the product of matrices, faster to call


class Logits(NamedTuple):
    """Queries and keys, (k*heads, n, m), and whether every row has to be shifted by its maximum."""

    queries: Array
    keys: Array
    shift: bool

    def of(self, unit: Unit) -> tuple[Array, Array]:
        """The unit's queries and keys."""
        return self.queries[unit.queries], self.keys[unit.keys]

    def fill(self, unit: Unit, tile: Tile) -> tuple[Array, Array]:
        """Write the unit's logits Q K^T into the tile; the unit's queries and keys."""
        q, k = self.of(unit)
        np.matmul(q, k.swapaxes(-1, -2), out=tile.S)
        return q, k


def norm_within(features: Array, limit: float) -> float:
    """A number that is not below any token's norm: |features|_F if that is within the limit, else the largest norm.

    |v_i| <= |V|_F, and the latter is one product of vectors. Its relative rounding error is below N u/2 (one dot
    product of N terms in any order), so the short way is left to arrays where that is below 1/32.
    """
    if (features.size < _LONG_SUM or features.dtype == np.float64) and features.flags.c_contiguous:
        whole = math.sqrt(np.vdot(features, features))
        if whole <= limit:
            return whole
    return largest_norm(features)


def logits_of(queries: Array, keys: Array, key_norm: float | None, modifiers: Sequence[ScoreModifier]) -> Logits:
    """Return queries and keys, and whether their norms require the shift before exp (`shift_is_needed`)."""
    if key_norm is None:
        key_norm = largest_norm(keys)
    limit = 40.0 if queries.dtype == np.float32 else 300.0
    norm = norm_within(queries, limit / key_norm if key_norm > 0 else math.inf)
    return Logits(queries, keys, shift_is_needed(norm, key_norm, queries.dtype, modifiers))


def softmax_chunk(chunk: Chunk, shift: bool, modifiers: Sequence[ScoreModifier]) -> Bend | None:
    """Turn a chunk's logits into f~ in place."""
    S, bend = chunk.S, None
    if modifiers:
        if shift and not np.isfinite(S).all():  # a cap would hide it
            raise InvalidInstance(f"logits must be finite in {S.dtype}; got {S[~np.isfinite(S)][0]}")
        bend = modify(modifiers, S, chunk.place)
    if shift:
        chunk.place.fill_forbidden(S, -np.inf)
        highest = S.max(axis=-1, keepdims=True)
        if not np.isfinite(highest).all():
            raise InvalidInstance(f"logits must be finite in {S.dtype}; the largest is {highest.max()}")
        np.subtract(S, highest, out=S)
    np.exp(S, out=S)
    if chunk.tail is not None and chunk.allowed is not None and not shift:
        np.multiply(chunk.tail, chunk.allowed, out=chunk.tail)
    np.matmul(S, chunk.ones, out=chunk.sums)
    np.divide(S, chunk.column, out=S)  # not times the reciprocal: a row with one position is exactly 1
    return bend


def subtract_dense(chunk: Chunk, f: Array) -> float:
    """c = f~ - f into the chunk's c; its sum of squares."""
    np.subtract(chunk.S, f, out=chunk.c)
    return float(np.dot(chunk.flat, chunk.flat))


def _inner(a: Array, b: Array, chunk: Chunk) -> Array:
    """The inner products of rows, as a column."""
    if _vecdot is not None:
        _vecdot(a, b, out=chunk.sums)
    else:
        np.matmul(a[..., np.newaxis, :], b[..., np.newaxis], out=chunk.dots)
    return chunk.column


def centre(chunk: Chunk) -> None:
    """Write c - <c, f~> over c, row by row: the factor of f~ in p = f~ * (c - <c, f~>) (def:p)."""
    np.subtract(chunk.c, _inner(chunk.c, chunk.S, chunk), out=chunk.c)


def move_p(chunk: Chunk, bend: Bend | None) -> None:
    """p over f~, times u' where scores are modified."""
    centre(chunk)
    np.multiply(chunk.c, chunk.S, out=chunk.S)
    if bend is not None:
        np.multiply(chunk.S, bend.slope, out=chunk.S)


def dp_chunk(F: Array, b: Array, bend: Bend | None, moved: Chunk, p: Array | None) -> None:
    """Write dp over the logits' derivative ds of the chunk `moved`, and p into `p` if it is given.

    With b = c - <c, f~>, so that p = f~ * b, and df~ = f~ * (ds - <f~, ds>)::

        dp = df~ * (f~ + b) - <f~ + b, df~> f~

    which is dc * f~ + c * df~ - (<dc, f~> + <c, df~>) f~ - <c, f~> df~ for dc = df~, because df~ sums to 0 over a row.
    """
    ds, both = moved.S, moved.c
    straight = ds.copy() if bend is not None else ds
    if bend is not None:
        np.multiply(ds, bend.slope, out=ds)
    np.add(F, b, out=both)
    np.subtract(ds, _inner(F, ds, moved), out=ds)
    np.multiply(ds, F, out=ds)  # now df~
    weight = _inner(both, ds, moved)
    np.multiply(ds, both, out=ds)
    np.multiply(F, weight, out=both)
    np.subtract(ds, both, out=ds)
    if p is not None:
        np.multiply(F, b, out=p)  # p may be f~ itself, which has served
    if bend is not None and p is not None:
        ds *= bend.slope
        ds += p * straight * bend.curve
        p *= bend.slope


def finish(slope: Array, W: Array, M: Array, lam: float, k: int) -> bool:
    """W * slope / k + lam M over `slope`, some rows at a time; whether all of it is finite."""
    rows = max(1, _FINISHED_AT_ONCE // slope.shape[1])
    if len(slope) <= rows:
        squares = _finish(slope, W, M, lam, k, np.empty_like(slope))
    else:
        room, squares = np.empty((rows, slope.shape[1]), slope.dtype), 0.0
        for start in range(0, len(slope), rows):
            part = slice(start, start + rows)
            squares += _finish(slope[part], W[part], M[part], lam, k, room[: len(slope) - start])
    return math.isfinite(squares) or bool(np.isfinite(slope).all())


def _finish(slope: Array, W: Array, M: Array, lam: float, k: int, room: Array) -> float:
    """`finish` of a few rows; their sum of squares."""
    if k > 1:
        slope /= k
    np.multiply(slope, W, out=slope)
    np.add(slope, np.multiply(M, lam, out=room), out=slope)
    return float(np.vdot(slope, slope))
