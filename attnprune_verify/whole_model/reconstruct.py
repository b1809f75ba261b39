"""A pruned block moved towards what the dense one puts out: a few steps of Adam on the weights that are kept.

With p the pruned block's output on what the pruned blocks before it give, and y the dense block's on what the dense
ones give,

::

    loss = sum over tokens |p - y|^2 / sum over tokens |y|^2

Masks stay as they are. Each map's steps are as large as its weights are, over the square root of its number of inputs:
Adam's steps have the signs of gradients, which add up at an output. They get smaller to the end. An eighth of the
windows is held back; of the way from the pruned weights to the moved ones, the share that serves them best is gone.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.algorithms.arrays import AnyArray, masked, xp_of
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix

Slopes: TypeAlias = Callable[[Mapping[Any, AnyArray], int], Mapping[Any, AnyArray]]
"""Gradients of one window's loss at some weights (out, in), by the names of their maps."""
RATE = 0.2
"""First step times the square root of the inputs, in root mean squares of the map's kept weights; chosen: 0.16, 0.2
and 0.24 leave as much of the KL on the model of the tests."""
HELD = 8
"""Of so many windows one is held back; chosen: with one of 4 the others are too few on the model of the tests."""
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Of the way, of which the held windows choose; the last is to stay."""
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
    pruned: Mapping[Any, PrunedMatrix],
    slopes: Slopes,
    error: Callable[[Mapping[Any, AnyArray], int], float],
    windows: int,
    steps: int | None,
    seed: int,
) -> dict[Any, PrunedMatrix]:
    """Return the pruned maps with new weights and the same masks.

    Parameters
    ----------
    pruned : mapping of name to PrunedMatrix
    slopes : callable
        ``(weights, window)`` to gradients.
    error : callable
        ``(weights, window)`` to the loss.
    windows : int
        How many there are; a single one is stepped on, and none is held back.
    steps : int or None
        The number that is taken, a window each; None takes `steps_for`.
    seed : int
        Of the order of windows; all that are not held back come before one comes again.
    """
    before = {name: matrix.weight for name, matrix in pruned.items()}
    weights = dict(before)
    scales = {name: RATE * matrix.weight.shape[1] ** -0.5 * _size(matrix) for name, matrix in pruned.items()}
    means = {name: xp_of(weight).zeros_like(weight) for name, weight in weights.items()}
    squares = dict(means)
    draw, steps = np.random.default_rng((seed, windows)), steps_for(windows) if steps is None else steps
    held, seen = np.split(draw.permutation(windows), [-(-windows // HELD) if windows > 1 else 0])
    order = [int(window) for _ in range(-(-steps // len(seen))) for window in draw.permutation(seen)]
    for step, window in enumerate(order[:steps], 1):
        slope_of = slopes(weights, window)
        pace = (1 - (step - 1) / steps) / (1 - _MEAN**step)
        for name, matrix in pruned.items():
            slope = slope_of[name]
            means[name] = _MEAN * means[name] + (1 - _MEAN) * slope
            squares[name] = _SQUARE * squares[name] + (1 - _SQUARE) * slope**2
            root = xp_of(slope).sqrt(squares[name] / (1 - _SQUARE**step)) + _TINY
            weights[name] = masked(matrix.kept, weights[name] - scales[name] * pace * means[name] / root)
    ways = [{name: old + share * (weights[name] - old) for name, old in before.items()} for share in _SHARES]
    best = min(ways, key=lambda way: sum(error(way, int(window)) for window in held))
    return {name: PrunedMatrix(best[name], matrix.kept) for name, matrix in pruned.items()}


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
