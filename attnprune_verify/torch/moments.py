"""Moments of the inputs of a block's maps, and metrics of their outputs from gradients, window by window."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from attnprune_verify.algorithms.matrix.damping import Moments, MomentSum
from attnprune_verify.algorithms.matrix.metrics import LOSS_METRICS
from attnprune_verify.torch.pieces import HOSTS, Piece, for_solvers
from attnprune_verify.torch.products import Factor, Product
from attnprune_verify.torch.roles import Structure

PROBED = ("attention", "output-only")
"""Metrics of random signs on the attention's output; the others are of the loss (`LOSS_METRICS`)."""
_UNWEIGHTED = ("output-only", "kfac")


class InputMoments:
    """Second moments of the inputs of maps; maps with one input share them.

    A map that no token went to (an expert) has the identity: all its inputs count the same. One that few windows went
    to is damped as much as these windows differ (`MomentSum`).
    """

    def __init__(
        self, structure: Structure, pieces: Iterable[Piece], parameters: Mapping[str, Any], windows: int
    ) -> None:
        self._device = next(iter(parameters.values())).device
        self._sums: dict[int, MomentSum] = {}
        self._first: dict[int, Factor] = {}
        self._sources = {piece.factor: structure.maps[piece.factor].source for piece in pieces}
        self._sizes: dict[int, int] = {}
        for factor, source in self._sources.items():
            self._sizes[source] = factor.of(parameters[factor.name]).shape[1]
            self._first.setdefault(source, factor)
            self._sums.setdefault(source, MomentSum(self._sizes[source], windows))
        self._tokens = dict.fromkeys(self._sums, 0)

    def add(self, products: Sequence[Product]) -> None:
        """One window."""
        for source, factor in self._first.items():
            rows = [p.x for p in products if p.factor == factor]
            if rows and sum(map(len, rows)):
                x = torch.cat(rows)
                self._sums[source].add(for_solvers(x))
                self._tokens[source] += len(x)

    def finish(self, factor: Factor) -> Moments:
        """``X^T X / tokens``."""
        source = self._sources[factor]
        same = for_solvers(torch.eye(self._sizes[source], device=self._device))
        if not self._tokens[source]:
            return Moments(same, 1.0, 1.0, 0)
        moments = self._sums[source].finish()
        return moments if moments.H.any() else moments._replace(H=same)


class OutputMoments:
    """Output metrics of pieces, summed window by window."""

    def __init__(self, pieces: Iterable[Piece], windows: int) -> None:
        self._pieces = list(pieces)
        self._sums = {p.key: MomentSum(len(p.part.rows), windows, p.part.blocks) for p in self._pieces}
        self._seen: set[str] = set()

    def add(self, found: Mapping[str, Sequence[tuple[Any, Any]]]) -> None:
        """(inputs, gradients) of the products of every piece for one window."""
        for piece in self._pieces:
            rows = [(x, g) for x, g in found.get(piece.key, ()) if len(x)]
            if rows:
                x, g = (torch.cat([pair[side] for pair in rows]) for side in (0, 1))
                sizes: Any = None if piece.metric in _UNWEIGHTED else x.double().square().sum(-1)
                if sizes is not None and sizes.device.type in HOSTS:
                    sizes = sizes.numpy()
                self._sums[piece.key].add(for_solvers(g[:, torch.from_numpy(piece.part.rows).to(g.device)]), sizes)
                self._seen.add(piece.key)

    def finish(self) -> dict[str, Moments]:
        """Return the moments by the pieces' keys; pieces without tokens are left out."""
        return {key: total.finish() for key, total in self._sums.items() if key in self._seen}


def gradients(
    upon: Any, direction: Any, products: Sequence[Product], also: Sequence[Any] = ()
) -> tuple[dict[Factor, list[tuple[Any, Any]]], list[Any]]:
    """Gradients of <upon, direction> at the outputs of products: (inputs, gradients) by map, and those at `also`."""
    outputs = list({id(p.outputs): p.outputs for p in products if p.outputs.requires_grad}.values())
    if not outputs and not also:
        return {}, []
    values = torch.autograd.grad(upon, [*outputs, *also], direction, allow_unused=True, retain_graph=True)
    by_output = {id(y): g for y, g in zip(outputs, values, strict=False)}
    found: dict[Factor, list[tuple[Any, Any]]] = {}
    for product in products:
        gradient = by_output.get(id(product.outputs))
        if gradient is not None:
            found.setdefault(product.factor, []).append((product.x.detach(), product.rows(gradient)))
    return found, list(values[len(outputs) :])


def probe_signs(like: Any, draw: torch.Generator) -> Any:
    """Independent signs, drawn on the host so that they are the same on every device."""
    return (torch.randint(0, 2, like.shape, generator=draw) * 2.0 - 1).to(like.device)


def asks_loss(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces whose method uses a metric of the loss."""
    return [piece for piece in pieces if piece.metric in LOSS_METRICS]
