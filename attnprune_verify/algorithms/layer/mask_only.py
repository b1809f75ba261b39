"""Masks that leave the kept weights as they are: random, magnitude, Wanda, and the Fisher diagonal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.baselines.wanda import wanda_mask
from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher import fisher_diagonal
from attnprune_verify.algorithms.layer.heads import keep_largest
from attnprune_verify.instance.validate import Array

__all__ = ["fisher_diagonal_masks", "magnitude_masks", "random_masks", "wanda_kept"]

Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def random_masks(data: Calibration, rho: float, seed: int) -> Masks:
    """Uniformly random masks: what a method must beat to have learnt anything."""
    rng = np.random.default_rng(seed)
    return keep_largest(rng.random(data.W_Q.shape), rho), keep_largest(rng.random(data.W_K.shape), rho)


def magnitude_masks(data: Calibration, rho: float) -> Masks:
    """The largest |w| of every head."""
    return keep_largest(np.abs(data.W_Q), rho), keep_largest(np.abs(data.W_K), rho)


def fisher_diagonal_masks(data: Calibration, rho: float) -> Masks:
    """The largest w^2 h of every head, h the KL's second derivative in that weight (`fisher_diagonal`)."""
    h_Q, h_K = fisher_diagonal(data)
    return keep_largest(data.W_Q**2 * h_Q, rho), keep_largest(data.W_K**2 * h_K, rho)


def wanda_kept(weight: Array, X: Array, rho: float) -> NDArray[np.bool_]:
    """Wanda's own convention on a weight (in, out): floor(rho * in) per output, heads do not matter."""
    return ~wanda_mask(weight.T, X, rho).T
