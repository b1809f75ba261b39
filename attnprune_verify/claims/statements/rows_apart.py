"""Rows on their own: curvature with each row's own constant, and where the PL constant of the operator is 0."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances, read_mask
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, some_choice
from attnprune_verify.theory.formulas import sharp

_ROUNDING = 1e-9
"""Of K: a kappa_T that is 0 comes out as a rounding error."""


def _row_constants(q: Quantities) -> list[tuple[int, Lifted, Lifted]]:
    """Return for each row with a choice its number, C_i^+ and C_i^-."""
    found, zero = [], q.number(0.0)
    for i in np.flatnonzero(q.row_sizes >= 2):
        s, c = q.F[i, q.allowed[i]], q.c[i, q.allowed[i]]
        pull, first = c - (c * s).sum(), q.largest(s)
        second = q.largest([part for j, part in enumerate(s) if j != int(np.argmax([float(one) for one in s]))])
        b = first * (1 - first + second)
        up = b * b + b * q.largest([*pull, zero])
        down = b * q.largest([q.largest(-pull) - q.smallest(s), zero])
        found.append((int(i), q.smallest([up, q.of(sharp.C_plus)]), q.smallest([down, q.of(sharp.C_minus)])))
    return found


def _weighted(q: Quantities, factor: float = 1.0, mean: bool = False) -> list[Relation]:
    """Both ends of Hess L_attn against sum_i C_i (Pi A)_i^T (Pi A)_i, and that against max_i C_i K^2."""
    rows = _row_constants(q)
    least, largest = extreme_eigenvalues(q.curvature, q.arithmetic)
    shift = q.K * q.K  # so that the rounding of an eigenvalue 0 decides nothing
    parts = []
    for end, found, constants in (
        ("largest", largest, {i: up for i, up, _ in rows}),
        ("least", -least, {i: down for i, _, down in rows}),
    ):
        average = sum(constants.values(), q.number(0.0)) / len(rows)
        total = q.number(np.zeros((q.d**2, q.d**2)))
        for i, constant in constants.items():
            block = q.PiA[i * q.n : (i + 1) * q.n]
            total = total + (block.T @ block) * (average if mean else constant)
        _, bound = extreme_eigenvalues(total, q.arithmetic)
        sign = "+" if end == "largest" else "-"
        q.note({f"||sum_i C_i^{sign} (Pi A)_i^T (Pi A)_i||": bound, f"C{sign}": list(constants.values())})
        parts.append(at_most(found + shift, bound * q.number(factor) + shift, end, offset=shift))
        parts.append(at_most(bound, q.largest(list(constants.values())) * q.K * q.K, f"{end}, against one constant"))
    return parts


def _two_rows() -> Iterator[Case]:
    """Two rows that share no entry of M, each with a choice of two; one of them where a row bends most, either way."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    mask = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)
    for sign in (-1.0, 1.0):
        p = (15 + sign * np.sqrt(33.0)) / 24
        for place in (p, 1 - p):
            for w in (20.0, -20.0):
                M = np.array([[np.log(place / (1 - place)) / w, 1.0], [1.0, 1.0]])
                values = {"X": X, "W": np.array([[w, 0.0], [0.0, 1.0]]), "M": M, "lam": 0.0, "mask": mask}
                yield Case(values, f"two rows apart, W_11 = {w}, p = {place:.6f}")


def _many_tokens(rng: Generator, case: Case) -> dict[str, Any]:
    """One to five features and up to three tokens more."""
    d = int(rng.integers(1, 6))
    n = d + int(rng.integers(1, 4))
    X, W = np.round(4 * rng.standard_normal((n, d))) / 4, rng.standard_normal((d, d))
    return {"X": X, "W": W, "M": np.ones((d, d)), "mask": read_mask("any", None, n, rng)}


_TOKENS = Instances("any", extra=_many_tokens, small=True, free=(), rounds=1)


def _too_many(more: int) -> Hypothesis:
    """No mask and n > d, or a row with d + `more` allowed positions."""

    def holds(q: Quantities) -> bool:
        return bool((q.allowed.all() and q.n > q.d) or q.row_sizes.max() >= q.d + more)

    return Hypothesis(f"n > d without a mask, or a row with d + {more} allowed positions", holds, _TOKENS.families)


def _vanishes(q: Quantities) -> Relation:
    return at_most(q.kappa_T, q.K * q.number(_ROUNDING))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:weighted_curvature",
        kind=Kind.LEMMA,
        title="Curvature at one M, row by row",
        section="F Lipschitz of Gradient",
        reading=ANY_MASK,
        formula="lambda_max(Hess L_attn(M)) <= ||sum_i C_i^+ (Pi A)_i^T (Pi A)_i|| <= (max_i C+_i) K^2,"
        " -lambda_min(Hess L_attn(M)) <= ||sum_i C_i^- (Pi A)_i^T (Pi A)_i|| <= (max_i C-_i) K^2, C+_i = min(C_+,"
        " b_i^2 + b_i max(0, u_i)), C-_i = min(C_-, b_i max(0, v_i - s_i)), b_i = t_i (1 - t_i + t'_i) if n_e >= 1",
        strength=Strength.TIGHT,
        margin=_weighted,
        supply=Instances("any", small=True, free=("M",), rounds=1),
        hypotheses=(some_choice(),),
        uses=("new:local_curvature",),
        attains=_two_rows,
        wrong=(
            Wrong("0.98 of the sums", lambda q: _weighted(q, 0.98)),
            Wrong("the mean of the rows' constants", lambda q: _weighted(q, mean=True)),
        ),
        source="new",
    ),
    Claim(
        id="new:kappa_vanishes",
        kind=Kind.LEMMA,
        title="Vanishing of the operator's PL constant",
        section="G Convergence of Gradient Descent",
        reading=ANY_MASK,
        formula="n > d and no mask, or max_i m_i >= d + 2, implies kappa_T = 0",
        strength=Strength.UPPER,
        margin=_vanishes,
        supply=_TOKENS,
        hypotheses=(_too_many(2),),
        uses=("new:PL_sharp",),
        wrong=(Wrong("with d + 1 allowed positions already", _vanishes, (_too_many(1),)),),
        source="new",
        note=f"judged as at most {_ROUNDING:g} of K",
    ),
)
