"""Masks that leave the kept weights as they are: random, magnitude, and the Fisher diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher import fisher_diagonal
from attnprune_verify.algorithms.layer.heads import keep_largest
from attnprune_verify.values import as_choice

__all__ = ["FisherDiagonal", "fisher_diagonal_masks", "magnitude_masks", "random_masks"]

Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def random_masks(data: Calibration, rho: float, seed: int) -> Masks:
    """Return uniformly random masks; a method that learns must do better."""
    rng = np.random.default_rng(seed)
    return keep_largest(rng.random(data.W_Q.shape), rho), keep_largest(rng.random(data.W_K.shape), rho)


def magnitude_masks(data: Calibration, rho: float) -> Masks:
    """The largest |w| of every head."""
    return keep_largest(np.abs(data.W_Q), rho), keep_largest(np.abs(data.W_K), rho)


@dataclass(frozen=True)
class FisherDiagonal:
    """Options of the method ``fisher-diagonal``.

    Attributes
    ----------
    threshold : "head" or "layer"
        Over each head's block, or over all heads together: then the counts are exact per matrix only, and heads on
        which little depends in absolute terms are emptied.
    """

    threshold: Literal["head", "layer"] = "head"

    def __post_init__(self) -> None:
        as_choice("threshold", self.threshold, ("head", "layer"))


def fisher_diagonal_masks(data: Calibration, rho: float, options: FisherDiagonal) -> Masks:
    """The largest w^2 h, h the KL's second derivative in that weight (`fisher_diagonal`)."""
    h_Q, h_K = fisher_diagonal(data)
    scores_Q, scores_K = data.W_Q**2 * h_Q, data.W_K**2 * h_K
    if options.threshold == "head":
        return keep_largest(scores_Q, rho), keep_largest(scores_K, rho)
    return keep_largest(scores_Q[np.newaxis], rho)[0], keep_largest(scores_K[np.newaxis], rho)[0]
