"""A 0/1 mask learnt by descent on the attention's KL: hard in the forward pass, straight through in the backward."""

from dataclasses import dataclass

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_masks
from attnprune_verify.algorithms.layer.divergence import Divergence
from attnprune_verify.algorithms.layer.fisher import fisher_diagonal
from attnprune_verify.algorithms.layer.heads import keep_largest
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_count, as_positive

_DECAY_FIRST, _DECAY_SECOND, _EPS = 0.9, 0.999, 1e-8  # Adam's own defaults (Kingma and Ba 2015)


@dataclass(frozen=True)
class STE:
    """Options of the method ``ste``.

    Attributes
    ----------
    steps : int
        Adam steps.
    step_size : float
        At the start; it decays to 0 as a cosine.
    """

    steps: int = 150
    step_size: float = 0.03

    def __post_init__(self) -> None:
        as_count("steps", self.steps)
        as_positive("step_size", self.step_size)


def learn_masks(data: Calibration, rho: float, options: STE) -> LayerOutcome:
    """The masks after `steps` steps; the kept weights do not change.

    Scores start at log(w^2 h) of the Fisher diagonal. Each step masks all but the best scores of every head, takes the
    KL's gradient g in the masked weights, and hands w * g, the derivative in a mask entry, straight to the scores.
    """
    dense = (data.W_Q, data.W_K)
    scores = [_log_saliency(W, h) for W, h in zip(dense, fisher_diagonal(data), strict=True)]
    first = [np.zeros_like(score) for score in scores]
    second = [np.zeros_like(score) for score in scores]
    divergence = Divergence(data)
    for step in range(options.steps):
        masked = [np.where(keep_largest(score, rho), W, 0.0) for score, W in zip(scores, dense, strict=True)]
        _, *gradients = divergence.value_and_gradient(*masked)
        rate = options.step_size * (1 + np.cos(np.pi * step / options.steps)) / 2
        for i, (W, gradient) in enumerate(zip(dense, gradients, strict=True)):
            slope = W * gradient
            first[i] = _DECAY_FIRST * first[i] + (1 - _DECAY_FIRST) * slope
            second[i] = _DECAY_SECOND * second[i] + (1 - _DECAY_SECOND) * slope**2
            mean = first[i] / (1 - _DECAY_FIRST ** (step + 1))
            spread = np.sqrt(second[i] / (1 - _DECAY_SECOND ** (step + 1)))
            # Adam's epsilon is relative: the KL has no natural scale, and a layer may be saturated.
            scores[i] = scores[i] - rate * mean / (spread + _EPS * (spread.max() or 1.0))
    return by_masks(data, (keep_largest(scores[0], rho), keep_largest(scores[1], rho)))


def _log_saliency(W: Array, h: Array) -> Array:
    saliency = W**2 * h
    smallest = saliency[saliency > 0].min(initial=1.0)
    return np.asarray(np.log(np.maximum(saliency, max(smallest * 1e-3, float(np.finfo(np.float64).tiny)))))
