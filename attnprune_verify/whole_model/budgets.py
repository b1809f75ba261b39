"""Zeros of every map: the same share everywhere, or each map as far as it does least damage.

OWL's shares: one ratio per block, lower where more of the scores |w| ||x|| are outliers (arXiv 2310.05175).

Shares of "auto": one map at a time is pruned at one ratio by SparseGPT, the damage at other ratios follows from a law
(`curve_through`), and as few tokens are judged as let that take at most half the time of the pruning itself.

Measured shares: one map at a time is pruned at every ratio of a grid, fitted on one half of (at most 16) calibration
windows, and the KL between the dense model's predictions and that model's is measured on the other half. `allocate`
then finds the shares with the least sum of damage and exactly ``floor(rho * size)`` zeros in all. Held-out text is
never looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.matrix.allocation import FINE, GRID, allocate, curve_through, measured_at
from attnprune_verify.algorithms.matrix.budget import Share
from attnprune_verify.algorithms.matrix.owl import outlier_share, owl_ratios
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.likelihood import divergences, log_probabilities
from attnprune_verify.pretrained.network import Family, PretrainedModel
from attnprune_verify.whole_model.blockwise import block_moments, forward
from attnprune_verify.whole_model.estimate import ModelSizes, Size, judged_tokens
from attnprune_verify.whole_model.loss import dense_states, loss_moments, loss_roles
from attnprune_verify.whole_model.plan import DENSE, Plan

Zeros: TypeAlias = list[dict[str, int]]
CURVE_WINDOWS = 16
"""Calibration windows that curves are measured with; chosen: as many as the loss's metrics get at first."""
CHEAP = "sparsegpt"
"""The method whose damage is measured for "auto"; chosen: its curves serve output-obs nearly as well as its own."""
_LEAST, _MOST = 0.05, 0.95
"""Bounds of a map's ratio; chosen: the grid's last ratio, and as far from the other end."""


class Curves(NamedTuple):
    """Costs of pruning each map alone at the ratios of `GRID`, and the maps' sizes."""

    damage: dict[tuple[int, str], list[float]]
    sizes: dict[tuple[int, str], int]


def zeros_by_map(
    model: PretrainedModel, ids: NDArray[np.int64], plan: Plan, curves: Curves | None = None
) -> Zeros | None:
    """Zeros of each map by block; None where every matrix is pruned by the plan's own ratio.

    `curves` are those of `measured_curves` for the same model, windows and methods; without them they are measured.
    """
    if plan.budget == "matrix" or plan.rho is None:
        return None
    if plan.budget == "owl":
        shares, sizes = owl_shares(model, ids, plan)
    else:
        measure = cheap_curves if plan.budget == "auto" else measured_curves
        damage, sizes = curves or measure(model, ids, plan)
        shares = shares_by(damage, sizes, plan)
    zeros: Zeros = [{} for _ in range(model.depth)]
    for (index, role), share in shares.items():
        zeros[index][role] = int(share * sizes[index, role])
    return zeros


