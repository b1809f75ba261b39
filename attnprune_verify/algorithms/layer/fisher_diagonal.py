"""Pruning by the diagonal of the softmax's Fisher metric: masks of the largest w^2 h."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_masks
from attnprune_verify.algorithms.layer.fisher import fisher_diagonal
from attnprune_verify.algorithms.layer.heads import keep_largest
from attnprune_verify.values import as_choice


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


def prune_fisher_diagonal(data: Calibration, rho: float, options: FisherDiagonal) -> LayerOutcome:
    """The largest w^2 h, h the KL's second derivative in that weight (`fisher_diagonal`)."""
    h_Q, h_K = fisher_diagonal(data)
    scores = data.W_Q**2 * h_Q, data.W_K**2 * h_K
    if options.threshold == "head":
        return by_masks(data, (keep_largest(scores[0], rho), keep_largest(scores[1], rho)))
    return by_masks(data, (keep_largest(scores[0][np.newaxis], rho)[0], keep_largest(scores[1][np.newaxis], rho)[0]))
