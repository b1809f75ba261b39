"""Local search for N:M patterns: exchange what a group of inputs keeps, as long as that lowers the two-sided objective.

With D = W - target the objective is f = tr(D^T H D G) / 2 and its gradient R = H D G. For output c and a group of
inputs, let S be a support of N of them and P the others. Setting w_P = 0 and moving w_S to where it is best, everything
else fixed, changes f by

::

    v_S = r . delta + G_cc delta^T H_gg delta / 2,   delta_P = -w_P,   delta_S = -H_SS^-1 (r_S / G_cc + H_SP delta_P)

(r and H_gg: R and H on the group). The search ends when v_S >= 0 for every support other than the present one.
"""

from itertools import combinations
from math import comb

from array_api_compat import device

from attnprune_verify.algorithms.arrays import AnyArray, diagonal, dot, masked, xp_of
from attnprune_verify.algorithms.matrix.budget import Pattern
from attnprune_verify.algorithms.matrix.two_sided import Pruned, in_metric
from attnprune_verify.algorithms.selection import smallest

_TOLERANCE = 1e-7  # of the objective: smaller gains are left
_TOGETHER = 16  # groups whose moves are looked at together
_MOST_SUPPORTS = 70  # 4:8; larger groups stay as the pass chose them


def exchange(
    pruned: Pruned, target: AnyArray, H: AnyArray, G: AnyArray | None, pattern: Pattern, sweeps: int
) -> Pruned:
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
    search = _Exchange(pruned, target, H, G, pattern)
    for _ in range(sweeps):
        worth = xp_of(target).nonzero(search.gains() > _TOLERANCE)[0]
        if not any([search.improve(int(worth[i])) for i in range(worth.shape[0])]):
            break
    return Pruned(search.weight, search.kept)


def two_sided_objective(weight: AnyArray, target: AnyArray, H: AnyArray, G: AnyArray | None) -> float:
    """tr(D^T H D G) / 2 over all blocks, D = weight - target."""
    change = weight - target
    return dot(change, in_metric(change, H, G)) / 2


def best_exchange(pruned: Pruned, target: AnyArray, H: AnyArray, G: AnyArray | None, pattern: Pattern) -> float:
    """Relative decrease of the objective by the best single exchange, computed anew from the weights.

    At most 1e-7 where `exchange` ended by itself: its certificate.
    """
    return max(0.0, float(xp_of(target).max(_Exchange(pruned, target, H, G, pattern).gains())))


class _Exchange:
    """Weights, their gradient and objective, kept up to date."""

    def __init__(self, pruned: Pruned, target: AnyArray, H: AnyArray, G: AnyArray | None, pattern: Pattern) -> None:
        self.xp = xp = xp_of(target, H)
        self.weight, self.kept = (xp.asarray(part, copy=True) for part in pruned)
        self.H, self.G, self.group = H, G, pattern.group
        blocks, _, m = self.weight.shape
        self.scale = xp.ones((blocks, m), dtype=H.dtype, device=device(H)) if G is None else diagonal(G)
        self.gradient = in_metric(self.weight - target, H, G)
        self.objective = dot(self.weight - target, self.gradient) / 2
        self.chosen = [list(support) for support in combinations(range(pattern.group), pattern.kept)]
        table = [[place in support for place in range(pattern.group)] for support in self.chosen]
        self.supports = xp.asarray(table, device=device(H))

    def gains(self) -> AnyArray:
        """The decrease of the objective by the best exchange in each group, relative to the objective; (groups,)."""
        xp, groups = self.xp, self.H.shape[0] // self.group
        found = [self.moves(start, min(start + _TOGETHER, groups))[2] for start in range(0, groups, _TOGETHER)]
        best = xp.concat([xp.min(change, axis=(0, 2, 3)) for change in found])
        return -best / self.objective if self.objective > 0 else xp.zeros_like(best)

    def improve(self, group: int) -> bool:
        """Exchange in one group of inputs, for all outputs at once; whether anything changed.

        Outputs disturb each other through G: where all of them together gain too little, only the best ones move.
        """
        xp, inputs = self.xp, slice(group * self.group, (group + 1) * self.group)
        delta, change, other = (found[:, 0, ...] for found in self.moves(group, group + 1))
        worth = xp.min(other, axis=0) < -_TOLERANCE * self.objective
        if not bool(xp.any(worth)):
            return False
        best = xp.argmin(change, axis=0)
        gains = masked(worth, -xp.min(change, axis=0))
        full = sum(masked((best == i)[:, None, :], delta[i, ...]) for i in range(len(self.chosen)))
        count = int(xp.count_nonzero(worth))
        while True:
            order = xp.reshape(smallest(xp.reshape(-gains, (-1,)), count), gains.shape)
            step = masked(order[:, None, :], full)
            image = step if self.G is None else step @ self.G
            fall = -dot(step, self.gradient[:, inputs, :]) - dot(image, self.H[inputs, inputs] @ step) / 2
            if count == 1 or fall > float(xp.sum(masked(order, gains))) / 2:
                break
            count = max(1, count // 4)
        support = xp.matrix_transpose(
            xp.reshape(xp.take(self.supports, xp.reshape(best, (-1,)), axis=0), (*best.shape, self.group))
        )
        kept = xp.where(order[:, None, :], support, self.kept[:, inputs, :])
        self.kept[:, inputs, :] = kept
        self.weight[:, inputs, :] = masked(kept, self.weight[:, inputs, :] + step)
        self.gradient += self.H[:, inputs] @ image
        self.objective -= fall
        return True

    def moves(self, first: int, last: int) -> tuple[AnyArray, AnyArray, AnyArray]:
        """The best delta for every support, by how much it changes f, and the same with the present support left out.

        (supports, groups, blocks, M, m) and twice (supports, groups, blocks, m), of the groups from first to last.
        """
        xp, M = self.xp, self.group
        places = [slice(group * M, (group + 1) * M) for group in range(first, last)]
        H = xp.stack([self.H[inputs, inputs] for inputs in places])
        w, r, kept = (
            xp.stack([side[:, inputs, :] for inputs in places]) for side in (self.weight, self.gradient, self.kept)
        )
        scale = self.scale[:, None, :]
        deltas = []
        for S in self.chosen:
            P = [place for place in range(M) if place not in S]
            inverse = xp.linalg.inv(self._part(H, S, S))[:, None, ...]
            w_P = xp.stack([w[:, :, place, :] for place in P], axis=2)
            r_S = xp.stack([r[:, :, place, :] for place in S], axis=2)
            moved = inverse @ (self._part(H, S, P)[:, None, ...] @ w_P - r_S / scale)
            rows = dict(zip(P, (-w[:, :, place, :] for place in P), strict=True))
            rows |= {place: moved[:, :, i, :] for i, place in enumerate(S)}
            deltas.append(xp.stack([rows[place] for place in range(M)], axis=2))
        delta = xp.stack(deltas)
        change = xp.sum(delta * (r + scale * (H[:, None, ...] @ delta) / 2), axis=3)
        present = xp.stack([xp.all(kept == self.supports[i, :][:, None], axis=2) for i in range(len(self.chosen))])
        return delta, change, xp.where(present, xp.inf, change)

    def _part(self, H: AnyArray, rows: list[int], columns: list[int]) -> AnyArray:
        """Rows and columns of every (M, M) matrix."""
        return self.xp.stack([self.xp.stack([H[:, i, j] for j in columns], axis=-1) for i in rows], axis=1)
