"""Budgets: the number of weights that go, and the weights among which the choice is free."""

import re
from fractions import Fraction
from typing import NamedTuple, Protocol

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.arrays import AnyArray, swapped, xp_of
from attnprune_verify.algorithms.selection import FEW, smallest, smallest_of
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_count


class Budget(Protocol):
    """A rule that selects the entries to prune among the next inputs, for all outputs."""

    def together(self, blocksize: int) -> int:
        """Return the number of inputs that are chosen together."""

    def choose(self, scores: AnyArray, start: int) -> AnyArray:
        """True = pruned, for scores (blocks, chunk, outputs) of the inputs `start` and following."""


class Share(NamedTuple):
    """Exactly ``floor(rho * size)`` in the whole matrix: one threshold over all its outputs.

    A Fraction(zeros, size) prunes exactly `zeros`.
    """

    rho: float | Fraction

    def together(self, blocksize: int) -> int:
        return blocksize

    def choose(self, scores: AnyArray, start: int) -> AnyArray:
        outputs = scores.shape[0] * scores.shape[2]
        count = pruned_count(self.rho, (start + scores.shape[1]) * outputs) - pruned_count(self.rho, start * outputs)
        xp = xp_of(scores)
        return xp.reshape(smallest(xp.reshape(scores, (-1,)), count), scores.shape)


class PerBlock(NamedTuple):
    """Exactly ``floor(rho * size)`` in every block of outputs (every head)."""

    rho: float

    def together(self, blocksize: int) -> int:
        return blocksize

    def choose(self, scores: AnyArray, start: int) -> AnyArray:
        blocks, chunk, m = scores.shape
        count = pruned_count(self.rho, (start + chunk) * m) - pruned_count(self.rho, start * m)
        xp = xp_of(scores)
        return xp.reshape(smallest(xp.reshape(scores, (blocks, -1)), count), scores.shape)


class Pattern(NamedTuple):
    """N:M sparsity: of every `group` consecutive inputs of an output, `kept` are kept."""

    kept: int
    group: int

    def together(self, blocksize: int) -> int:
        return self.group

    def choose(self, scores: AnyArray, start: int) -> AnyArray:
        xp, (blocks, _, outputs) = xp_of(scores), scores.shape
        groups = xp.reshape(scores, (blocks, -1, self.group, outputs))
        if self.group <= FEW:
            masks = smallest_of([groups[:, :, i, :] for i in range(self.group)], self.group - self.kept)
            return xp.reshape(xp.stack(masks, axis=2), scores.shape)
        chosen = smallest(swapped(groups), self.group - self.kept)
        return xp.reshape(swapped(chosen), scores.shape)

    def zeros(self, size: int) -> int:
        """Zeros among `size` weights."""
        return size // self.group * (self.group - self.kept)

    def __str__(self) -> str:
        return f"{self.kept}:{self.group}"


class KeepingZeros(NamedTuple):
    """A budget of a weight that has zeros: these are chosen first, and stay zero where they are more than it prunes."""

    budget: Share | Pattern
    zeros: AnyArray
    """(out, in), True at the zeros."""

    def together(self, blocksize: int) -> int:
        return self.budget.together(blocksize)

    def choose(self, scores: AnyArray, start: int) -> AnyArray:
        xp, (blocks, chunk, outputs) = xp_of(scores), scores.shape
        zeros = swapped(xp.reshape(self.zeros, (blocks, outputs, -1)))[:, start : start + chunk, :]
        return self.budget.choose(xp.where(zeros, -1.0, scores), start) | zeros


def without_zeros(budget: Budget, weight: AnyArray) -> tuple[Budget, AnyArray]:
    """Return the budget that keeps no zeros, and where it kept them: nowhere, for a budget that keeps none.

    Examples
    --------
    >>> import numpy as np
    >>> without_zeros(Share(0.5), np.zeros((1, 2)))
    (Share(rho=0.5), array([[False, False]]))
    """
    if isinstance(budget, KeepingZeros):
        return budget.budget, budget.zeros
    return budget, xp_of(weight).zeros_like(weight, dtype=xp_of(weight).bool)


def choose_by_group(scores: AnyArray, pattern: Pattern) -> AnyArray:
    """True at the smallest scores of every group, for scores (out, in)."""
    xp = xp_of(scores)
    groups = xp.reshape(scores, (scores.shape[0], -1, pattern.group))
    return xp.reshape(smallest(groups, pattern.group - pattern.kept), scores.shape)


def as_pattern(pattern: object, inputs: int) -> Pattern:
    """ "N:M": N weights are kept of every M consecutive inputs.

    Examples
    --------
    >>> as_pattern("2:4", 8), str(as_pattern("1:4", 8))
    (Pattern(kept=2, group=4), '1:4')
    """
    if isinstance(pattern, Pattern):
        kept, group = as_count("kept", pattern.kept), as_count("group", pattern.group, least=1)
    else:
        match = re.fullmatch(r"(\d{1,6}):(\d{1,6})", pattern) if isinstance(pattern, str) else None
        if match is None:
            raise InvalidInstance(f'pattern must be "N:M" (N kept of every M inputs); got {pattern!r:.60}')
        kept, group = int(match[1]), int(match[2])
    if not 0 <= kept <= group or group == 0:
        raise InvalidInstance(f"pattern N:M must have 0 <= N <= M and M >= 1; got {kept}:{group}")
    if inputs % group:
        raise InvalidInstance(f"the number of inputs must be a multiple of M; got {inputs} and {kept}:{group}")
    return Pattern(kept, group)
