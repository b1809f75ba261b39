"""Matrices of a model's files that its parameters hold: transformers fuses some of them when it loads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def as_filed(model: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under the names and in the shapes in which transformers writes them to a file."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # a version that keeps the files' names
        return dict(tensors)
    filed: dict[str, Any] = revert_weight_conversion(model, dict(tensors))
    return filed


def matrices_in_files(model: Any, names: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """Map every parameter to the numbers of the file's matrices that its rows belong to.

    Rows are those of the parameter seen as (-1, its last dimension). They are numbered, and what becomes of the
    numbers on the way to a file is looked at.

    Parameters
    ----------
    names : mapping of name to parameter
    """
    found = {}
    for name, parameter in names.items():
        shape = parameter.shape[:-1]
        rows = torch.arange(int(np.prod(shape))).reshape(*shape, 1)
        number = np.zeros(rows.numel(), dtype=np.int64)
        filed = as_filed(model, {name: rows}).values()
        matrices = [m for one in filed for m in (one.reshape(-1, *one.shape[-2:]) if one.dim() > 2 else one[None])]
        for index, matrix in enumerate(matrices):
            number[matrix.reshape(-1).numpy()] = index
        found[name] = number
    return found
