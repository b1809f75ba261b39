"""The best weights on a support: no others have a divergence that is smaller by more than slope and curvature allow."""

from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.algorithms.gap.refit import certified_refit
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.divergence import divergence_of
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, few_entries
from attnprune_verify.instance.problem import Instance

_MOST_ENTRIES = 9
"""Of a weight: Hessians of 9 columns."""


def _drawn(rng: Generator, case: Case) -> dict[str, Any]:
    """A support, the best weights on it, a point near these, and weights anywhere on it."""
    W = case["W"]
    support = rng.random(W.shape) < rng.choice([0.2, 0.6, 1.0])
    support.flat[rng.integers(W.size)] = True
    start = np.where(support, W + (W == 0), 0.0)
    best = certified_refit(Instance(case["X"], W, mask=case["mask"]), weights=start, on="W").weight
    away = np.where(support, rng.standard_normal((2, *W.shape)), 0.0)
    near = best + 10.0 ** rng.uniform(-3, 0) * away[0]
    return {
        "support": support,
        "start": start,
        "best": best,
        "Y": near,
        "N": best + rng.choice([0.1, 1.0, 10.0]) * away[1],
    }


def _curvature(q: Quantities) -> tuple[float, float]:
    """The least and the largest eigenvalue of the Hessian at Y on the support, in floats, the least lowered."""
    X, support = np.asarray(q.case["X"], dtype=float), q.case["support"]
    places = np.flatnonzero(support)
    H = np.zeros((len(places), len(places)))
    for x, seen in zip(X, q.allowed, strict=True):
        logits = x @ q.case["Y"] @ X[seen].T
        F = np.exp(logits - logits.max())
        F /= F.sum()
        pulls = np.stack([np.outer(x, y).ravel()[places] for y in X[seen]])
        H += (pulls.T * F) @ pulls - np.outer(F @ pulls, F @ pulls)
    values = np.linalg.eigvalsh(H)
    return float(values[0] * (1 - 1e-9) - 1e-12 * values.sum()), float(values[-1])


def _reach(q: Quantities) -> Lifted:
    """kappa = max ||x_i|| ||x_j - x_k||, over the rows and their allowed positions."""
    apart = [
        q.sqrt(q.square(q.X[i]) * q.square(q.X[j] - q.X[k]))
        for i in np.flatnonzero(q.row_sizes >= 2)
        for j in np.flatnonzero(q.allowed[i])
        for k in np.flatnonzero(q.allowed[i])
        if j < k
    ]
    return q.largest([q.number(0.0), *apart])


def _gain(q: Quantities, part: float = 1.0, steepest: bool = False) -> list[Relation]:
    """KL at Y against KL at other weights on the support: these gain at most what the slope at Y allows."""
    one, Y = q.number(1.0), q.number(q.case["Y"])
    slopes = q.X.T @ (_attention(q, Y) - q.f) @ q.X
    g = q.sqrt(sum((slopes[a, b] ** 2 for a, b in np.argwhere(q.case["support"]).tolist()), q.number(0.0)))
    sigma = q.number(_curvature(q)[1 if steepest else 0])
    here, best, other = (divergence_of(q, q.number(q.case[name])) for name in ("Y", "best", "N"))
    q.note({"||g||": g, "sigma": sigma, "kappa": _reach(q), "KL(Y)": here, "KL(V)": best, "KL(V')": other})
    if not sigma > 0 or not _reach(q) * g < sigma:
        return []
    root = one + q.sqrt(one - _reach(q) * g / sigma)
    gain = g * g * 2 / (sigma * root * root) * q.number(part)
    return [
        at_most(here + one, of_weights + gain + one, label, offset=one)
        for of_weights, label in ((best, "the best weights"), (other, "other weights"))
    ]


def _attention(q: Quantities, V: Lifted) -> Lifted:
    """softmax(X V X^T) over the allowed positions, 0 elsewhere."""
    found = q.number(np.zeros((q.n, q.n)))
    for i, row in enumerate(q.X @ V @ q.X.T):
        found[i, q.allowed[i]] = q.softmax(row[q.allowed[i]])
    return found


def _library(q: Quantities, more: float = 1.0) -> list[Relation]:
    """Compare the bound of `certified_refit` with weights on the support, and with the weights it found."""
    case, one, rows = q.case, q.number(1.0), q.number(float(q.n))
    found = certified_refit(Instance(case["X"], case["W"], mask=case["mask"]), weights=case["start"], on="W")
    bound, parts = q.number(found.bound) * rows * q.number(more), []
    for name in ("start", "best", "Y", "N"):
        if np.linalg.norm(case[name] - found.weight) <= found.radius:
            parts.append(at_most(bound + one, divergence_of(q, q.number(case[name])) + one, "bound", offset=one))
    reached = q.number(found.best_kl) * rows
    q.note({"bound": bound, "KL(near)": [part.rhs - one for part in parts], "best": reached})
    q.note({"KL(best)": divergence_of(q, q.number(found.weight))})
    return [*parts, at_most(divergence_of(q, q.number(found.weight)) + one, reached + one, "found", offset=one)]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:certified_refit",
        kind=Kind.THEOREM,
        title="The best weights on a support, certified",
        section="4 Main Results",
        reading=ANY_MASK,
        formula="KL(Y) - gain <= KL(V) wherever sigma > 0 and kappa ||g|| < sigma, KL(Y) - gain <= KL(V') wherever"
        " sigma > 0 and kappa ||g|| < sigma, bound <= KL(near), KL(best) <= best, gain = 2 ||g||^2/(sigma (1 + sqrt(1"
        " - kappa ||g||/sigma))^2) for all weights on the support of Y",
        strength=Strength.UPPER,
        margin=lambda q: [*_gain(q), *_library(q)],
        hypotheses=(few_entries(_MOST_ENTRIES),),
        supply=Instances("any", extra=_drawn, small=True, free=(), rounds=1),
        uses=("def:soft_prob_func",),
        wrong=(
            Wrong("half of what is to gain", lambda q: _gain(q, part=0.5)),
            Wrong("the largest curvature in place of the least", lambda q: _gain(q, steepest=True)),
            Wrong("1.5 times the bound", lambda q: _library(q, more=1.5)),
        ),
        source="new",
    ),
)
