"""Contribution of one unit of rows to the loss, its derivatives and the errors, computed in any thread.

The steps are those of `attnprune_verify.model.plain`, chunk by chunk in the buffers of a `Workspace`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attnprune_verify.instance.scores import Bend, ScoreModifier
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.kernel import Logits, centre, dp_chunk, move_p, softmax_chunk, subtract_dense
from attnprune_verify.model.maps import Problem
from attnprune_verify.model.threads import Crew
from attnprune_verify.model.tiles import Chunk, Unit, Workspace, layout_of

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
        bent = bool(problem.modifiers)
        self._layout = layout_of(problem.visible, problem.count, problem.n, problem.dtype, one_by_one=bent)
        self.units, self._moves_keys = self._layout.units, problem.moves_keys
        # of the heads, where they matter: a unit is one matrix then
        self._modifiers: list[list[ScoreModifier]] = []
        if bent:
            self._modifiers = [[each.of_head(head) for each in problem.modifiers] for head in range(problem.heads)]
        self._spare = self._layout.spare if self._layout.is_small else []
        self._dense = dense
        self._kept: list[list[Array]] | None = None

    def keep_dense(self, crew: Crew) -> None:
        """Compute F(1) now and keep it."""
        self._kept = list(crew.map(self._dense_copies, self.units))

    def _dense_copies(self, unit: Unit) -> list[Array]:
        """F(1), chunk by chunk."""
        space = self._borrow()
        F = np.empty(unit.shape, self._layout.dtype)
        pieces = []
        for chunk, f in zip(space.tile(unit, _DENSE).chunks, self._dense_rows(unit, space), strict=True):
            pieces.append(F[chunk.at])
            pieces[-1][...] = f
        self._spare.append(space)
        return pieces

    def _dense_rows(self, unit: Unit, space: Workspace) -> Iterator[Array]:
        tile = space.tile(unit, _DENSE)
        self._dense.fill(unit, tile)
        modifiers = self._modifiers_of(unit)
        for chunk in tile.chunks:
            softmax_chunk(chunk, self._dense.shift, modifiers)
            yield chunk.S

    def _dense_of(self, index: int, space: Workspace) -> Iterable[Array]:
        return self._dense_rows(self.units[index], space) if self._kept is None else self._kept[index]

    def loss_rows(self, at: Logits, slopes: bool, index: int) -> tuple[float, Array | None]:
        """The sum of c^2. With `slopes` p K in place of the queries, and p^T Q (what it adds to the keys' slopes)."""
        unit, total, columns = self.units[index], 0.0, None
        space = self._borrow()
        tile = space.tile(unit)
        queries, keys = at.fill(unit, tile)
        modifiers = self._modifiers_of(unit)
        for chunk, f in zip(tile.chunks, self._dense_of(index, space), strict=True):
            bend = softmax_chunk(chunk, at.shift, modifiers)
            total += subtract_dense(chunk, f)
            if slopes:
                move_p(chunk, bend)
        if slopes:
            if self._moves_keys:
                columns = tile.S.swapaxes(-1, -2) @ queries
            np.matmul(tile.S, keys, out=queries)
        self._spare.append(space)
        return total, columns

    def error_rows(self, at: Logits, index: int) -> tuple[Array, Array]:
        """The sums of c^2 and of f^2 for each matrix."""
        unit = self.units[index]
        error, size = np.zeros((2, unit.shape[0]))
        space = self._borrow()
        at.fill(unit, space.tile(unit))
        for chunk, f, _ in self._subtracted(at, index, space):
            error[chunk.at[0]] += np.einsum("bij,bij->b", chunk.c, chunk.c)
            size[chunk.at[0]] += np.einsum("bij,bij->b", f, f)
        self._spare.append(space)
        return error, size

    def kept_rows(self, at: Logits, index: int) -> list[Kept]:
        """Return copies of the parts of F(M) and c that Hessian products need."""
        space = self._borrow()
        at.fill(self.units[index], space.tile(self.units[index]))
        kept = []
        for chunk, _, bend in self._subtracted(at, index, space):
            centre(chunk)
            kept.append(Kept(chunk.S.copy(), chunk.c.copy(), bend))
        self._spare.append(space)
        return kept

    def hessian_rows(self, at: Logits, moved: Logits, kept: Sequence[list[Kept]] | None, index: int) -> Array | None:
        """The derivative of p K in place of the moved queries, and that of p^T Q."""
        unit = self.units[index]
        space = self._borrow()
        away = space.tile(unit, _MOVED)
        q, k = at.of(unit)
        q_moved, k_moved = moved.of(unit)
        np.matmul(q_moved, k.swapaxes(-1, -2), out=away.S)
        if self._moves_keys:
            away.S[...] += q @ k_moved.swapaxes(-1, -2)
        if kept is None:
            at.fill(unit, space.tile(unit))
            rows: Iterable[Kept] = (_centred(chunk, bend) for chunk, _, bend in self._subtracted(at, index, space))
        else:
            rows = kept[index]
        columns = None
        if self._moves_keys:
            here = space.tile(unit)
            for chunk, (F, b, bend), place in zip(away.chunks, rows, here.chunks, strict=True):
                dp_chunk(F, b, bend, chunk, place.S)
            columns = away.S.swapaxes(-1, -2) @ q
            columns += here.S.swapaxes(-1, -2) @ q_moved
            np.matmul(away.S, k, out=q_moved)
            q_moved += here.S @ k_moved
        else:
            for chunk, (F, b, bend) in zip(away.chunks, rows, strict=True):
                dp_chunk(F, b, bend, chunk, None)
            np.matmul(away.S, k, out=q_moved)
        self._spare.append(space)
        return columns

    def _subtracted(self, at: Logits, index: int, space: Workspace) -> Iterator[tuple[Chunk, Array, Bend | None]]:
        """f~ and c, chunk by chunk, over logits that are there; f and the bend with them."""
        modifiers = self._modifiers_of(self.units[index])
        for chunk, f in zip(space.tile(self.units[index]).chunks, self._dense_of(index, space), strict=True):
            bend = softmax_chunk(chunk, at.shift, modifiers)
            subtract_dense(chunk, f)
            yield chunk, f, bend

    def _borrow(self) -> Workspace:
        try:
            return self._spare.pop()
        except IndexError:
            return Workspace(self.units, self._layout.dtype)

    def _modifiers_of(self, unit: Unit) -> Sequence[ScoreModifier]:
        return self._modifiers[unit.matrices.start % len(self._modifiers)] if self._modifiers else ()


def _centred(chunk: Chunk, bend: Bend | None) -> Kept:
    centre(chunk)
    return Kept(chunk.S, chunk.c, bend)
