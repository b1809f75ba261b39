"""Agreement of independent implementations, up to what float64 can carry."""

import numpy as np

from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most

_TOLERANCE = 1e-9  # chosen: far above rounding of a well-conditioned sum, far below what any wrong form differs by


def agree(q: Quantities, ours: Lifted, theirs: Lifted, part: str = "") -> Relation:
    """The largest deviation is at most 1e-9 of the larger side (or of 1, the size of a probability).

    `theirs` was computed in float64 by other code, which cannot be closer to a small difference of probabilities.
    """
    lifted = q.number(theirs)
    scale = q.largest([q.number(1.0), *np.abs(np.ravel(ours)), *np.abs(np.ravel(lifted))])
    return at_most(q.largest(np.abs(np.ravel(ours - lifted))), scale * _TOLERANCE, part)


def conformable(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """1 if a matrix product of these shapes exists, else 0; NumPy decides."""
    try:
        np.zeros(left) @ np.zeros(right)
    except ValueError:
        return 0
    return 1
