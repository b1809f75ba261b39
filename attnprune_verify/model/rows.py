"""What one unit of rows contributes to the loss, its derivatives and the errors; in whatever thread.

The steps are those of `attnprune_verify.model.plain`, chunk by chunk in the buffers of a `Workspace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from attnprune_verify.instance.scores import Bend, ScoreModifier
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.kernel import Logits, centre, dp_chunk, move_p, softmax_chunk, subtract_dense
from attnprune_verify.model.maps import Problem
from attnprune_verify.model.threads import Crew
from attnprune_verify.model.tiles import Chunk, Unit, Workspace, units_of

__all__ = ["Kept", "Rows"]

_DENSE, _MOVED = 1, 2  # layers of a workspace, beside that of F(M)


class Kept(NamedTuple):
    """f~ and c - <c, f~> on a chunk of rows, and how the modified scores bend there."""

    F: Array
    b: Array
    bend: Bend | None


class Rows:
    """The rows of a problem's attention matrices, unit by unit, against those of the dense attention.

    Parameters
    ----------
    problem : Problem
    dense : Logits
        At M = 1.
    """

    def __init__(self, problem: Problem, dense: Logits) -> None:
        bent, heads = bool(problem.modifiers), range(problem.heads if problem.modifiers else 1)
        self.units = units_of(problem.visible, problem.count, problem.n, one_by_one=bent)
        self._moves_keys, self._dtype = problem.moves_keys, problem.dtype
        # of the heads, where they matter: a unit is one matrix then
        self._modifiers = [[each.of_head(head) for each in problem.modifiers] for head in heads]
        self._spare: list[Workspace] = []  # a call takes what lies here and puts it back: threads never share a buffer
        self._dense = dense
        self._kept: list[Array] | None = None

    def keep_dense(self, crew: Crew) -> None:
        """Compute F(1) now and keep it."""
        self._kept = list(crew.map(self.dense_rows, self.units))

    def dense_rows(self, unit: Unit) -> Array:
        with self._borrowed() as space:
            tile = space.tile(unit)
            self._dense.fill(unit, tile)
            for chunk in tile.chunks:
                softmax_chunk(chunk, self._dense.shift, self._modifiers_of(unit))
            return tile.S.copy()

    def _subtracted(
        self, at: Logits, index: int, space: Workspace
    ) -> Iterator[tuple[Chunk, Bend | None, Array, float]]:
        """f~ and c, chunk by chunk, over logits that are there; f and ||c||^2 with them."""
        unit = self.units[index]
        modifiers = self._modifiers_of(unit)
        other: Sequence[Chunk] = ()
        if self._kept is None:
            tile = space.tile(unit, _DENSE)
            self._dense.fill(unit, tile)
            other = tile.chunks
        for number, chunk in enumerate(space.tile(unit).chunks):
            bend = softmax_chunk(chunk, at.shift, modifiers)
            if self._kept is None:
                softmax_chunk(other[number], self._dense.shift, modifiers)
                f = other[number].S
            else:
                f = self._kept[index][chunk.at]
            yield chunk, bend, f, subtract_dense(chunk, f)

    def loss_rows(self, at: Logits, slopes: bool, index: int) -> tuple[float, Array | None]:
        unit, total = self.units[index], 0.0
        with self._borrowed() as space:
            tile = space.tile(unit)
            queries, keys = at.fill(unit, tile)
            for chunk, bend, _, squares in self._subtracted(at, index, space):
                total += squares
                if slopes:
                    move_p(chunk, bend)
            columns = None
            if slopes:
                columns = tile.S.swapaxes(-1, -2) @ queries if self._moves_keys else None
                np.matmul(tile.S, keys, out=queries)
            return total, columns

    def error_rows(self, at: Logits, index: int) -> tuple[Array, Array]:
        unit = self.units[index]
        error, size = np.zeros((2, unit.shape[0]))
        with self._borrowed() as space:
            at.fill(unit, space.tile(unit))
            for chunk, _, f, _ in self._subtracted(at, index, space):
                error[chunk.at[0]] += np.einsum("bij,bij->b", chunk.c, chunk.c)
                size[chunk.at[0]] += np.einsum("bij,bij->b", f, f)
        return error, size

    def kept_rows(self, at: Logits, index: int) -> list[Kept]:
        kept = []
        with self._borrowed() as space:
            at.fill(self.units[index], space.tile(self.units[index]))
            for chunk, bend, _, _ in self._subtracted(at, index, space):
                centre(chunk)
                kept.append(Kept(chunk.S.copy(), chunk.c.copy(), bend))
        return kept

    def hessian_rows(self, at: Logits, moved: Logits, kept: Sequence[list[Kept]] | None, index: int) -> Array | None:
        unit, moves_keys = self.units[index], self._moves_keys
        with self._borrowed() as space:
            away, here = space.tile(unit, _MOVED), space.tile(unit) if moves_keys or kept is None else None
            q, k = at.of(unit)
            q_moved, k_moved = moved.of(unit)
            np.matmul(q_moved, k.swapaxes(-1, -2), out=away.S)
            if moves_keys:
                away.S[...] += q @ k_moved.swapaxes(-1, -2)
            if kept is None:
                at.fill(unit, space.tile(unit))
                rows: Iterable[Kept] = (_centred(chunk, bend) for chunk, bend, *_ in self._subtracted(at, index, space))
            else:
                rows = kept[index]
            for number, (chunk, (F, b, bend)) in enumerate(zip(away.chunks, rows, strict=True)):
                dp_chunk(F, b, bend, chunk, here.chunks[number].S if moves_keys and here else None)
            if not moves_keys or here is None:
                np.matmul(away.S, k, out=q_moved)
                return None
            columns: Array = away.S.swapaxes(-1, -2) @ q
            columns += here.S.swapaxes(-1, -2) @ q_moved
            np.matmul(away.S, k, out=q_moved)
            q_moved += here.S @ k_moved
            return columns

    @contextmanager
    def _borrowed(self) -> Iterator[Workspace]:
        try:
            space = self._spare.pop()
        except IndexError:
            space = Workspace(self.units, self._dtype)
        yield space
        self._spare.append(space)

    def _modifiers_of(self, unit: Unit) -> Sequence[ScoreModifier]:
        return self._modifiers[unit.matrices.start % len(self._modifiers)]


def _centred(chunk: Chunk, bend: Bend | None) -> Kept:
    centre(chunk)
    return Kept(chunk.S, chunk.c, bend)
