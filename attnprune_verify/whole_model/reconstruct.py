"""A pruned block moved towards what the dense one puts out: a few steps of Adam on the weights that are kept.

With p the pruned block's output on what the pruned blocks before it give, and y the dense block's on what the dense
ones give,

::

    loss = sum over tokens |p - y|^2 / sum over tokens |y|^2

Masks stay as they are. Each map's steps are as large as its weights are, and get smaller to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.algorithms.arrays import AnyArray, masked, xp_of
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix

__all__ = ["ECHOES", "RATE", "Slopes", "reconstructed", "steps_for"]

Slopes: TypeAlias = Callable[[Mapping[Any, AnyArray], int], Mapping[Any, AnyArray]]
"""Gradients of one window's loss at some weights (out, in), by the names of their maps."""
RATE = 0.02
"""First step, in root mean squares of its map's kept weights; chosen: with 60 steps 0.02 leaves 0.98 of the KL of 0.015
on the model of the tests (means of two draws)."""
ECHOES = 2
"""Windows drawn from the dense model for each real one, where steps would see the same ones again (`echoes`); chosen:
with 60 steps of rate 0.015 one, two and four of each of 8 windows leave 0.92, 0.91 and 0.89 of the KL that none leave,
on the model of the tests (means of two draws)."""
_STEPS, _ROUNDS = 50, 5
"""Steps where none are prescribed, and how often they see a window at most; chosen: with 50 of them output-obs takes
less than three times its own time on small models; 60 do not, and leave 0.97 of the KL (means of two draws)."""
_MEAN, _SQUARE, _TINY = 0.9, 0.95, 1e-12
"""Decays of Adam's averages, the second as short as a few dozen steps need; and what keeps 0 / 0 away."""


def reconstructed(
    pruned: Mapping[Any, PrunedMatrix], slopes: Slopes, windows: int, steps: int | None, seed: int
) -> dict[Any, PrunedMatrix]:
    """Return the pruned maps with new weights and the same masks.

    Parameters
    ----------
    pruned : mapping of name to PrunedMatrix
    slopes : callable
        ``(weights, window)`` to gradients.
    windows : int
        How many there are.
    steps : int or None
        The number that is taken, a window each; None takes `steps_for`.
    seed : int
        Of the order of windows; all of them come before one comes again.
    """
    weights = {name: matrix.weight for name, matrix in pruned.items()}
    scales = {name: RATE * _size(matrix) for name, matrix in pruned.items()}
    means = {name: xp_of(weight).zeros_like(weight) for name, weight in weights.items()}
    squares = dict(means)
    draw, steps = np.random.default_rng((seed, windows)), steps_for(windows) if steps is None else steps
    order = [int(window) for _ in range(-(-steps // windows)) for window in draw.permutation(windows)]
    for step, window in enumerate(order[:steps], 1):
        slope_of = slopes(weights, window)
        pace = (1 - (step - 1) / steps) / (1 - _MEAN**step)
        for name, matrix in pruned.items():
            slope = slope_of[name]
            means[name] = _MEAN * means[name] + (1 - _MEAN) * slope
            squares[name] = _SQUARE * squares[name] + (1 - _SQUARE) * slope**2
            root = xp_of(slope).sqrt(squares[name] / (1 - _SQUARE**step)) + _TINY
            weights[name] = masked(matrix.kept, weights[name] - scales[name] * pace * means[name] / root)
    return {name: PrunedMatrix(weights[name], matrix.kept) for name, matrix in pruned.items()}


def steps_for(windows: int) -> int:
    """Return the default number of steps for a number of windows, echoes included.

    Examples
    --------
    >>> steps_for(2), steps_for(128)
    (10, 50)
    """
    return min(_STEPS, _ROUNDS * windows)


def _size(matrix: PrunedMatrix) -> float:
    """The root mean square of what is kept."""
    xp = xp_of(matrix.weight)
    count = max(int(xp.count_nonzero(matrix.kept)), 1)
    return float(xp.sqrt(xp.sum(matrix.weight**2) / count))
