"""A lower bound of the divergence over all masks with k ones, from one gradient; compared with every mask."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.algorithms.gap.mask_gap import certified_mask_gap
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.divergence import divergence_of
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, few_entries
from attnprune_verify.instance.problem import Instance

_MOST_ENTRIES = 9
"""Of a mask of which all are compared: 126 masks at most."""


def _drawn(rng: Generator, case: Case) -> dict[str, Any]:
    """A number of ones, and a real matrix: a mask that is relaxed, or anything."""
    shape = case["W"].shape
    spread = float(rng.choice([0.0, 0.3, 2.0]))
    ones = int(rng.integers(0, case["W"].size + 1))
    return {"ones": ones, "N": np.full(shape, ones / case["W"].size) + spread * rng.standard_normal(shape)}


def _of_all_masks(q: Quantities) -> Iterator[Lifted]:
    """The divergence of every 0/1 mask with that many ones."""
    for places in combinations(range(q.d**2), q.case["ones"]):
        mask = np.zeros(q.d**2)
        mask[list(places)] = 1.0
        yield divergence_of(q, q.number(mask.reshape(q.d, q.d)) * q.W)


def _threshold(entries: Lifted, ones: int) -> float:
    """The `ones`-th smallest entry, in floats: any number gives a bound, this one the best."""
    ordered = np.sort([float(entry) for entry in entries.ravel()])
    return float(ordered[min(max(ones, 1), len(ordered)) - 1])


def _floor(q: Quantities, steep: float = 1.0, sign: float = 1.0) -> list[Relation]:
    """The tangent at N, least over the masks, against the divergence of each; and the library's own bound."""
    ones, one = q.case["ones"], q.number(1.0)
    at = q.at(q.N)
    G = q.W * (q.X.T @ at.c @ q.X) * q.number(steep)
    tau = q.number(_threshold(G * sign, ones))
    least = tau * ones + sum((q.smallest([g * q.number(sign) - tau, q.number(0.0)]) for g in G.ravel()), q.number(0.0))
    bound = divergence_of(q, q.N * q.W) - (G * q.N).sum() + least
    masks = list(_of_all_masks(q))
    q.note({"KL(B)": masks, "KL(M')": divergence_of(q, q.N * q.W), "tau": tau, "k": ones})
    return [at_most(bound + one, of_mask + one, "tangent", offset=one) for of_mask in masks]


def _library(q: Quantities, more: float = 1.0) -> list[Relation]:
    """Compare the bound of `certified_mask_gap` with every mask, and the mask it found with its divergence."""
    instance, one = Instance(q.case["X"], q.case["W"], mask=q.case["mask"]), q.number(1.0)
    found = certified_mask_gap(instance, keep=q.case["ones"], on="W", steps=4)
    rows = q.number(float(q.n))
    bound = q.number(found.bound) * rows * q.number(more)
    parts = [at_most(bound + one, of_mask + one, "bound", offset=one) for of_mask in _of_all_masks(q)]
    reached = q.number(found.best_kl) * rows
    seen = divergence_of(q, q.number(found.best) * q.W)
    q.note({"bound": bound, "KL(best)": seen, "best": reached})
    return [*parts, at_most(seen + one, reached + one, "mask found", offset=one)]


def _both(q: Quantities, steep: float = 1.0, sign: float = 1.0, more: float = 1.0) -> list[Relation]:
    return [*_floor(q, steep, sign), *_library(q, more)]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:certified_mask_gap",
        kind=Kind.THEOREM,
        title="A bound of masks' divergence from a gradient",
        section="4 Main Results",
        reading=ANY_MASK,
        formula="KL(M') - <G, M'> + tau k + sum_ab min(G_ab - tau, 0) <= KL(B), bound <= KL(B), KL(best) <= best, G ="
        " W o (X^T (f(M') - f) X) for all B in the unit box whose entries add up to k",
        strength=Strength.UPPER,
        margin=_both,
        hypotheses=(few_entries(_MOST_ENTRIES),),
        supply=Instances("any", extra=_drawn, small=True, free=(), rounds=1),
        beyond={"bound <= KL(B)": "by hand", "KL(best) <= best": "measured"},
        uses=("def:soft_prob_func",),
        wrong=(
            Wrong("twice the gradient", lambda q: _floor(q, steep=2.0)),
            Wrong("the largest entries in place of the smallest", lambda q: _floor(q, sign=-1.0)),
            Wrong("1.5 times the bound", lambda q: _library(q, more=1.5)),
        ),
        source="new",
    ),
)
