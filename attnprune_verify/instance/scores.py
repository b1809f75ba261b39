"""Score modifiers: functions of a head's scaled logits before the softmax, as a type that chains.

A modifier is a function of one logit s and its place (head h, query i, key j), with its first two derivatives in s.
A new modifier is one more class with these three methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.frozen import Frozen
from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.validate import Array, as_real
from attnprune_verify.values import as_positive


class Bend(NamedTuple):
    """u'(s) and u''(s) for the logits of a block."""

    slope: Array
    curve: Array


class ScoreModifier(ABC):
    """s -> u(s) for the logits (k*heads, rows, columns) of a block of rows; |u'| <= 1, which error bounds assume."""

    may_lower = False  # whether u may fall far below s, so that an unshifted exp could vanish

    @abstractmethod
    def apply(self, logits: Array, block: RowBlock) -> Array:
        """Write u(s) over `logits` and return it."""

    def bend(self, applied: Array) -> Bend | None:
        """Return u' and u'' from u(s); None if u' = 1 everywhere."""
        return None

    def of_head(self, head: int) -> ScoreModifier:
        """Return the modifier for the logits of one head alone."""
        return self


@dataclass(frozen=True)
class Softcap(ScoreModifier):
    """u(s) = c tanh(s/c): logits stay within (-c, c); u' = 1 - (u/c)^2, u'' = -2 u u' / c^2.

    Parameters
    ----------
    cap : float
        c > 0.
    """

    cap: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", as_positive("softcap", self.cap))

    def apply(self, logits: Array, block: RowBlock) -> Array:
        logits /= self.cap
        np.tanh(logits, out=logits)
        logits *= self.cap
        return logits

    def bend(self, applied: Array) -> Bend:
        share = applied / self.cap
        slope = 1 - share * share
        return Bend(slope, -2 / self.cap * share * slope)


class Alibi(Frozen, ScoreModifier):
    """u(s) = s - slope_h |i - j|: a linear bias per head that lowers distant positions.

    Parameters
    ----------
    slopes : (heads,) array
    """

    slopes: Array
    may_lower = True

    def __init__(self, slopes: ArrayLike, heads: int) -> None:
        self._keep(slopes=as_real("alibi", slopes))
        if self.slopes.shape != (heads,):
            raise InvalidInstance(f"alibi must hold one slope per head, shape ({heads},); got {self.slopes.shape}")

    def apply(self, logits: Array, block: RowBlock) -> Array:
        i, j = np.arange(block.rows.start, block.rows.stop), np.arange(block.columns.start, block.columns.stop)
        distance = np.abs(i[:, np.newaxis] - j).astype(logits.dtype)
        per_head = logits.reshape(-1, len(self.slopes), *logits.shape[1:])
        per_head -= self.slopes.astype(logits.dtype)[:, np.newaxis, np.newaxis] * distance
        return logits

    def of_head(self, head: int) -> ScoreModifier:
        return Alibi(self.slopes[[head]], 1)


def modify(modifiers: Sequence[ScoreModifier], logits: Array, block: RowBlock) -> Bend | None:
    """Apply all modifiers, in order, in place, and return the derivatives of their composition."""
    bend: Bend | None = None
    for modifier in modifiers:
        after = modifier.bend(modifier.apply(logits, block))
        if bend is None or after is None:
            bend = bend or after
        else:
            bend = Bend(after.slope * bend.slope, after.curve * bend.slope**2 + after.slope * bend.curve)
    return bend
