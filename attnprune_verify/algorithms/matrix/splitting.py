"""Where the zeros go, by operator splitting: least squares over all weights on one side, the budget on the other.

The splitting and its penalty schedule are those of ALPS (Meng, Behdin, Wang, Mazumder, arXiv 2406.07831); the metric on
the outputs is ours. For f(W) = tr((W - T)^T H (W - T) G) / 2 and a copy D that obeys the budget,

::

    W = argmin f(W) + (penalty / 2) ||W - D + V / penalty||^2
    D = W + V / penalty with all but the largest entries set to 0
    V = V + penalty (W - D)

With H = A diag(a) A^T and G = B diag(b) B^T the first step is exact and cheap: H W G + penalty W = R has the solution
A [(A^T R B) / (a b^T + penalty)] B^T. Both metrics are brought to unit diagonals first, so that entries compare.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.budget import Budget
from attnprune_verify.algorithms.matrix.two_sided import Pruned, by_block, in_metric, side_by_side
from attnprune_verify.instance.validate import Array

__all__ = ["split"]

_PENALTY, _ITERATIONS, _LOOK_EVERY, _SETTLED_FROM = 0.1, 300, 3, 30
_GROWTH = ((0.1, 1.3), (0.005, 1.2), (0.0, 1.1))  # factor of the penalty where more than this share of the kept changed
_SETTLED = 0.0003


def split(target: Array, H: Array, G: Array | None, budget: Budget) -> Pruned:
    """Prune `target` (blocks, d, m) in the metric of H (d, d) and G (blocks, m, m); None is the identity.

    Iterates in float32: they only decide which weights are kept. What is returned is W on them, to be refitted.
    """
    problem = _Problem(target, H, G)
    start = problem.project(problem.target, budget)
    penalty, growing = _PENALTY, False
    W, D, V, support = start, start, np.zeros_like(start), start != 0
    for iteration in range(1, _ITERATIONS + 1):
        W = problem.least_squares(D, V, penalty)
        D = problem.project(W + V / penalty, budget)
        V = V + penalty * (W - D)
        if iteration % _LOOK_EVERY:
            continue
        now = D != 0
        changed, kept = int(np.count_nonzero(now != support)), max(1, int(np.count_nonzero(now)))
        support = now
        if changed > _GROWTH[1][0] * kept or (changed and growing):
            growing = True
            penalty *= next(factor for share, factor in _GROWTH if changed > share * kept)
        elif growing:
            break
        else:  # too stiff from the beginning: nothing moved
            penalty /= 5
            if changed:
                D, V = start, np.zeros_like(start)
        if iteration >= _SETTLED_FROM and changed < _SETTLED * kept:
            break
    return problem.finish(W, budget)


class _Problem:
    """The problem in units in which both metrics have a diagonal of ones."""

    def __init__(self, target: Array, H: Array, G: Array | None) -> None:
        of_inputs = np.sqrt(np.diag(H))
        of_outputs = np.ones((1, 1)) if G is None else np.sqrt(np.diagonal(G, axis1=1, axis2=2))
        self.units = of_inputs[:, np.newaxis] * of_outputs[:, np.newaxis]
        H = H / np.outer(of_inputs, of_inputs)
        a, self.A = _decomposed(H)
        self.target = (target * self.units).astype(np.float32)
        self.B: Array | None = None
        b = np.ones((1, 1))
        if G is not None:
            G = G / (of_outputs[:, :, np.newaxis] * of_outputs[:, np.newaxis])
            b, B = np.linalg.eigh(G)
            self.B = B.astype(np.float32)
        self.curvature = (a[:, np.newaxis] * b[:, np.newaxis]).astype(np.float32)
        self.slope = in_metric(target * self.units, H, G).astype(np.float32)

    def least_squares(self, D: Array, V: Array, penalty: float) -> Array:
        """argmin f(W) + (penalty / 2) ||W - D + V / penalty||^2."""
        right = self.slope - V
        right += np.float32(penalty) * D
        rotated = by_block(self.A.T @ side_by_side(right), len(D))
        if self.B is not None:
            rotated = rotated @ self.B
        rotated = rotated / (self.curvature + np.float32(penalty))
        if self.B is not None:
            rotated = rotated @ self.B.swapaxes(1, 2)
        return by_block(self.A @ side_by_side(rotated), len(D))

    def project(self, W: Array, budget: Budget) -> Array:
        """W with what the budget gives up set to 0."""
        return np.where(budget.choose(np.abs(W), 0), np.float32(0), W)

    def finish(self, W: Array, budget: Budget) -> Pruned:
        """Back in the weights' own units."""
        kept: NDArray[np.bool_] = ~budget.choose(np.abs(W), 0)
        return Pruned(np.where(kept, W / self.units, 0.0), kept)


_LATEST: dict[str, tuple[Array, Array]] = {}
_KEPT_UP_TO = 4096  # features: 64 MiB


def _decomposed(H: Array) -> tuple[Array, Array]:
    """Eigenvalues, and eigenvectors in float32; maps with the same inputs follow each other, so the latest is kept."""
    key = hashlib.sha256(H.tobytes()).hexdigest()
    found = _LATEST.get(key)
    if found is None:
        a, A = np.linalg.eigh(H)
        found = a, A.astype(np.float32)
        _LATEST.clear()
        if len(H) <= _KEPT_UP_TO:
            _LATEST[key] = found
    return found
