"""The best 0/1 mask with a given number of zeros: branch and bound against every mask there is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.relation import Relation, at_least
from attnprune_verify.claims.supply import Instances
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.best_mask import certified_best_mask

_MOST_ENTRIES = 9
_TOLERANCE = 1e-9


def _zeros(rng: Generator, case: Case) -> dict[str, Any]:
    size = case["W"].size
    W = case["W"] / max(1.0, float(np.abs(case["W"]).max()) / 2)
    return {"W": W, "zeros": int(rng.integers(0, size + 1))}


def _all_masks(q: Quantities) -> Iterator[Any]:
    """Every mask with that many zeros."""
    for places in combinations(range(q.d**2), q.case["zeros"]):
        mask = np.ones(q.d**2)
        mask[list(places)] = 0.0
        yield mask.reshape(q.d, q.d)


def _best(q: Quantities, more: float = 1.0, found: float = 1.0) -> list[Relation]:
    """The least L_attn of all masks, one by one, against the bound from both sides, and the loss of the mask found."""
    if q.d**2 > _MOST_ENTRIES:
        return []
    case = q.case
    best = certified_best_mask(Instance(case["X"], case["W"], mask=case["mask"]), case["zeros"], tolerance=_TOLERANCE)
    least = q.smallest([q.at(q.number(mask)).L_attn for mask in _all_masks(q)])
    tiny = q.number(1e-24)  # where the loss is rounding alone
    seen = q.at(q.number(best.mask)).L_attn
    return [
        at_least(least + tiny, q.number(best.bound * more) + tiny, "every mask", offset=tiny),
        at_least(q.number(best.bound) + tiny, least * q.number((1 - 4 * _TOLERANCE) * found), "bound is reached"),
        at_least(q.number(best.loss) * q.number(1 + 1e-12) + tiny, seen * q.number(found), "mask found"),
    ]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:best_mask",
        kind=Kind.THEOREM,
        title="The best 0/1 mask, certified",
        section="4 Main Results",
        reading=ANY_MASK,
        says="`certified_best_mask` bounds L_attn from below over all 0/1 masks with a given number of zeros, and so"
        " tells how much a returned mask certainly loses at most against the best. Below a node of its search, where"
        " some entries are fixed, F_ij lies between l_ij and u_ij, the extremes being over the masks B that the node"
        " leaves, and a linear function's extreme is a sum of the smallest coefficients. For small d the search ends;"
        " stopped earlier, its bound still holds.",
        formula="L_attn(B) >= 1/2 sum_ij dist(f_ij, [l_ij, u_ij])^2, l_ij = 1/sum_k exp(max_B (z_ik - z_ij)),"
        " u_ij = 1/sum_k exp(min_B (z_ik - z_ij)); where it ends, bound <= min_B L_attn(B) and (1 -"
        f" {4 * _TOLERANCE:g}) min_B L_attn(B) <= bound",
        strength=Strength.TIGHT,
        margin=_best,
        supply=Instances("any", extra=_zeros, small=True, free=(), rounds=1),
        uses=("def:loss_func",),
        wrong=(
            Wrong("1.001 times the bound", lambda q: _best(q, more=1.001)),
            Wrong("a bound that is reached to a thousandth above", lambda q: _best(q, found=1.001)),
        ),
        source="new",
    ),
)
