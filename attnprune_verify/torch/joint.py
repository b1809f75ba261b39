"""The attention output as a goal for `refit_together`, with torch's gradients in place of closed forms."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attnprune_verify.torch.passes import Windows
from attnprune_verify.torch.pieces import Piece, to_numpy
from attnprune_verify.torch.products import Factor, Products
from attnprune_verify.whole_model.joint import JOINT_WINDOWS, GoalValue, Weights


class AttentionGoal:
    """f = sum over windows of the squared change of what leaves attention, when pieces of queries and keys change.

    Parameters
    ----------
    block : module
        Dense, in float32; it is so again after every call.
    parameters : mapping
        Its parameters.
    pieces : sequence of Piece
        Those that change.
    output : Factor
        The map through which attention leaves.
    windows : Windows
        The first 16 are looked at.
    """

    def __init__(
        self,
        block: Any,
        parameters: Mapping[str, Any],
        pieces: Sequence[Piece],
        output: Factor,
        windows: Windows,
        index: int,
    ) -> None:
        self._block, self._parameters, self._output = block, parameters, output
        self._pieces = {piece.key: piece for piece in pieces}
        device = next(block.parameters()).device
        self._inputs = [
            (states.to(device), calls[index])
            for states, calls in zip(windows.states[:JOINT_WINDOWS], windows.calls[:JOINT_WINDOWS], strict=True)
        ]
        self.tokens = sum(states.shape[1] for states, _ in self._inputs)
        with torch.no_grad():
            self._dense = [self._leaving(states, call)[0] for states, call in self._inputs]

    def __call__(self, weights: Weights, *, slopes: bool = True) -> GoalValue:
        """f at these weights of the pieces, and its gradients there."""
        dense = {key: piece.weight(self._parameters).clone() for key, piece in self._pieces.items()}
        try:
            self._set({key: torch.from_numpy(np.asarray(weight)) for key, weight in weights.items()})
            return self._value(slopes)
        finally:
            self._set(dense)

    def _set(self, weights: Mapping[str, Any]) -> None:
        for key, weight in weights.items():
            piece = self._pieces[key]
            target = piece.factor.of(self._parameters[piece.factor.name])
            target[torch.from_numpy(piece.part.rows).to(target.device)] = weight.to(target)

    def _value(self, slopes: bool) -> GoalValue:
        f = 0.0
        gradients = {key: np.zeros(piece.weight(self._parameters).shape) for key, piece in self._pieces.items()}
        factors = {piece.factor for piece in self._pieces.values()}
        for (states, call), dense in zip(self._inputs, self._dense, strict=True):
            with torch.set_grad_enabled(slopes):
                leaving, seen = self._leaving(states.detach().requires_grad_(slopes), call)
                change = leaving - dense
            f += float(change.detach().double().square().sum())
            products = [p for p in seen.products if p.factor in factors]
            if not slopes:
                continue
            found = torch.autograd.grad(leaving, [p.outputs for p in products], 2 * change.detach(), allow_unused=True)
            for product, gradient in zip(products, found, strict=True):
                for key, piece in self._pieces.items():
                    if piece.factor == product.factor and gradient is not None:
                        rows = product.rows(gradient)[:, torch.from_numpy(piece.part.rows).to(gradient.device)]
                        gradients[key] += to_numpy(rows.T @ product.x.detach())
        return GoalValue(f, gradients if slopes else {})

    def _leaving(self, states: Any, call: Any) -> tuple[Any, Products]:
        with Products(self._parameters) as seen:
            call(self._block, states)
        return next(p.outputs for p in seen.products if p.factor == self._output), seen
