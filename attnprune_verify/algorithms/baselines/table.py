"""Every baseline by name, called in one way."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms import baselines
from attnprune_verify.instance.validate import Array

BASELINES: Mapping[str, Callable[..., Any]] = {
    name.removesuffix("_mask"): program for name, program in sorted(vars(baselines).items()) if callable(program)
}


def prune_by(name: str, weight: Array, X: Array, rho: float, **options: Any) -> tuple[Array, NDArray[np.bool_]]:
    """(new weight, pruned) of a linear layer's weight (out, in), 0 where pruned.

    Examples
    --------
    >>> prune_by("magnitude", np.array([[1.0, -3.0]]), np.eye(2), 0.5)
    (array([[ 0., -3.]]), array([[ True, False]]))
    """
    program = BASELINES[name]
    if "X" in signature(program).parameters:
        found = program(weight, X, rho, **options)
    else:  # ties go by the flat index of the matrix as it stands in X W
        found = program(weight.T, rho, **options).T
    weights, pruned = found if isinstance(found, tuple) else (np.where(found, weight.dtype.type(0), weight), found)
    return weights, np.asarray(pruned)
