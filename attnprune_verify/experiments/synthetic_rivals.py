"""Every baseline of the synthetic experiment, as the fused weight it leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask, random_mask
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt
from attnprune_verify.algorithms.baselines.wanda import wanda_mask
from attnprune_verify.experiments.synthetic_data import Problem
from attnprune_verify.instance.validate import Array

__all__ = ["RIVALS", "rivals"]

RIVALS = {
    "wanda": "Wanda on W_Q and W_K",
    "sparsegpt": "SparseGPT on W_Q and W_K",
    "magnitude": "smallest weights of W_Q and of W_K",
    "wanda-fused": "Wanda on W",
    "sparsegpt-fused": "SparseGPT on W",
    "magnitude-fused": "smallest weights of W",
    "random-fused": "random mask on W",
    "everything": "everything pruned",
}


def rivals(problem: Problem, rho: float) -> Iterator[tuple[str, Array]]:
    """(name, fused weight) of every baseline at ratio `rho`.

    A matrix acts as ``X W``, so the weight of its linear layer, (out, in), is its transpose.
    """
    X, W_Q, W_K, W = problem.X, problem.W_Q, problem.W_K, problem.W
    rng = np.random.default_rng([problem.cell.seed, 1])
    yield "wanda", problem.fused(*(np.where(wanda_mask(part.T, X, rho).T, 0, part) for part in (W_Q, W_K)))
    yield "sparsegpt", problem.fused(*(sparsegpt(part.T, X, rho)[0].T for part in (W_Q, W_K)))
    yield "magnitude", problem.fused(*(np.where(magnitude_mask(part, rho), 0, part) for part in (W_Q, W_K)))
    yield "wanda-fused", np.where(wanda_mask(W.T, X, rho).T, 0, W)
    yield "sparsegpt-fused", sparsegpt(W.T, X, rho)[0].T
    yield "magnitude-fused", np.where(magnitude_mask(W, rho), 0, W)
    yield "random-fused", np.where(random_mask(W.shape, rho, rng), 0, W)
    yield "everything", np.zeros_like(W)
