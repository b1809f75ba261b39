"""How many weights of every map are pruned: the same share everywhere, or each map as far as it does least damage.

OWL's shares: one ratio per block, lower where more of the scores |w| ||x|| are outliers (arXiv 2310.05175).

Measured shares: one map at a time is pruned at every ratio of a grid, fitted on one half of (at most 16) calibration
windows, and the KL between the dense model's predictions and that model's is measured on the other half. `allocate`
then finds the shares with the least sum of damage and exactly ``floor(rho * size)`` zeros in all. Held-out text is
never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.matrix.allocation import GRID, allocate
from attnprune_verify.algorithms.matrix.budget import Share
from attnprune_verify.algorithms.matrix.methods import prune_matrix
from attnprune_verify.algorithms.matrix.owl import outlier_share, owl_ratios
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.likelihood import divergences, log_probabilities
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.whole_model.blockwise import block_moments, forward
from attnprune_verify.whole_model.loss import dense_states, loss_moments, loss_roles
from attnprune_verify.whole_model.plan import Plan

__all__ = ["Curves", "Zeros", "measured_curves", "owl_shares", "zeros_by_map"]

Zeros: TypeAlias = list[dict[str, int]]
_WINDOWS, _LEAST, _MOST = 16, 0.05, 0.95


class Curves(NamedTuple):
    """What pruning each map alone costs at the ratios of `GRID`, and the maps' sizes."""

    damage: dict[tuple[int, str], list[float]]
    sizes: dict[tuple[int, str], int]


def zeros_by_map(
    model: PretrainedModel, ids: NDArray[np.int64], plan: Plan, curves: Curves | None = None
) -> Zeros | None:
    """For every block the zeros of each map; None where every matrix is pruned by the plan's own ratio.

    `curves` are those of `measured_curves` for the same model, windows and methods; without them they are measured.
    """
    if plan.budget == "matrix" or plan.rho is None:
        return None
    if plan.budget == "owl":
        shares, sizes = owl_shares(model, ids, plan)
    else:
        damage, sizes = curves or measured_curves(model, ids, plan)
        held = [name for name in damage if name[0] in plan.hold]
        least, most = min(_LEAST, plan.rho), max(_MOST, plan.rho)
        shares = allocate(damage, sizes, plan.rho, held=held, least=least, most=most)
    zeros: Zeros = [{} for _ in range(model.depth)]
    for (index, role), share in shares.items():
        zeros[index][role] = int(share * sizes[index, role])
    return zeros


def owl_shares(
    model: PretrainedModel, ids: NDArray[np.int64], plan: Plan
) -> tuple[dict[tuple[int, str], Fraction], dict[tuple[int, str], int]]:
    """OWL's share of every map that the plan names, ``floor(rho * size)`` zeros in all, and the maps' sizes.

    A block's outliers are counted over its maps that are pruned, on the dense model's activations. Blocks that are held
    take no part.
    """
    outliers: dict[int, float] = {}
    sizes: dict[tuple[int, str], int] = {}
    hidden: list[Array] = list(model.family.embed(ids))
    for index in range(model.depth):
        block = model.block(index)
        names = plan.maps_of(index, block)
        if names:
            moments = block_moments(block, hidden, dict.fromkeys(names, "wanda"), {}, (plan.seed, index))  # inputs only
            sizes |= {(index, role): block.weight(role).size for role in names}
            if index not in plan.hold:
                outliers[index] = outlier_share([(block.weight(role), moments.inputs(role)) for role in names])
        hidden = list(forward(block, hidden))
    return _exactly(owl_ratios(outliers, plan.rho or 0.0) if outliers else {}, sizes, plan.rho or 0.0), sizes


def _exactly(
    ratios: Mapping[int, float], sizes: Mapping[tuple[int, str], int], rho: float
) -> dict[tuple[int, str], Fraction]:
    """By the blocks' ratios, moved together until the total is exact; a block without one is pruned by rho."""
    zeros = {name: pruned_count(rho, size) for name, size in sizes.items() if name[0] not in ratios}
    free = {name: size for name, size in sizes.items() if name[0] in ratios}
    left = pruned_count(rho, sum(sizes.values())) - sum(zeros.values())
    move = (left - sum(ratios[name[0]] * size for name, size in free.items())) / max(1, sum(free.values()))
    for name, size in free.items():
        zeros[name] = min(size, max(0, int((ratios[name[0]] + move) * size)))
        left -= zeros[name]
    for name, size in free.items():  # what rounding and the bounds left over
        more = max(-zeros[name], min(size - zeros[name], left))
        zeros[name] += more
        left -= more
    return {name: Fraction(zeros[name], size) for name, size in sizes.items()}


def measured_curves(model: PretrainedModel, ids: NDArray[np.int64], plan: Plan) -> Curves:
    """The damage of every map that the plan names; its rho does not matter.

    Raises
    ------
    InvalidInstance
        If there is a single window, or the model is an encoder.
    """
    if not model.family.predicts:
        raise InvalidInstance("budget must be matrix for an encoder: it predicts nothing that damage could be told by")
    if len(ids) < 2:
        raise InvalidInstance(f"measured budgets need at least 2 calibration windows; got {len(ids)}")
    found = list(_curves(model, ids[:_WINDOWS], plan))
    return Curves({name: damage for name, _, damage in found}, {name: size for name, size, _ in found})


def _curves(
    model: PretrainedModel, ids: NDArray[np.int64], plan: Plan
) -> Iterator[tuple[tuple[int, str], int, list[float]]]:
    """For every map its name, its size, and the damage done at each ratio of the grid."""
    fitted, judged = (list(model.family.embed(part)) for part in (ids[::2], ids[1::2]))
    dense = log_probabilities(model.logits(ids[1::2]))
    outputs = dict(loss_moments(model, plan, dense_states(model, ids[::2]))) if loss_roles(model, plan) else {}
    for index in range(model.depth):
        block = model.block(index)
        names = plan.maps_of(index, block)
        moments = block_moments(block, fitted, names, outputs.get(index, {}), (plan.seed, index))
        for role, name in names.items():
            damage = []
            for rho in GRID:
                weight = block.weight(role)
                pruned = prune_matrix(name, weight, moments.inputs(role), moments.outputs(role), Share(rho)).weight
                damage.append(_damage(model, index, role, pruned, judged, dense))
            yield (index, role), weight.size, damage
        fitted, judged = (list(forward(block, hidden)) for hidden in (fitted, judged))


def _damage(model: PretrainedModel, index: int, role: str, weight: Array, hidden: list[Array], dense: Array) -> float:
    """Mean KL from the dense predictions when one map is exchanged, from the hidden states before its block."""
    states = model.block(index).with_weights({role: weight})(np.stack(hidden)).output
    for later in range(index + 1, model.depth):
        states = model.block(later)(states).output
    changed = log_probabilities(model.family.logits(model.family.finish(states)))
    return float(divergences(dense, changed).mean())
