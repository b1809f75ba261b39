"""`prune_matrix`: one door to every method for one linear map."""

from typing import Any

from attnprune_verify.algorithms.arrays import AnyArray, swapped, xp_of
from attnprune_verify.algorithms.baselines.table import BASELINES
from attnprune_verify.algorithms.matrix.budget import Budget, KeepingZeros, Pattern, Share
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.algorithms.methods import METHODS, matrix_options
from attnprune_verify.errors import InvalidInstance


def prune_matrix(
    method: str,
    weight: AnyArray,
    inputs: Moments,
    outputs: Moments | None,
    budget: Share | Pattern,
    *,
    keep_zeros: bool = False,
    **options: Any,
) -> PrunedMatrix:
    """Prune one weight (out, in) by the method of that name.

    Parameters
    ----------
    method : str
        A key of `MATRIX_METHODS`.
    weight : (out, in) array
        Of any library of the array API standard (NumPy, torch, ...), as are the moments: it is computed there, on the
        device of the arrays.
    inputs : Moments
        Second moments of the map's inputs (`MomentSum`).
    outputs : Moments or None
        Metric of its outputs, of blocks of them; None is the identity.
    budget : Share or Pattern
    keep_zeros : bool
        Whether the zeros of `weight` stay zero and count among those of the budget. Where they are all it asks for,
        nothing is pruned and nothing moves.
    **options
        Fields of the method's dataclass.

    Raises
    ------
    InvalidInstance
        If the method or an option is unknown or out of its range, or sizes disagree.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.algorithms.matrix.budget import Pattern
    >>> from attnprune_verify.algorithms.matrix.damping import second_moments
    >>> rng = np.random.default_rng(0)
    >>> inputs = second_moments(rng.normal(size=(8, 10, 4)))
    >>> prune_matrix("output-obs", rng.normal(size=(3, 4)), inputs, None, Pattern(2, 4)).kept.sum(axis=1)
    array([2, 2, 2])
    """
    settings = matrix_options(method, options)
    _check_sizes(weight, inputs, outputs, budget)
    prune = METHODS[method].matrix
    assert prune is not None  # `matrix_options` has refused the others
    xp = xp_of(weight)
    zeros = weight == 0
    if not (keep_zeros and bool(xp.any(zeros))):
        return prune(weight, inputs, outputs, budget, settings)
    keeping = KeepingZeros(budget, zeros)
    if method not in BASELINES and bool(
        xp.all(swapped(zeros) == keeping.choose(swapped(xp.abs(weight))[None, ...], 0)[0, ...])
    ):
        return PrunedMatrix(weight, ~zeros)
    return prune(weight, inputs, outputs, keeping, settings)


def _check_sizes(weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget) -> None:
    out, into = weight.shape
    if inputs.H.shape != (into, into):
        raise InvalidInstance(f"the inputs' moments must be ({into}, {into}); got {inputs.H.shape}")
    if outputs is not None and outputs.H.shape[0] * outputs.H.shape[1] != out:
        raise InvalidInstance(f"the outputs' blocks must have {out} rows in all; got {outputs.H.shape}")
    if isinstance(budget, Pattern) and into % budget.group:
        raise InvalidInstance(f"the number of inputs must be a multiple of M; got {into} and {budget}")
