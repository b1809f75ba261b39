"""One block: statistics of its calibration tokens for every linear map, and the maps pruned by them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.algorithms.layer.solve import solve_layer
from attnprune_verify.algorithms.matrix.block_backward import block_backward
from attnprune_verify.algorithms.matrix.budget import Pattern, Share, as_pattern
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS, PrunedMatrix
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.methods import MATRIX_METHODS, matrix_options
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import Block
from attnprune_verify.whole_model.joint import refit_attention
from attnprune_verify.whole_model.moments import BlockMoments
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.reconstruct import reconstructed

Windows: TypeAlias = Sequence[Array] | Array


def prune_block(
    block: Block,
    hidden: Windows,
    plan: Plan,
    index: int,
    zeros: Mapping[str, int] | None = None,
    outputs: Mapping[str, Moments] | None = None,
    damping: list[float] | None = None,
) -> dict[str, PrunedMatrix]:
    """Prune the maps of one block that the plan names, all of them from the block as it is.

    Parameters
    ----------
    block : Block
    hidden : k arrays (n, d), or one (k, n, d)
        Hidden states before the block; one at a time is looked at.
    index : int
        Which block it is: random numbers depend on it and on the plan's seed.
    zeros : mapping, optional
        How many weights of each map are pruned; by the plan's rho if not given.
    outputs : mapping, optional
        The loss's metrics of the maps that ask for it (`loss_moments`).
    damping : list, optional
        Gets what calibration prescribes (`prescribed`).

    Returns
    -------
    dict
        New weights (out, in) and what is kept, by role.
    """
    methods = plan.maps_of(index, block)
    by_matrix = {role: name for role, name in methods.items() if name in MATRIX_METHODS}
    pruned = _attention_by_layer(block, hidden, plan) if len(by_matrix) < len(methods) else {}
    moments = block_moments(block, hidden, by_matrix, outputs or {}, (plan.seed, index))
    for role, name in by_matrix.items():
        weight = block.weight(role)
        budget = budget_of(plan, weight, None if zeros is None else zeros[role])
        sides = moments.inputs(role), moments.outputs(role)
        pruned[role] = prune_matrix(name, weight, *sides, budget, keep_zeros=plan.keep_zeros)
        if damping is not None:
            damping += prescribed(name, *sides)
    return refitted(block, hidden, pruned, plan, moments.inputs, moments.outputs)


def prescribed(method: str, *sides: Moments | None) -> list[float]:
    """The larger damping of a map's two metrics, for methods to which the calibration prescribes it."""
    found = [side.damping for side in sides if side is not None]
    return [max(found)] if MATRIX_METHODS[method].options is OutputOBS else []


def refitted(
    block: Block,
    hidden: Windows,
    pruned: dict[str, PrunedMatrix],
    plan: Plan,
    inputs: Callable[[str], Moments],
    outputs: Callable[[str], Moments | None],
) -> dict[str, PrunedMatrix]:
    """`refit_attention` where a pattern leaves the zeros so little choice that it is worth its passes."""
    method = MATRIX_METHODS.get(plan.attention)
    if plan.pattern is None or method is None or method.attention != "attention" or not {"Q", "K"} <= pruned.keys():
        return pruned
    metrics = {side: (inputs(side), outputs(side)) for side in ("Q", "K")}
    return refit_attention(block, hidden, pruned, metrics, matrix_options(plan.attention, {}))


def block_moments(
    block: Block, hidden: Windows, methods: Mapping[str, str], outputs: Mapping[str, Moments], seed: tuple[int, ...]
) -> BlockMoments:
    """Gather what the maps named by `methods` need of the tokens."""
    metrics = {role: MATRIX_METHODS[name].metric(role) for role, name in methods.items()}
    moments = BlockMoments(block, metrics, outputs, len(hidden), seed)
    if methods:
        for window in hidden:
            moments.add(block(np.asarray(window)[np.newaxis]))
    return moments


def budget_of(plan: Plan, weight: Array, zeros: int | None = None) -> Share | Pattern:
    """The plan's pattern, or `zeros`, or its ratio."""
    if plan.pattern is not None:
        return as_pattern(plan.pattern, weight.shape[1])
    return Share(plan.rho or 0.0) if zeros is None else Share(Fraction(zeros, weight.size))


def _attention_by_layer(block: Block, hidden: Windows, plan: Plan) -> dict[str, PrunedMatrix]:
    """Prune W_Q and W_K by one of the methods that take the attention layer as a whole."""
    X = np.stack([block(np.asarray(window)[np.newaxis]).x[0] for window in hidden])
    options: dict[str, Any] = {"seed": plan.seed} if plan.attention == "random" else {}
    result = solve_layer(block.layer, X, plan.rho or 0.0, plan.attention, None, options)
    sides = {"Q": (result.layer.W_Q, result.mask_Q), "K": (result.layer.W_K, result.mask_K)}
    return {
        side: with_zeros(PrunedMatrix(weight.T, mask.T == 1), block.weight(side), plan)
        for side, (weight, mask) in sides.items()
    }


def with_zeros(pruned: PrunedMatrix, weight: Array, plan: Plan) -> PrunedMatrix:
    """The matrix with the zeros of the dense weight as well, where a method of a whole layer filled them."""
    kept = pruned.kept & (weight != 0) if plan.keep_zeros else pruned.kept
    return PrunedMatrix(np.where(kept, pruned.weight, 0), kept)


def reconstructed_block(
    block: Block, pruned: Mapping[str, PrunedMatrix], hidden: Windows, goal: Windows, plan: Plan
) -> dict[str, PrunedMatrix]:
    """The pruned maps of a block after a few steps towards its dense output `goal`, by gradients in closed form."""
    size = sum(float(np.square(window, dtype=np.float64).sum()) for window in goal) / sum(map(len, goal))

    def slopes(weights: Mapping[str, Array], window: int) -> dict[str, Array]:
        here = block.with_weights(weights)
        trace = here(np.asarray(hidden[window])[np.newaxis])
        wanted = np.asarray(goal[window])
        upstream = (trace.output - wanted) * np.float32(2 / (size * len(wanted)))
        found = block_backward(here, trace, upstream).maps
        return {role: found[role][0].T @ trace.input_of(role)[0] for role in weights}

    def error(weights: Mapping[str, Array], window: int) -> float:
        output = block.with_weights(weights)(np.asarray(hidden[window])[np.newaxis]).output[0]
        return float(np.square(output - goal[window], dtype=np.float64).sum() / (size * len(output)))

    return reconstructed(pruned, slopes, error, len(goal), plan.reconstruct, plan.seed)


def forward(block: Block, hidden: Windows) -> Iterator[Array]:
    """The hidden states after a block, one window at a time."""
    for window in hidden:
        yield block(np.asarray(window)[np.newaxis]).output[0]
