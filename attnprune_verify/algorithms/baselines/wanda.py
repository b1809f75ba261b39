"""Wanda: prune the smallest |weight| x input norm, row by row (Sun, Liu, Bair, Kolter 2024)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import check_groups, linear_layer, pruned_count
from attnprune_verify.algorithms.baselines.pruned import PrunedMask
from attnprune_verify.algorithms.selection import smallest, undecided
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_ratio

# The original works in float32: a score there carries a few roundings, so gaps below this may flip.
_TOLERANCE = 8 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class WandaReport:
    """Wanda's mask, and the entries that rounding could decide otherwise.

    Attributes
    ----------
    pruned : (out, in) bool
        True = pruned.
    undecided : (out, in) bool
        True where float32 rounding or an unspecified order of ties could decide otherwise.
    """

    pruned: NDArray[np.bool_]
    undecided: NDArray[np.bool_]


def wanda_mask(weight: ArrayLike, X: ArrayLike, rho: float, *, prune_n: int = 0, prune_m: int = 0) -> PrunedMask:
    """Wanda's mask: in each output row, prune the inputs with the smallest ``|weight_ij| * ||X_j||_2``.

    Unstructured: the first ``int(in * rho)`` of a stable ascending sort of each row, so ties go to the lower index.
    N:M: in each group of `prune_m` consecutive inputs the `prune_n` smallest are PRUNED (2:4 prunes two of four;
    others count what they keep); ties go to the lower index, which the original leaves to ``topk``.

    Parameters
    ----------
    weight : (out, in) array
        As in a linear layer: rows are outputs. The paper's W_Q acts as ``X W_Q``, so its layer weight is ``W_Q.T``.
    X : (sequences, tokens, in) or (tokens, in) array
        Inputs of the layer. Wanda divides by the number of sequences; a common factor does not change the mask.
    rho : float
        Pruning ratio in [0, 1]; ignored when ``prune_m > 0``.
    prune_n, prune_m : int
        Pruned per group, and group size; 0 and 0 for unstructured.

    Returns
    -------
    (out, in) bool array
        True = pruned. ``.kept`` is 1 where a weight stays: ``weight * wanda_mask(weight, X, rho).kept``.

    Raises
    ------
    InvalidInstance
        If arrays are empty, not finite or disagree in `in`, `rho` is outside [0, 1], ``prune_n > prune_m``, or `in`
        is no multiple of `prune_m`.

    Examples
    --------
    >>> wanda_mask([[1.0, -2.0], [4.0, 1.0]], [[4.0, 1.0], [0.0, 1.0]], 0.5)
    PrunedMask([[False,  True],
                [False,  True]])
    """
    return PrunedMask.of(wanda_report(weight, X, rho, prune_n=prune_n, prune_m=prune_m).pruned)


def wanda_report(weight: ArrayLike, X: ArrayLike, rho: float, *, prune_n: int = 0, prune_m: int = 0) -> WandaReport:
    """`wanda_mask` with the entries that another correct program could decide otherwise.

    Examples
    --------
    >>> report = wanda_report([[1.0, 1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0, 1.0]], 0.25)
    >>> report.pruned
    array([[ True, False, False, False]])
    >>> report.undecided
    array([[ True,  True, False, False]])
    """
    weights, inputs = linear_layer(weight, X)
    rows, columns = weights.shape
    n, m = check_groups(prune_n, prune_m, columns)
    ratio = as_ratio(rho)
    scores = np.abs(_to_unit_scale(weights)) * np.linalg.norm(_to_unit_scale(inputs), axis=(0, 1))
    groups = scores.reshape(rows, -1, m or columns)
    pruned = smallest(groups, n if m else pruned_count(ratio, columns))
    doubtful = undecided(groups, _TOLERANCE * groups, pruned)
    return WandaReport(pruned.reshape(weights.shape), doubtful.reshape(weights.shape))


def _to_unit_scale(array: Array) -> Array:
    """float64, times the power of two that brings the largest entry into [1/2, 1): exact, and no square overflows."""
    wide = array.astype(np.float64)
    exponent = int(np.frexp(np.abs(wide).max())[1])
    return np.asarray(np.ldexp(wide, -exponent))
