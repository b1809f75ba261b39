"""Pruning without files, for experiments: a model with other weights."""

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.whole_model.blockwise import forward, prune_block, reconstructed_block
from attnprune_verify.whole_model.budgets import Zeros
from attnprune_verify.whole_model.echoes import with_echoes
from attnprune_verify.whole_model.loss import dense_states, loss_moments, loss_roles
from attnprune_verify.whole_model.plan import Plan


def prune_in_memory(
    model: PretrainedModel, ids: NDArray[np.int64], plan: Plan, zeros: Zeros | None = None
) -> PretrainedModel:
    """The model with every block pruned by the plan, calibrated on the windows `ids` (k, n).

    Parameters
    ----------
    zeros : list of mappings, optional
        For every block how many weights of each map are pruned (`zeros_by_map`).
    """
    seen = ids if plan.reconstruct == 0 else with_echoes(model, ids, plan.reconstruct, plan.seed)
    hidden: list[Array] = list(model.family.embed(seen))
    outputs = (
        dict(loss_moments(model, plan, dense_states(model, ids, plan.loss_windows))) if loss_roles(model, plan) else {}
    )
    weights: dict[tuple[int, str], Array] = {}
    goal = hidden
    for index in range(model.depth):
        block = model.block(index)
        own_zeros = None if zeros is None else zeros[index]
        pruned = prune_block(block, hidden[: len(ids)], plan, index, own_zeros, outputs.get(index))
        goal = list(forward(block, goal)) if plan.reconstruct != 0 else goal
        if plan.reconstruct != 0 and pruned:
            pruned = reconstructed_block(block, pruned, hidden, goal, plan)
        new = {role: matrix.weight for role, matrix in pruned.items()}
        weights |= {(index, role): weight for role, weight in new.items()}
        hidden = list(forward(block if plan.dense_inputs else block.with_weights(new), hidden))
    return model.with_weights(weights)
