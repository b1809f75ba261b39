"""Baselines on a layer: random and magnitude masks of every head, and rivals as their authors do."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attnprune_verify.algorithms.baselines.table import prune_by
from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_masks, by_outputs
from attnprune_verify.algorithms.layer.heads import keep_largest
from attnprune_verify.algorithms.matrix.baselines import prune_magnitude
from attnprune_verify.algorithms.matrix.budget import Pattern
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.values import as_count


@dataclass(frozen=True)
class Random:
    """Options of the method ``random``."""

    seed: int = 0

    def __post_init__(self) -> None:
        as_count("seed", self.seed)


def prune_random(data: Calibration, rho: float, options: Random) -> LayerOutcome:
    """Return uniformly random masks; a method that learns must do better."""
    rng = np.random.default_rng(options.seed)
    return by_masks(
        data, (keep_largest(rng.random(data.W_Q.shape), rho), keep_largest(rng.random(data.W_K.shape), rho))
    )


def prune_heads_by_magnitude(data: Calibration, goal: float | Pattern, _: object) -> LayerOutcome:
    """The largest |w| of every head, or of every group of a pattern."""
    if isinstance(goal, Pattern):
        return by_outputs(*(prune_magnitude(W.T, None, None, goal) for W in (data.layer.W_Q, data.layer.W_K)))
    return by_masks(data, (keep_largest(np.abs(data.W_Q), goal), keep_largest(np.abs(data.W_K), goal)))


def own_convention(name: str, data: Calibration, goal: float | Pattern, options: Any) -> LayerOutcome:
    """Prune by the baseline of that name in its own convention, on the linear layers W_Q^T and W_K^T."""
    settings = asdict(options)
    if isinstance(goal, Pattern):
        settings |= {"prune_n": goal.group - goal.kept, "prune_m": goal.group}
    rho = goal if isinstance(goal, float) else 0.0
    new = (prune_by(name, W.T, data.X, rho, **settings) for W in (data.layer.W_Q, data.layer.W_K))
    return by_outputs(*(PrunedMatrix(weight, ~gone) for weight, gone in new))
