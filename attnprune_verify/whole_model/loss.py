"""The loss's output metrics of a whole model: one dense pass forward, one backward, of the first windows."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.loss_metric import loss_metrics
from attnprune_verify.algorithms.matrix.metrics import LOSS_METRICS
from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.whole_model.blockwise import forward
from attnprune_verify.whole_model.plan import LOSS_WINDOWS, Plan


def loss_roles(model: PretrainedModel, plan: Plan) -> dict[str, str]:
    """The maps for which the plan's methods use a metric of the loss, each with its metric."""
    names = {role: plan.rest if role not in ("Q", "K") else plan.attention for role in model.block(0).roles}
    asked = {role: MATRIX_METHODS[name].metric(role) for role, name in names.items() if name in MATRIX_METHODS}
    return {role: metric for role, metric in asked.items() if metric is not None and metric in LOSS_METRICS}


def loss_moments(
    model: PretrainedModel, plan: Plan, states: Sequence[Sequence[Array]]
) -> Iterator[tuple[int, dict[str, Moments]]]:
    """(block, metric of the loss for each map that uses one), from the last block to the first; nothing if none does.

    Parameters
    ----------
    states : depth + 1 sequences of windows
        Hidden states of the dense model before every block and after the last one.
    """
    roles = loss_roles(model, plan)
    if roles:
        yield from loss_metrics(model, states, roles, plan.seed)


def dense_states(model: PretrainedModel, ids: NDArray[np.int64], windows: int = LOSS_WINDOWS) -> list[list[Array]]:
    """Hidden states of the first windows before every block and after the last one."""
    states = [list(model.family.embed(ids[:windows]))]
    for index in range(model.depth):
        states.append(list(forward(model.block(index), states[-1])))
    return states
