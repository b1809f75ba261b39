"""Bounds of pruning for any text: tokens behind RMSNorm lie in one ellipsoid, and a row's KL is at most range^2 / 8."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import spectral_norm
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, some_choice
from attnprune_verify.theory.numbers.arithmetic import FLOAT


def _norm_weight(rng: Generator, case: Case) -> dict[str, Any]:
    return {"v": rng.uniform(-1.5, 1.5, case["W"].shape[0])}


def _ranges(q: Quantities, moved: float = 1.0, eighth: float = 1.0, plain: float = 1.0) -> list[Relation]:
    """Bound the move of each logit, and each row's divergence twice, for tokens gamma * u, ||u|| <= sqrt d."""
    longest = q.largest([q.square(x) for x in q.X])
    scale = q.sqrt(q.number(float(q.d)) / longest)
    Z = q.X * scale * q.v
    change = (q.M - 1) * q.W
    framed = change * q.v[:, None] * q.v[None, :]
    size = q.number(float(np.linalg.norm(framed, 2))) if q.arithmetic is FLOAT else spectral_norm(framed)
    w, one = size * q.number(2.0 * q.d), q.number(1.0)
    D, z = Z @ change @ Z.T, Z @ q.W @ Z.T
    found, moves, divergences = [], [], []
    for i in np.flatnonzero(q.row_sizes >= 2):
        S = q.allowed[i]
        steps, logits = D[i, S], z[i, S]
        weights = q.exp(logits - q.largest(logits))
        f, top = weights / weights.sum(), q.largest(steps)
        divergence = q.log((f * q.exp(steps - top)).sum()) + top - (f * steps).sum() + one
        reach = q.largest([top, -q.smallest(steps)])
        moves.append(reach)
        divergences.append(divergence - one)
        found += [
            at_most(reach + one, w / 2 * q.number(moved) + one, "logit", offset=one),
            at_most(divergence, w * w / 8 * q.number(eighth) + one, "an eighth of the square", offset=one),
            at_most(divergence, w * q.number(plain) + one, "the range itself", offset=one),
        ]
    q.note({"max_j |z_ij(M) - z_ij(1)|": moves, "KL(f_i || F_i(M))": divergences, "gamma": q.v})
    return found


def _nearly_uniform() -> Iterator[Case]:
    """One feature, two opposite tokens: the logits move apart by exactly w."""
    values: dict[str, Any] = {"X": np.array([[1.0], [-1.0]]), "M": np.zeros((1, 1)), "lam": 0.0, "mask": None}
    for size in (0.03, 0.3, 30.0):
        yield Case({**values, "W": np.array([[size]]), "v": np.array([1.0])}, f"two opposite tokens, W = {size:g}")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:kl_for_every_text",
        kind=Kind.THEOREM,
        title="A bound of the divergence over texts",
        section="4 Main Results",
        reading=ANY_MASK,
        formula="max_j |z_ij(M) - z_ij(1)| <= w/2, KL(f_i || F_i(M)) <= w^2/8, KL(f_i || F_i(M)) <= w, w = 2 d"
        " ||diag(gamma) ((M - 1) o W) diag(gamma)||_2 if ||X|| > 0 and n_e >= 1",
        strength=Strength.TIGHT,
        loose=frozenset({"the range itself"}),
        margin=_ranges,
        attains=_nearly_uniform,
        hypotheses=(Hypothesis("||X|| > 0", lambda q: bool(q.square(q.X) > 0)), some_choice()),
        supply=Instances("any", extra=_norm_weight, small=True, free=()),
        uses=("def:soft_prob_func",),
        wrong=(
            Wrong("logits move half as far", lambda q: _ranges(q, moved=0.5)),
            Wrong("nine tenths of an eighth", lambda q: _ranges(q, eighth=0.9)),
            Wrong("a tenth of the range", lambda q: _ranges(q, plain=0.1)),
        ),
        source="new",
    ),
)
