"""Masks that depend on the weights only, or on nothing."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.baselines.pruned import PrunedMask
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.instance.validate import as_real
from attnprune_verify.values import as_ratio


def magnitude_mask(weight: ArrayLike, rho: float) -> PrunedMask:
    """Prune the entries of least magnitude in the whole matrix: True at exactly ``floor(rho * weight.size)`` of them.

    Of equal magnitudes the one with the lower flat index goes first. (The magnitude baseline in Wanda's repository
    prunes every entry ``<=`` the entry at that index of the sorted list: one more, and all ties.)

    Parameters
    ----------
    weight : (out, in) array
        Any layout: the result does not depend on the axes' meaning, only the order of ties does.
    rho : float
        Pruning ratio in [0, 1].

    Returns
    -------
    (out, in) bool array
        True = pruned. ``.kept`` is 1 where a weight stays: ``weight * magnitude_mask(weight, rho).kept``.

    Raises
    ------
    InvalidInstance
        If `weight` is empty or not finite, or `rho` is outside [0, 1].

    Examples
    --------
    >>> mask = magnitude_mask([[-3.0, 1.0], [0.5, -0.1]], 0.5)
    >>> mask
    PrunedMask([[False, False],
                [ True,  True]])
    >>> mask.kept
    array([[1., 1.],
           [0., 0.]])
    """
    values, ratio = as_real("weight", weight), as_ratio(rho)
    return PrunedMask.of(smallest(np.abs(values).ravel(), pruned_count(ratio, values.size)).reshape(values.shape))


def random_mask(shape: tuple[int, ...], rho: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask with ``floor(rho * size)`` True (pruned) entries, drawn uniformly: a method that learns must do better.

    Examples
    --------
    >>> int(random_mask((4, 4), 0.5, np.random.default_rng(0)).sum())
    8
    """
    size = int(np.prod(shape))
    pruned = np.zeros(size, dtype=np.bool_)
    pruned[rng.choice(size, pruned_count(as_ratio(rho), size), replace=False)] = True
    return pruned.reshape(shape)
