"""Local search for N:M patterns: exchange what a group of inputs keeps, as long as that lowers the two-sided objective.

With D = W - target the objective is f = tr(D^T H D G) / 2 and its gradient R = H D G. For output c and a group of
inputs, let S be a support of N of them and P the others. Setting w_P = 0 and moving w_S to where it is best, everything
else fixed, changes f by

::

    v_S = r . delta + G_cc delta^T H_gg delta / 2,   delta_P = -w_P,   delta_S = -H_SS^-1 (r_S / G_cc + H_SP delta_P)

(r and H_gg: R and H on the group). The search ends when v_S >= 0 for every support other than the present one.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from attnprune_verify.algorithms.matrix.budget import Pattern
from attnprune_verify.algorithms.matrix.two_sided import Pruned, in_metric
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.instance.validate import Array

__all__ = ["best_exchange", "exchange", "two_sided_objective"]

_TOLERANCE = 1e-7  # of the objective: smaller gains are left
_TOGETHER = 16  # groups whose moves are looked at together
_MOST_SUPPORTS = 70  # 4:8; larger groups stay as the pass chose them


def exchange(pruned: Pruned, target: Array, H: Array, G: Array | None, pattern: Pattern, sweeps: int) -> Pruned:
    """Sweep over the groups until no exchange lowers the objective (or `sweeps` are done); it never rises.

    Parameters
    ----------
    pruned : Pruned
        Weights (blocks, d, m) of that pattern.
    target : (blocks, d, m) array
    H, G : (d, d) and (blocks, m, m) arrays, as in `prune_two_sided`
    pattern : Pattern
    sweeps : int
    """
    if not 0 < pattern.kept < pattern.group or comb(pattern.group, pattern.kept) > _MOST_SUPPORTS:
        return pruned
    search = _Search(pruned, target, H, G, pattern)
    for _ in range(sweeps):
        if not any([search.improve(int(group)) for group in np.flatnonzero(search.gains() > _TOLERANCE)]):
            break
    return Pruned(search.weight, search.kept)


def two_sided_objective(weight: Array, target: Array, H: Array, G: Array | None) -> float:
    """tr(D^T H D G) / 2 over all blocks, D = weight - target."""
    change = weight - target
    return float(np.vdot(change, in_metric(change, H, G))) / 2


def best_exchange(pruned: Pruned, target: Array, H: Array, G: Array | None, pattern: Pattern) -> float:
    """By how much the best single exchange would lower the objective, relative to it; computed anew from the weights.

    At most 1e-7 where `exchange` ended by itself: its certificate.
    """
    return max(0.0, float(_Search(pruned, target, H, G, pattern).gains().max()))


class _Search:
    """Weights, their gradient and objective, kept up to date."""

    def __init__(self, pruned: Pruned, target: Array, H: Array, G: Array | None, pattern: Pattern) -> None:
        self.weight, self.kept = pruned.weight.copy(), pruned.kept.copy()
        self.H, self.G, self.group = H, G, pattern.group
        blocks, _, m = self.weight.shape
        self.scale = np.ones((blocks, m)) if G is None else np.diagonal(G, axis1=1, axis2=2)
        self.gradient = in_metric(self.weight - target, H, G)
        self.objective = float(np.vdot(self.weight - target, self.gradient)) / 2
        chosen = [list(support) for support in combinations(range(pattern.group), pattern.kept)]
        self.supports = np.zeros((len(chosen), pattern.group), dtype=np.bool_)
        np.put_along_axis(self.supports, np.array(chosen), True, axis=1)

    def gains(self) -> Array:
        """What the best exchange of each group alone would take off the objective, relative to it; (groups,)."""
        groups = len(self.H) // self.group
        found = [self.moves(slice(start, start + _TOGETHER))[2] for start in range(0, groups, _TOGETHER)]
        best = np.concatenate([change.min(axis=(0, 2, 3)) for change in found])
        return -best / self.objective if self.objective > 0 else np.zeros(groups)

    def improve(self, group: int) -> bool:
        """Exchange in one group of inputs, for all outputs at once; whether anything changed.

        Outputs disturb each other through G: where all of them together gain too little, only the best ones move.
        """
        inputs = slice(group * self.group, (group + 1) * self.group)
        delta, change, other = (found[:, 0] for found in self.moves(slice(group, group + 1)))
        worth = other.min(axis=0) < -_TOLERANCE * self.objective
        if not worth.any():
            return False
        best = change.argmin(axis=0)
        gains = np.where(worth, -np.take_along_axis(change, best[np.newaxis], axis=0)[0], 0.0)
        full = np.take_along_axis(delta, best[np.newaxis, :, np.newaxis], axis=0)[0]
        count = int(np.count_nonzero(worth))
        while True:
            chosen = smallest(-gains.ravel(), count).reshape(gains.shape)[:, np.newaxis]
            step = np.where(chosen, full, 0.0)
            image = step if self.G is None else step @ self.G
            fall = -float(np.vdot(step, self.gradient[:, inputs]) + np.vdot(image, self.H[inputs, inputs] @ step) / 2)
            if count == 1 or fall > gains[chosen[:, 0]].sum() / 2:
                break
            count = max(1, count // 4)
        self.kept[:, inputs] = np.where(chosen, self.supports[best].swapaxes(1, 2), self.kept[:, inputs])
        self.weight[:, inputs] = np.where(self.kept[:, inputs], self.weight[:, inputs] + step, 0.0)
        self.gradient += self.H[:, inputs] @ image
        self.objective -= fall
        return True

    def moves(self, groups: slice) -> tuple[Array, Array, Array]:
        """The best delta for every support, by how much it changes f, and the same with the present support left out.

        (supports, groups, blocks, M, m) and twice (supports, groups, blocks, m).
        """
        M, blocks, m = self.group, len(self.weight), self.weight.shape[2]
        first = np.arange(groups.start, min(groups.stop, len(self.H) // M))[:, np.newaxis] * M
        inputs = first + np.arange(M)
        H = self.H[inputs[:, :, np.newaxis], inputs[:, np.newaxis]]
        w, r = (side[:, inputs].swapaxes(0, 1) for side in (self.weight, self.gradient))
        scale = self.scale[:, np.newaxis]
        deltas = np.empty((len(self.supports), len(first), blocks, M, m))
        for delta, S in zip(deltas, self.supports, strict=True):
            inverse = np.linalg.inv(H[:, S][:, :, S])[:, np.newaxis]
            delta[:, :, ~S] = -w[:, :, ~S]
            delta[:, :, S] = inverse @ (H[:, S][:, :, ~S][:, np.newaxis] @ w[:, :, ~S] - r[:, :, S] / scale)
        change = (deltas * (r + scale * (H[:, np.newaxis] @ deltas) / 2)).sum(axis=3)
        present = (self.kept[:, inputs].swapaxes(0, 1) == self.supports[:, np.newaxis, np.newaxis, :, np.newaxis]).all(
            axis=3
        )
        return deltas, change, np.where(present, np.inf, change)
