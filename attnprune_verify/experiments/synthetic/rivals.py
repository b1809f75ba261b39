"""Every baseline of the synthetic experiment, as the fused weight it leaves."""

from collections.abc import Iterator

import numpy as np

from attnprune_verify.algorithms.baselines.magnitude import random_mask
from attnprune_verify.algorithms.baselines.table import BASELINES, prune_by
from attnprune_verify.experiments.synthetic.data import SyntheticProblem
from attnprune_verify.instance.validate import Array

RIVALS = {
    **{name: f"{name} on W_Q and W_K" for name in BASELINES},
    **{f"{name}-fused": f"{name} on W" for name in BASELINES},
    "random-fused": "random mask on W",
    "everything": "everything pruned",
}


def rivals(problem: SyntheticProblem, rho: float) -> Iterator[tuple[str, Array]]:
    """(name, fused weight) of every baseline at ratio `rho`.

    A matrix acts as ``X W``, so the weight of its linear layer, (out, in), is its transpose.
    """
    X, W_Q, W_K, W = problem.X, problem.W_Q, problem.W_K, problem.W
    for name in BASELINES:
        yield name, problem.fused(*(prune_by(name, part.T, X, rho)[0].T for part in (W_Q, W_K)))
        yield f"{name}-fused", prune_by(name, W.T, X, rho)[0].T
    rng = np.random.default_rng([problem.cell.seed, 1])
    yield "random-fused", np.where(random_mask(W.shape, rho, rng), 0, W)
    yield "everything", np.zeros_like(W)
