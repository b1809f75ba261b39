"""The best 0/1 mask with a given number of zeros, by branch and bound: a certified optimum for small d.

A node fixes some entries of the mask. A difference of two logits of a row is linear in the mask, so over all masks
below the node with the right number of ones its least value is that of the fixed ones and the smallest free
coefficients; the differences enclose every F_ij, and F_ij's distance from f_ij bounds the loss from below. The search
is in float64 with its rounding paid, the loss of the mask found in balls.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.oracle.ball_forms import attention_term
from attnprune_verify.oracle.inputs import fused
from attnprune_verify.theory.numbers.balls import lower, precision, upper
from attnprune_verify.theory.numbers.spectral import UNIT_ROUNDOFF

_CHUNK = 512  # chosen: masks evaluated at once; 512 of 64 entries stay in the cache
_TINY = 1e-300  # far above what underflow takes away, far below any loss that is compared
_LARGEST = 64
"""Entries of a mask up to which the search is tried at all (d = 8)."""


@dataclass(frozen=True)
class BestMask:
    """A lower bound of L_attn over all 0/1 masks with as many zeros, and the best mask that was seen.

    Attributes
    ----------
    zeros : int
    bound : float
        No such mask has a smaller L_attn.
    mask : (d, d) array
        The best one seen: 1 = kept.
    loss : float
        An upper bound of its L_attn, in balls.
    given_loss : float or None
        The same of the mask that was given.
    gap : float
        Bound of the loss of the given mask (or the best one) above the optimum.
    optimal : bool
        True if no other mask is better than the best one by more than `tolerance` of its loss.
    nodes : int
    """

    zeros: int
    bound: float
    mask: Array = field(repr=False)
    loss: float
    given_loss: float | None
    gap: float
    optimal: bool
    nodes: int


class _Search(NamedTuple):
    """Coefficients (m, m, d^2) of the differences z_k - z_j by row, in the order of branching, and f.

    `slip` bounds the rounding of any sum of such coefficients.
    """

    differences: list[Array]
    f: list[Array]
    order: NDArray[np.intp]
    slip: float


def certified_best_mask(
    instance: Instance,
    zeros: int,
    given: ArrayLike | None = None,
    *,
    tolerance: float = 1e-9,
    most_nodes: int = 200_000,
) -> BestMask:
    """Bound L_attn from below over all 0/1 masks with exactly `zeros` zeros, and find the best one.

    ::

        F_ij >= 1/sum_k exp(max_B (z_ik - z_ij)),  F_ij <= 1/sum_k exp(min_B (z_ik - z_ij)),
        L_attn >= 1/2 sum_ij dist(f_ij, [lower F_ij, upper F_ij])^2

    over the masks B below a node. The regulariser is the same for all of them (new:best_mask).

    Parameters
    ----------
    instance : Instance
        One sample, d at most 8; beyond d = 5 the search seldom ends.
    zeros : int
        Pruned entries, 0 to d^2.
    given : (d, d) array of 0 and 1, optional
        A mask with as many zeros, whose gap to the optimum is computed.
    tolerance : float
        Nodes whose bound is within this share of the best loss are closed.
    most_nodes : int
        Number of nodes at which the search stops; the bound stays valid.

    Raises
    ------
    InvalidInstance
        For a batch, d > 8, a count outside 0..d^2, or a given mask that is no such mask.

    Examples
    --------
    >>> import numpy as np
    >>> found = certified_best_mask(Instance(np.eye(2), np.array([[1.0, 0.1], [0.2, 2.0]])), 2, [[1, 1], [0, 0]])
    >>> found.mask.tolist(), found.optimal, found.gap > 0.1
    ([[1.0, 0.0], [0.0, 1.0]], True, True)
    """
    if len(instance.samples) > 1 or instance.W.size > _LARGEST:
        raise InvalidInstance(f"the search is for one sample and d <= 8; got k = {instance.k}, d = {instance.d}")
    if not 0 <= zeros <= instance.W.size:
        raise InvalidInstance(f"zeros must be between 0 and d^2 = {instance.W.size}; got {zeros}")
    problem = _posed(instance)
    ones = instance.W.size - zeros
    best, nodes, bound = _search(instance, problem, ones, tolerance, most_nodes)
    enclosed = _loss(instance, best)
    bound, loss = max(min(bound, lower(enclosed)), 0.0), upper(enclosed)
    named = None if given is None else upper(_loss(instance, _checked(given, instance.d, zeros)))
    return BestMask(
        zeros=zeros,
        bound=bound,
        mask=best,
        loss=loss,
        given_loss=named,
        gap=upper(arb(loss if named is None else named) - arb(bound)),
        optimal=ones in (0, instance.W.size) or loss * (1 - 2 * tolerance) <= bound,
        nodes=nodes,
    )


def _checked(given: ArrayLike, d: int, zeros: int) -> Array:
    mask = np.asarray(given, dtype=np.float64)
    if mask.shape != (d, d) or not np.isin(mask, (0.0, 1.0)).all() or int((mask == 0).sum()) != zeros:
        raise InvalidInstance(f"the given mask must be of 0 and 1, {(d, d)}, with {zeros} zeros")
    return mask


def _loss(instance: Instance, mask: Array) -> arb:
    with precision():
        return attention_term(fused(mask, instance.samples[0], instance.W, 0.0, instance.mask))


def _posed(instance: Instance) -> _Search:
    X, W = np.asarray(instance.samples[0], dtype=np.float64), np.asarray(instance.W, dtype=np.float64)
    pulls = []
    for x, allowed in zip(X, instance.allowed, strict=True):
        tokens = X[allowed]
        if len(tokens) > 1:
            pulls.append((W * x[:, None] * tokens[:, None, :]).reshape(len(tokens), -1))
    influence = sum((np.square(pull - pull.mean(axis=0)).sum(axis=0) for pull in pulls), np.zeros(W.size))
    order = np.argsort(-influence, kind="stable")
    differences = [(pull[None, :, :] - pull[:, None, :])[:, :, order] for pull in pulls]  # [j, k]: z_k - z_j
    with np.errstate(over="ignore"):
        f = [1 / np.exp(difference.sum(axis=2)).sum(axis=1) for difference in differences]
    largest = max((float(np.abs(pull).sum(axis=1).max()) for pull in pulls), default=0.0)
    # products of three doubles, their difference and a sum of d^2 of them in any order, twice for a difference
    slip = 4 * (W.size + 8) * UNIT_ROUNDOFF * largest
    return _Search(differences, f, order, slip)


def loss_below(problem: _Search, fixed: Array, ones: int) -> Array:
    """The bound of each node: `fixed` (nodes, t) holds its first t entries, in the order of branching."""
    nodes, t = fixed.shape
    left = ones - fixed.sum(axis=1).astype(int)
    total = np.zeros(nodes)
    for difference, f in zip(problem.differences, problem.f, strict=True):
        known = np.einsum("nt,jkt->njk", fixed, difference[:, :, :t])
        free = np.sort(difference[:, :, t:], axis=2)
        steps = np.concatenate([np.zeros((*free.shape[:2], 1)), np.cumsum(free, axis=2)], axis=2)
        # antisymmetric: the largest of z_k - z_j is minus the least of z_j - z_k
        least = known + np.moveaxis(steps[:, :, left], 2, 0) - 2 * problem.slip
        most = -np.swapaxes(least, 1, 2)
        size = f.shape[0]
        slack = (size + 20) * 4 * UNIT_ROUNDOFF
        with np.errstate(over="ignore"):
            low = (1 - slack) / np.exp(most).sum(axis=2)
            high = (1 + slack) / np.exp(least).sum(axis=2)
        blur = f * (2 * np.expm1(2 * problem.slip) + slack) + _TINY
        gap = np.maximum(np.maximum(low - f, f - high) - blur, 0.0)
        total += np.square(gap).sum(axis=1)
    entries = sum(f.size for f in problem.f)
    return total / 2 * (1 - 4 * UNIT_ROUNDOFF * (entries + 8))


def _search(instance: Instance, problem: _Search, ones: int, tolerance: float, most: int) -> tuple[Array, int, float]:
    """(best mask, nodes visited, lower bound over all masks)."""
    size = instance.W.size
    best, value = _start(problem, ones, size)
    stack: list[tuple[Array, Array]] = [(np.zeros((1, 0)), np.zeros(1))]
    nodes, bound = 1, np.inf
    while stack:
        fixed, bounds = stack.pop()
        closed = bounds >= value * (1 - tolerance)
        bound = min(bound, float(bounds[closed].min(initial=np.inf)))
        fixed, bounds = fixed[~closed], bounds[~closed]
        if not len(fixed):
            continue
        if nodes > most:
            bound = min(bound, float(bounds.min()))
            continue
        t = fixed.shape[1]
        if t == size:
            place = int(np.argmin(bounds))
            bound = min(bound, float(bounds.min()))
            if bounds[place] < value:
                best, value = fixed[place], float(bounds[place])
            continue
        children = np.concatenate([np.column_stack([fixed, np.full(len(fixed), bit)]) for bit in (0.0, 1.0)])
        used = children.sum(axis=1)
        children = children[(used <= ones) & (ones - used <= size - t - 1)]
        nodes += len(children)
        scores = loss_below(problem, children, ones)
        order = np.argsort(-scores, kind="stable")  # the most promising part is popped first
        for start in range(0, len(order), _CHUNK):
            part = order[start : start + _CHUNK]
            stack.append((children[part], scores[part]))
    mask = np.zeros(size)
    mask[problem.order] = best
    return mask.reshape(instance.W.shape), nodes, bound


def _start(problem: _Search, ones: int, size: int) -> tuple[Array, float]:
    """The mask of the most influential entries, improved by exchanges of two entries while one helps."""
    best = (np.arange(size) < ones).astype(np.float64)
    value = float(loss_below(problem, best[None], ones)[0])
    while True:
        kept, pruned = np.flatnonzero(best == 1), np.flatnonzero(best == 0)
        if not len(kept) or not len(pruned):
            return best, value
        moved = np.repeat(best[None], len(kept) * len(pruned), axis=0)
        pairs = np.arange(len(moved))
        moved[pairs, np.repeat(kept, len(pruned))] = 0.0
        moved[pairs, np.tile(pruned, len(kept))] = 1.0
        losses = loss_below(problem, moved, ones)
        place = int(np.argmin(losses))
        if not losses[place] < value:
            return best, value
        best, value = moved[place], float(losses[place])
