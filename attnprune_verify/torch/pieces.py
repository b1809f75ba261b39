"""The pieces of a block that are pruned one by one: the rows of one role of one linear map."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.matrix.budget import Pattern, Share, as_pattern
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.torch.products import Factor
from attnprune_verify.torch.roles import Part, Structure
from attnprune_verify.whole_model.budgets import at_least
from attnprune_verify.whole_model.plan import DENSE, Plan

HOSTS: tuple[str, ...] = ("cpu",)
"""Kinds of devices for which the solvers compute in NumPy."""

_BY_ROWS = ("wanda", "sparsegpt")
"""Methods whose share is that of each row, or block of inputs: a raised one prunes more of the others."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows `part` of the map `factor`, pruned by `method`.

    `number` tells the pieces of a map apart, `matrix` the matrices that a file keeps it in: zeros are counted in these.
    """

    factor: Factor
    number: int
    part: Part
    method: str
    matrix: int = 0

    @property
    def key(self) -> str:
        """A name for files."""
        return f"{self.factor.name}[{self.factor.first}].{self.number}"

    @property
    def metric(self) -> str | None:
        """The output metric that the method uses; None for a method of the attention layer as a whole."""
        method = MATRIX_METHODS.get(self.method)
        return None if method is None else method.metric("Q" if self.part.role in ("Q", "K") else "V")

    def weight(self, parameters: Mapping[str, Any]) -> Any:
        """Return its weight (rows, in)."""
        whole = self.factor.of(parameters[self.factor.name])
        return whole if len(self.part.rows) == len(whole) else whole[torch.from_numpy(self.part.rows)]


def pieces_of(structure: Structure, plan: Plan, index: int, matrices: Mapping[str, NDArray[np.int64]]) -> list[Piece]:
    """Return the matrices of block `index` that the plan prunes; `matrices` as `matrices_in_files` has them."""
    found: list[Piece] = []
    for linear in structure.maps.values():
        factor = linear.factor
        of_rows = matrices[factor.name][factor.first : factor.first + factor.rows]
        for part in linear.parts:
            method = plan.method_of(index, part.role if part.role in ("Q", "K") else "V")
            of_part = np.zeros(len(part.rows), np.int64) if factor.transposed else of_rows[part.rows]
            for matrix in np.unique(of_part) if method != DENSE else ():
                number = sum(piece.factor == factor for piece in found)
                found.append(Piece(factor, number, part.only(of_part == matrix), method, int(matrix)))
    return found


def budgets(
    pieces: list[Piece], parameters: Mapping[str, Any], plan: Plan, zeros: Mapping[str, int]
) -> list[Share | Pattern]:
    """The pattern of every piece, or its share of the zeros of its matrix, which come to an exact total.

    Of what is pruned of a matrix ``floor(rho * size)`` weights go, or of each piece as many as `zeros` has by its key.
    """
    if plan.pattern is not None:
        return [as_pattern(plan.pattern, piece.weight(parameters).shape[1]) for piece in pieces]
    weights = [piece.weight(parameters) for piece in pieces]
    sizes = [weight.numel() for weight in weights]
    if zeros:
        return [Share(Fraction(zeros[piece.key], size)) for piece, size in zip(pieces, sizes, strict=True)]
    of_matrix: dict[tuple[Factor, int], int] = {}
    before = []
    for piece, size in zip(pieces, sizes, strict=True):
        before.append(of_matrix.get((piece.factor, piece.matrix), 0))
        of_matrix[piece.factor, piece.matrix] = before[-1] + size
    counts = []
    for piece, start, size in zip(pieces, before, sizes, strict=True):
        whole = of_matrix[piece.factor, piece.matrix]
        total = pruned_count(plan.rho or 0.0, whole)
        first, last = (total * edge // whole for edge in (start, start + size))
        counts.append(last - first)
    if plan.keep_zeros:
        present = [int((weight == 0).sum()) for weight in weights]
        for matrix in of_matrix:
            places = [
                i for i, piece in enumerate(pieces)
                if (piece.factor, piece.matrix) == matrix and piece.method not in _BY_ROWS
            ]  # fmt: skip
            raised = at_least([counts[i] for i in places], [present[i] for i in places])
            counts = [dict(zip(places, raised, strict=True)).get(i, count) for i, count in enumerate(counts)]
    return [Share(Fraction(count, size)) for count, size in zip(counts, sizes, strict=True)]


def written(
    parameters: Mapping[str, Any], stored: Mapping[str, Any], pruned: Mapping[Piece, PrunedMatrix]
) -> dict[str, Any]:
    """The new parameters in the type they are stored in, by name.

    What did not move keeps its very bytes, what was pruned is 0, and a kept weight too small for the type becomes its
    smallest number instead of one more zero.

    Parameters
    ----------
    parameters : mapping
        The dense ones, in float32.
    stored : mapping
        The same as they are stored.
    pruned : mapping of Piece to PrunedMatrix
    """
    new: dict[str, Any] = {}
    for piece, matrix in pruned.items():
        name = piece.factor.name
        if name not in new:
            new[name] = stored[name].clone(memory_format=torch.contiguous_format)
        target, dense = piece.factor.of(new[name]), piece.weight(parameters)
        rows = torch.from_numpy(piece.part.rows).to(target.device)
        target[rows] = _rounded(name, target[rows], dense, matrix)
    return new


def _rounded(name: str, old: Any, dense: Any, matrix: PrunedMatrix) -> Any:
    value = torch.as_tensor(matrix.weight).to(dense.device)
    kept = torch.as_tensor(matrix.kept).to(dense.device)
    new = value.to(old.dtype)
    if not torch.isfinite(new).all():
        raise InvalidInstance(f"new weights of {name!r} must fit into {old.dtype}; the largest does not")
    vanished = kept & (new == 0) & (value != 0)
    tiny = torch.full_like(new, torch.finfo(old.dtype).tiny) * torch.sign(value).to(old.dtype)
    new = torch.where(vanished, tiny, new)
    return torch.where(kept, torch.where(value == dense, old, new), torch.zeros_like(new))


def zeros_of(pieces: Iterable[Sequence[Piece]], blocks: Iterable[Any]) -> list[dict[str, int]]:
    """Count the zeros that each piece has, by its key, by block."""
    return [
        {piece.key: int((piece.weight(parameters) == 0).sum()) for piece in of_block}
        for of_block, parameters in zip(pieces, (dict(block.named_parameters()) for block in blocks), strict=True)
    ]


def as_bytes(tensor: Any) -> Any:
    """A stored tensor for a file: its bytes."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def from_bytes(raw: Any, like: Any) -> Any:
    """The inverse of `as_bytes`, in the type and shape of `like` and where that is."""
    return torch.from_numpy(np.array(raw)).view(like.dtype).reshape(like.shape).to(like.device)


def for_solvers(tensor: Any) -> Any:
    """A tensor as the solvers get it: in NumPy on the host, where they compute in float64, else float32 where it is."""
    return to_numpy(tensor) if tensor.device.type in HOSTS else tensor.detach().float()


def to_numpy(tensor: Any) -> Array:
    """A tensor for the solvers."""
    array: Array = np.ascontiguousarray(tensor.detach().float().cpu().numpy())
    return array