def at_least(zeros: Sequence[int], present: Sequence[int]) -> list[int]:
    """Raise counts of zeros to those that are there, and take as much from the others in proportion to their room.

    The sum stays, unless more zeros are there than it.

    Examples
    --------
    >>> at_least([5, 5, 5], [8, 1, 0])
    [8, 4, 3]
    """
    raised = [max(pair) for pair in zip(zeros, present, strict=True)]
    room = list(accumulate((count - least for count, least in zip(raised, present, strict=True)), initial=0))
    taken = min(sum(raised) - sum(zeros), room[-1])
    edges = [taken * edge // max(room[-1], 1) for edge in room]
    return [count - (last - first) for count, (first, last) in zip(raised, pairwise(edges), strict=True)]


def with_present(zeros: Zeros, present: Zeros) -> Zeros:
    """Raise the counts of each map, by block, to the zeros that it has; the total stays (`at_least`)."""
    names = [(index, name) for index, of_block in enumerate(zeros) for name in of_block]
    counts = at_least(*([blocks[index][name] for index, name in names] for blocks in (zeros, present)))
    raised: Zeros = [{} for _ in zeros]
    for (index, name), count in zip(names, counts, strict=True):
        raised[index][name] = count
    return raised


def shares_by(
    damage: Mapping[tuple[int, str], Sequence[float]], sizes: Mapping[tuple[int, str], int], plan: Plan
) -> dict[tuple[int, str], Fraction]:
    """The shares of all maps for the least sum of damage; names are (block, map)."""
    rho = plan.rho or 0.0
    held = [name for name in damage if name[0] in plan.hold]
    grid = FINE if plan.budget == "auto" else GRID
    return allocate(
        damage, sizes, rho, grid=grid, held=held, least=min(_LEAST, rho / 2), most=max(_MOST, (1 + rho) / 2)
    )


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
    """Zeros by the blocks' ratios, shifted together until the total is exact; a block without one is pruned by rho."""
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
    ids = ids[:CURVE_WINDOWS]
    return _gathered(_curves(model, (ids[::2], ids[1::2]), plan, GRID))


def cheap_curves(model: PretrainedModel, ids: NDArray[np.int64], plan: Plan) -> Curves:
    """Damage by one measurement with SparseGPT and a law; an encoder's is the squared change of its output."""
    names = [(i, role) for i in range(model.depth) for role in plan.maps_of(i, model.block(i))]
    maps = [Size(out, into, 1) for out, into in (model.family.weight_place(*name).shape for name in names)]
    sizes = ModelSizes(maps, len(names), model.family.vocabulary * model.family.width, 0)
    rho, first = measured_at(plan.rho or 0.0), ids[:CURVE_WINDOWS]
    judged = first[1::2] if len(first) > 1 else first
    tokens = judged_tokens(sizes, ids.size)
    judged = judged[: max(1, tokens // judged.shape[1]), :tokens]
    attention, rest = (DENSE if method == DENSE else CHEAP for method in (plan.attention, plan.rest))
    cheap = replace(plan, budget="matrix", attention=attention, rest=rest)
    one = _gathered(_curves(model, (first[::2], judged), cheap, [rho]))
    return Curves({name: curve_through(damage, rho) for name, (damage,) in one.damage.items()}, one.sizes)


def _gathered(found: Iterator[tuple[tuple[int, str], int, list[float]]]) -> Curves:
    curves = list(found)
    return Curves({name: damage for name, _, damage in curves}, {name: size for name, size, _ in curves})


def _curves(
    model: PretrainedModel,
    ids: tuple[NDArray[np.int64], NDArray[np.int64]],
    plan: Plan,
    ratios: Sequence[float],
) -> Iterator[tuple[tuple[int, str], int, list[float]]]:
    """Name, size and damage at each ratio of every map, fitted and judged on two sets of windows."""
    fitted, judged = (list(model.family.embed(part)) for part in ids)
    dense = _predictions(model.family, model.output(ids[1]))
    outputs = dict(loss_moments(model, plan, dense_states(model, ids[0]))) if loss_roles(model, plan) else {}
    for index in range(model.depth):
        block = model.block(index)
        names = plan.maps_of(index, block)
        moments = block_moments(block, fitted, names, outputs.get(index, {}), (plan.seed, index))
        for role, name in names.items():
            damage = []
            for rho in ratios:
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
    changed = _predictions(model.family, model.family.finish(states))
    if not model.family.predicts:
        return float(np.square(changed - dense).mean(dtype=np.float64))
    return float(divergences(dense, changed).mean())


def _predictions(family: Family, finished: Array) -> Array:
    """Log probabilities of the next token; of an encoder, which predicts none, its output."""
    return log_probabilities(family.logits(finished)) if family.predicts else finished
