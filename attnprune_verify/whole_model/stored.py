"""A pruned weight as its file will hold it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.tensors import Place, decoded, encoded, mapped


def stored_weight(place: Place, dense: Array, pruned: PrunedMatrix) -> NDArray[Any]:
    """The new weight in the file's own type.

    What did not move keeps its very bytes, what was pruned is 0, and a kept weight too small for the type becomes its
    smallest number instead of one more zero.

    Raises
    ------
    InvalidInstance
        If a new weight is too large for the type.
    """
    old, new = mapped(place), encoded(pruned.weight, place.dtype)
    values = decoded(new, place.dtype)
    if not np.isfinite(values).all():
        raise InvalidInstance(f"new weights of {place.name!r} must fit into {place.dtype}; the largest does not")
    vanished = pruned.kept & (values == 0) & (pruned.weight != 0)
    if vanished.any():
        new[vanished] = _smallest(place.dtype, pruned.weight[vanished])
    return np.where(pruned.kept & (pruned.weight == dense), old, new)


def _smallest(dtype: str, like: Array) -> NDArray[Any]:
    """The smallest numbers of a stored type with the signs of `like`."""
    if dtype == "BF16":
        return np.where(like < 0, 0x8001, 0x0001).astype("<u2")
    kind = encoded(like, dtype).dtype
    return np.asarray(np.copysign(np.finfo(kind).smallest_subnormal, like), dtype=kind)
