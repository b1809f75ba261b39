"""Budgets for any decoder: what pruning each map alone costs the model's predictions, and the zeros by that.

The damage of a map is the mean KL from the dense model's predictions when SparseGPT prunes that map alone at one
ratio, fitted on one half of the first calibration windows and judged on tokens of the other half. Maps of a block
whose names differ in numbers alone (experts) are judged together.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import torch

from attnprune_verify.algorithms.arrays import AnyArray
from attnprune_verify.algorithms.matrix.allocation import curve_through, measured_at
from attnprune_verify.algorithms.matrix.budget import Share
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.torch.blocks import Decoder
from attnprune_verify.torch.model_state import widened
from attnprune_verify.torch.passes import Windows, block_moments, forward
from attnprune_verify.torch.pieces import Piece, for_solvers
from attnprune_verify.torch.roles import Structure
from attnprune_verify.whole_model.budgets import CHEAP, CURVE_WINDOWS, shares_by
from attnprune_verify.whole_model.plan import Plan

Group: TypeAlias = tuple[int, str]
"""A block, and the name that its maps have in common."""


def grouped(pieces: Sequence[Sequence[Piece]]) -> dict[Group, list[Piece]]:
    """Pieces that are judged together and get one ratio."""
    found: dict[Group, list[Piece]] = {}
    for index, of_block in enumerate(pieces):
        for piece in of_block:
            name = re.sub(r"\d+", "#", piece.factor.name)
            found.setdefault((index, f"{name} {piece.part.role}"), []).append(piece)
    return found


def cheap_zeros(
    decoder: Decoder,
    structures: Sequence[Structure],
    pieces: Sequence[Sequence[Piece]],
    ids: Sequence[AnyArray],
    plan: Plan,
    tokens: int,
    progress: Callable[[int], object],
) -> list[dict[str, int]]:
    """Zeros of each piece by its key, by block: ``floor(rho * size)`` in all, with the least sum of damage.

    Parameters
    ----------
    ids : windows (1, n)
    tokens : int
        How many are judged.
    progress : callable
        Called with the number of blocks that are judged.
    """
    groups, rho = grouped(pieces), measured_at(plan.rho or 0.0)
    first = list(ids[:CURVE_WINDOWS])
    judged = _cut(first[1::2] or first, tokens)
    damage = dict(_damages(decoder, structures, groups, (first[::2], judged), rho, progress))
    parameters = [dict(block.named_parameters()) for block in decoder.blocks]
    sizes = {
        group: [piece.weight(parameters[group[0]]).numel() for piece in of_group] for group, of_group in groups.items()
    }
    totals = {group: sum(of_group) for group, of_group in sizes.items()}
    shares = shares_by({group: curve_through(one, rho) for group, one in damage.items()}, totals, plan)
    zeros: list[dict[str, int]] = [{} for _ in pieces]
    for (index, name), share in shares.items():
        group = (index, name)
        counts = _divided(int(share * totals[group]), sizes[group])
        zeros[index] |= {piece.key: count for piece, count in zip(groups[group], counts, strict=True)}
    return zeros


def _damages(
    decoder: Decoder,
    structures: Sequence[Structure],
    groups: Mapping[Group, list[Piece]],
    ids: tuple[Sequence[AnyArray], Sequence[AnyArray]],
    rho: float,
    progress: Callable[[int], object],
) -> Iterator[tuple[Group, float]]:
    """The mean KL of the predictions on the second windows when one group alone is pruned, fitted on the first."""
    fitted, judged = (Windows.enter(decoder, part) for part in ids)
    dense = _to_the_end(decoder, -1, [judged])[0]
    last = max(index for index, _ in groups)
    for index, block in enumerate(decoder.blocks[: last + 1]):
        here = {group: of_group for group, of_group in groups.items() if group[0] == index}
        changed = []
        with widened(block) as (parameters, _):
            maps = [replace(piece, method=CHEAP) for of_group in here.values() for piece in of_group]
            inputs, _ = block_moments(block, parameters, structures[index], maps, fitted, index, 0)
            for of_group in here.values():
                new = {}
                for piece in of_group:
                    weight = for_solvers(piece.weight(parameters))
                    new[piece] = prune_matrix(CHEAP, weight, inputs.finish(piece.factor), None, Share(rho)).weight
                with _exchanged(parameters, new):
                    changed.append(replace(judged, states=forward(block, index, judged)))
            fitted.states, judged.states = (forward(block, index, windows) for windows in (fitted, judged))
        yield from zip(here, _divergences(decoder, dense, _to_the_end(decoder, index, changed)), strict=True)
        progress(index + 1)


def _to_the_end(decoder: Decoder, index: int, several: Sequence[Windows]) -> list[Windows]:
    """Windows after the last block, from those after block `index`; each block is widened once for all of them."""
    for later in range(index + 1, decoder.depth):
        with widened(decoder.blocks[later]):
            several = [replace(one, states=forward(decoder.blocks[later], later, one)) for one in several]
    return list(several)


def _divergences(decoder: Decoder, dense: Windows, several: Sequence[Windows]) -> list[float]:
    """The mean KL from the dense predictions, for each of several windows after the last block."""
    device = next(decoder.model.parameters()).device
    totals, tokens = [0.0] * len(several), 0
    with torch.no_grad():
        for number, (ids, states) in enumerate(zip(dense.ids, dense.states, strict=True)):
            window = ids.to(device)
            log_p = decoder.logits(window, states.to(device)).log_softmax(-1)
            tokens += len(log_p)
            for place, one in enumerate(several):
                gap = decoder.logits(window, one.states[number].to(device)).log_softmax(-1) - log_p
                # p (r - 1 - log r) with r = q / p: no term is negative, so nothing cancels
                totals[place] += float((log_p.exp() * (gap.expm1() - gap)).sum(dtype=torch.float64))
    return [total / tokens for total in totals]


@contextmanager
def _exchanged(parameters: Mapping[str, AnyArray], new: Mapping[Piece, AnyArray]) -> Iterator[None]:
    """Other weights for some pieces of an open block."""
    names = {piece.factor.name for piece in new}
    before = {name: parameters[name].data.clone() for name in names}
    try:
        for piece, weight in new.items():
            target = piece.factor.of(parameters[piece.factor.name])
            target[torch.from_numpy(piece.part.rows).to(target.device)] = torch.as_tensor(weight).to(target)
        yield
    finally:
        for name, data in before.items():
            parameters[name].data.copy_(data)


def _cut(windows: Iterable[AnyArray], tokens: int) -> list[AnyArray]:
    """Return the first windows, up to a total number of tokens."""
    found: list[AnyArray] = []
    for window in windows:
        found.append(window[:, :tokens])
        tokens -= found[-1].shape[1]
        if tokens <= 0:
            break
    return found


def _divided(total: int, sizes: Sequence[int]) -> list[int]:
    """The total in parts like the sizes."""
    edges = [total * sum(sizes[:i]) // sum(sizes) for i in range(len(sizes) + 1)]
    return [last - first for first, last in zip(edges, edges[1:], strict=False)]
