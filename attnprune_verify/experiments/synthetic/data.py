"""The synthetic problems of Section 6.1: their random draw, and the error of an approximated attention."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnprune_verify.instance.families import paper_synthetic
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.functions import attention

Weights = Literal["independent", "shared"]


@dataclass(frozen=True)
class Cell:
    """One draw of the data.

    Attributes
    ----------
    weights : "independent" or "shared"
        Whether W_Q and W_K come from two Gaussian matrices or are one and the same; the text allows both.
    seed, k, n, d, rank : int
    scale : float
        Factor of the logits; the text has none (1.0). See docs/beyond_the_paper.md.
    """

    weights: Weights
    seed: int
    k: int
    n: int
    d: int = 64
    rank: int = 4
    scale: float = 1.0


@dataclass(frozen=True)
class AttentionErrors:
    """Relative errors of an attention matrix, in [0, 2], on the calibration samples and on fresh ones of the same law.

    `*_mean` averages ||F' - F||^2 / ||F||^2 over the samples; `*_pooled` divides the sum of the numerators by the sum
    of the denominators. (The text does not say which; they differ little.)
    """

    in_mean: float
    out_mean: float
    in_pooled: float
    out_pooled: float


class SyntheticProblem:
    """Weights, calibration samples, fresh samples, and the dense attention of both."""

    def __init__(self, cell: Cell) -> None:
        rng = np.random.default_rng(cell.seed)
        drawn = paper_synthetic(rng, n=cell.n, d=cell.d, k=cell.k, rank=cell.rank, shared=cell.weights == "shared")
        assert drawn.W_Q is not None and drawn.W_K is not None  # the family gives the pair
        self.cell = cell
        self.W_Q, self.W_K = drawn.W_Q, drawn.W_K
        self.X = drawn.X
        self.fresh = rng.standard_normal(self.X.shape)
        self.W = self.fused(self.W_Q, self.W_K)
        self._dense = [[attention(sample, self.W, "causal") for sample in X] for X in (self.X, self.fresh)]

    def fused(self, W_Q: Array, W_K: Array) -> Array:
        """The matrix between X and X^T that a pair of weights means."""
        return np.asarray(self.cell.scale * (W_Q @ W_K.T))

    def errors(self, weight: Array) -> AttentionErrors:
        """Return the errors of the attention with another fused weight, relative to the dense one."""
        means, pooled = [], []
        for X, dense in zip((self.X, self.fresh), self._dense, strict=True):
            differences = np.array(
                [np.sum((attention(x, weight, "causal") - F) ** 2) for x, F in zip(X, dense, strict=True)]
            )
            sizes = np.array([np.sum(F**2) for F in dense])
            means.append(float(np.mean(differences / sizes)))
            pooled.append(float(differences.sum() / sizes.sum()))
        return AttentionErrors(means[0], means[1], pooled[0], pooled[1])


def draw(cell: Cell) -> SyntheticProblem:
    """The problem of a cell: weights depend on seed and kind only, so that sweeps over n and k share them."""
    return SyntheticProblem(cell)
