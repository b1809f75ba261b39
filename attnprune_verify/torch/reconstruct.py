"""A block in torch as what is reconstructed: gradients of its output's distance from the dense one's."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from attnprune_verify.algorithms.arrays import AnyArray
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.torch.passes import Windows
from attnprune_verify.torch.pieces import Piece
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.reconstruct import reconstructed


def reconstructed_block(
    block: Any,
    parameters: Mapping[str, AnyArray],
    pruned: Mapping[Piece, PrunedMatrix],
    windows: Windows,
    index: int,
    goal: Sequence[AnyArray],
    plan: Plan,
) -> dict[Piece, PrunedMatrix]:
    """The pruned pieces of an open block after a few steps towards its dense output.

    Parameters
    ----------
    block, parameters
        Dense, in float32; so again afterwards.
    windows : Windows
        Before the block, as it will get them.
    goal : sequence of (1, n, d) tensors
        What it is to put out for each of them.
    plan : Plan
        Its steps and its seed.
    """
    tensors = {name: parameters[name] for name in {piece.factor.name for piece in pruned}}
    dense = {name: tensor.data.clone() for name, tensor in tensors.items()}
    device = next(iter(tensors.values())).device
    size = sum(float(one.square().sum(dtype=torch.float64)) for one in goal) / sum(one.shape[1] for one in goal)

    def loss(weights: Mapping[Piece, AnyArray], window: int) -> AnyArray:
        for piece, weight in weights.items():
            piece.factor.of(tensors[piece.factor.name].data)[_rows(piece, device)] = weight
        states, wanted = windows.states[window].to(device), goal[window].to(device)
        output = windows.calls[window][index](block, states)
        return (output - wanted).square().sum() / (size * wanted.shape[1])

    def error(weights: Mapping[Piece, AnyArray], window: int) -> float:
        with torch.no_grad():
            return float(loss(weights, window))

    def slopes(weights: Mapping[Piece, AnyArray], window: int) -> dict[Piece, AnyArray]:
        with torch.enable_grad():
            found = torch.autograd.grad(loss(weights, window), list(tensors.values()), allow_unused=True)
        by_name = dict(zip(tensors, found, strict=True))
        return {piece: _slope(piece, by_name[piece.factor.name], weight) for piece, weight in weights.items()}

    there = {
        piece: PrunedMatrix(*(torch.as_tensor(part).to(device) for part in matrix)) for piece, matrix in pruned.items()
    }
    try:
        for tensor in tensors.values():
            tensor.requires_grad_(True)
        started = {piece: matrix._replace(weight=matrix.weight.float()) for piece, matrix in there.items()}
        return reconstructed(started, slopes, error, len(goal), plan.reconstruct, plan.seed)
    finally:
        for name, tensor in tensors.items():
            tensor.requires_grad_(False)
            tensor.data.copy_(dense[name])


def _slope(piece: Piece, gradient: AnyArray | None, weight: AnyArray) -> AnyArray:
    """The gradient at a piece; 0 where no token went (an expert)."""
    if gradient is None:
        return torch.zeros_like(weight)
    return piece.factor.of(gradient)[_rows(piece, gradient.device)]


def _rows(piece: Piece, device: Any) -> Any:
    return torch.from_numpy(piece.part.rows).to(device)
