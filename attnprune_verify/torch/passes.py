"""Passes of windows through one block: its outputs, its moments, the loss carried back through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attnprune_verify.algorithms.arrays import AnyArray
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.torch.blocks import BlockCall, Decoder, as_float32
from attnprune_verify.torch.model_state import widened
from attnprune_verify.torch.moments import (
    PROBED,
    InputMoments,
    OutputMoments,
    asks_loss,
    gradients,
    probe_signs,
)
from attnprune_verify.torch.pieces import Piece
from attnprune_verify.torch.products import Products
from attnprune_verify.torch.roles import Structure


@dataclass
class Windows:
    """Windows on their way through a decoder.

    Attributes
    ----------
    ids : (1, n) tensors
    states : (1, n, d) tensors
        Before the next block, on the host.
    calls : for every window how each block is called
    """

    ids: list[AnyArray]
    states: list[AnyArray]
    calls: list[list[BlockCall]]

    @classmethod
    def enter(cls, decoder: Decoder, ids: Sequence[AnyArray]) -> Windows:
        """Begin the pass before the first block."""
        device = next(decoder.model.parameters()).device
        states: list[AnyArray] = []
        calls: list[list[BlockCall]] = []
        for window in ids:
            before, called = decoder.calls(window.to(device))
            states.append(before.detach().float().cpu())
            of_window: list[BlockCall] = []
            for index, call in enumerate(called):
                wide = as_float32(call)
                wide = _shared(wide, of_window[-1]) if of_window else wide
                of_window.append(_shared(wide, calls[-1][index]) if calls else wide)
            calls.append(of_window)
        return cls(list(ids), states, calls)

    def first(self, count: int) -> Windows:
        """Return the first windows."""
        return Windows(self.ids[:count], self.states[:count], self.calls[:count])


def forward(block: Any, index: int, windows: Windows) -> list[AnyArray]:
    """The states after the block, on the host."""
    device = next(block.parameters()).device
    with torch.no_grad():
        return [
            calls[index](block, states.to(device)).cpu()
            for states, calls in zip(windows.states, windows.calls, strict=True)
        ]


def block_moments(
    block: Any,
    parameters: Mapping[str, AnyArray],
    structure: Structure,
    pieces: Sequence[Piece],
    windows: Windows,
    index: int,
    seed: int,
) -> tuple[InputMoments, dict[str, Moments]]:
    """Moments of the inputs of the pieces' maps, and the metrics of those that are probed on this block.

    Queries, keys and values are probed with signs on the map through which attention leaves, other maps with signs on
    the block's output, as are the former where there is no such map.
    """
    inputs = InputMoments(structure, pieces, parameters, len(windows.ids))
    probed = [piece for piece in pieces if piece.metric in PROBED]
    outputs = OutputMoments(probed, len(windows.ids))
    draw = torch.Generator().manual_seed(seed * 100003 + index)
    device = next(block.parameters()).device
    inside = [p for p in probed if p.part.role != "rest" and structure.output is not None]
    for states, calls in zip(windows.states, windows.calls, strict=True):
        with Products(parameters) as seen, torch.set_grad_enabled(bool(probed)):
            output = calls[index](block, states.to(device).requires_grad_(bool(probed)))
        inputs.add(seen.products)
        found = {}
        for wanted, upon in (
            (inside, [p.outputs for p in seen.products if p.factor == structure.output]),
            ([p for p in probed if p not in inside], [output]),
        ):
            if wanted and upon:
                factors = {piece.factor for piece in wanted}
                products = [p for p in seen.products if p.factor in factors]
                grown = gradients(upon[0], probe_signs(upon[0], draw), products)[0]
                found.update({piece.key: grown.get(piece.factor, []) for piece in wanted})
        outputs.add(found)
    return inputs, outputs.finish()


def loss_moments(
    decoder: Decoder,
    pieces: Sequence[Sequence[Piece]],
    windows: Windows,
    dense: Any,
    seed: int,
) -> Iterator[tuple[int, dict[str, Moments]]]:
    """(block, metrics of the loss of its pieces), from the last block to the first with such pieces.

    Labels are drawn from the model's own prediction; their loss goes back block by block, each computed once more.

    Parameters
    ----------
    dense : mapping of index to list of tensors
        States before every block, and after the last one under the number of blocks.
    """
    device = next(decoder.model.parameters()).device
    upstream = [
        _loss_gradient(decoder, ids.to(device), states.to(device), seed * 100003 + number)
        for number, (ids, states) in enumerate(zip(windows.ids, dense[decoder.depth], strict=True))
    ]
    first = min(index for index, of_block in enumerate(pieces) if asks_loss(of_block))
    for index in reversed(range(first, decoder.depth)):
        asked = asks_loss(pieces[index])
        sums = OutputMoments(asked, len(windows.ids))
        factors = {piece.factor for piece in asked}
        block = decoder.blocks[index]
        with widened(block) as (parameters, _):
            for number, states in enumerate(dense[index]):
                before = states.to(device).requires_grad_()
                with Products(parameters) as seen, torch.enable_grad():
                    output = windows.calls[number][index](block, before)
                products = [p for p in seen.products if p.factor in factors]
                found, rest = gradients(output, upstream[number], products, [before])
                sums.add({piece.key: found.get(piece.factor, []) for piece in asked})
                upstream[number] = rest[0]
        yield index, sums.finish()


def _loss_gradient(decoder: Decoder, window: AnyArray, states: AnyArray, seed: int) -> AnyArray:
    """The gradient at the last states of the loss of labels drawn from the model's own prediction."""
    states, draw = states.requires_grad_(), torch.Generator().manual_seed(seed)
    with torch.enable_grad():
        logits = decoder.logits(window, states)
        chances = logits.detach().softmax(-1).cpu()
        labels = torch.multinomial(chances, 1, generator=draw)[:, 0].to(logits.device)
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, states)
    return gradient


def _shared(value: Any, last: Any) -> Any:
    """`last` where it is the same, so that equal masks and positions of many windows are kept once."""
    if isinstance(value, BlockCall):
        return BlockCall(_shared(value.args, last.args), _shared(value.kwargs, last.kwargs), value.place)
    if type(value) is not type(last):
        return value
    if type(value) in (tuple, list) and len(value) == len(last):
        return type(value)(_shared(one, other) for one, other in zip(value, last, strict=True))
    if type(value) is dict and value.keys() == last.keys():
        return {name: _shared(one, last[name]) for name, one in value.items()}
    same = isinstance(value, torch.Tensor) and value.shape == last.shape and value.dtype == last.dtype
    return last if same and (value is last or torch.equal(value, last)) else value
