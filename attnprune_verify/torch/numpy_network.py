"""The model as a network of this package, where a method needs one: a layer as a whole, budgets between matrices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprune_verify.algorithms.layer.solve import solve_layer
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.load import FAMILIES
from attnprune_verify.pretrained.network import Family, PretrainedModel
from attnprune_verify.pretrained.tensors import Place, Tensors
from attnprune_verify.torch.pieces import to_numpy
from attnprune_verify.whole_model.budgets import zeros_by_map
from attnprune_verify.whole_model.plan import Plan


class _ModuleTensors(Tensors):
    """The tensors of a model in memory, as those of a folder."""

    def __init__(self, model: Any) -> None:
        self._state = model.state_dict()
        self._places = {name: Place(name, Path(), "F32", tuple(t.shape), 0) for name, t in self._state.items()}

    def __call__(self, name: str) -> Array:
        return to_numpy(self._state[self.place(name).name])

    def rows(self, name: str, ids: NDArray[np.int64]) -> Array:
        return self(name)[ids]

    def equal(self, name: str, other: str) -> bool:
        return bool(torch.equal(*(self._state[self.place(each).name] for each in (name, other))))


def network_of(model: Any, what: str) -> Family:
    """Return the model's network in NumPy.

    Parameters
    ----------
    what : str
        For which it is needed, for the message.

    Raises
    ------
    InvalidInstance
        If there is no network of this type here, or the model has a feature that is not computed.
    """
    content = Config(model.config.to_dict())
    kinds = [name for name, kind in FAMILIES.items() if kind.predicts]
    if content.family not in kinds:
        raise InvalidInstance(
            f"{what} needs a network that is computed in NumPy: model_type must be one of {', '.join(kinds)}; "
            f"got {content.family!r:.60}"
        )
    return FAMILIES[content.family](content, _ModuleTensors(model))


def budget_zeros(family: Family, windows: Sequence[Any], plan: Plan) -> list[dict[str, int]]:
    """Zeros of each parameter by block, where budgets differ from map to map."""
    if len({window.shape for window in windows}) > 1:
        raise InvalidInstance(f"windows must have one length with {plan.budget} budgets; they have several")
    ids = torch.cat(list(windows)).numpy()
    zeros = zeros_by_map(PretrainedModel(family), ids, plan) or [{} for _ in range(family.depth)]
    return [
        {family.weight_place(index, role).name: count for role, count in of_block.items()}
        for index, of_block in enumerate(zeros)
    ]


def prune_attention(family: Family, index: int, tokens: Sequence[Array], plan: Plan) -> dict[str, PrunedMatrix]:
    """W_Q and W_K of a block by a method of the attention layer as a whole."""
    if len({rows.shape for rows in tokens}) > 1:
        raise InvalidInstance(f"windows must have one length with the method {plan.attention}; they have several")
    options: dict[str, Any] = {"seed": plan.seed} if plan.attention == "random" else {}
    layer = solve_layer(family.block(index).layer, np.stack(tokens), plan.rho or 0.0, plan.attention, None, options)
    return {
        "Q": PrunedMatrix(layer.layer.W_Q.T.copy(), layer.mask_Q.T == 1),
        "K": PrunedMatrix(layer.layer.W_K.T.copy(), layer.mask_K.T == 1),
    }
