"""Curvature of the loss: the row constants C_+ and C_-, K and its cheap bounds, and steps with a guarantee."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues, spectral_norm
from attnprune_verify.claims.cases.lipschitz_pairs import steepest_rest
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.cases.trajectory import sharp_L, upper_constant
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL, moving
from attnprune_verify.theory.formulas import paper, sharp
from attnprune_verify.theory.numbers.arithmetic import FLOAT

_SECTION = "F Lipschitz of Gradient"
_TIMES = math.floor(300 / float(sharp.C_plus(arithmetic=FLOAT))) / 10
"""30/C_+, to one place and not above it."""


def lower_constant(q: Quantities) -> Lifted:
    """C_- of the largest negative curvature."""
    return q.of(sharp.C_minus)


def _row_hessian(s: Lifted, f: Lifted) -> Lifted:
    """Hessian in the logits of 1/2 ||softmax - f||^2: J^2 + diag(g) - s g^T - g s^T, g = J (s - f)."""
    J = np.diag(s) - np.outer(s, s)
    g = J @ (s - f)
    return J @ J + np.diag(g) - np.outer(s, g) - np.outer(g, s)


def _row_range(
    q: Quantities, up: float = 1.0, down: float = 1.0, lower: Callable[[Quantities], Lifted] = lower_constant
) -> list[Relation]:
    H = _row_hessian(q.softmax(q.s), q.softmax(q.t))
    least, largest = extreme_eigenvalues(H, q.arithmetic)
    return [
        at_most(largest, upper_constant(q) * q.number(up), "C_+"),
        at_most(-least, lower(q) * q.number(down), "C_-"),
    ]


def _extreme_rows() -> Iterator[Case]:
    """Two tokens, f at a vertex, p = (15 -+ sqrt 33)/24: the extremes 4 p^2 (1-p)(2-3p) of the row curvature."""
    for sign in (-1.0, 1.0):
        p = (15 + sign * np.sqrt(33.0)) / 24
        logits = np.array([np.log(p / (1 - p)), 0.0])
        for vertex in (0, 1):
            yield Case(
                {"s": logits, "t": np.array([40.0, 0.0]) if vertex == 0 else np.array([0.0, 40.0])}, f"p = {p:.6f}"
            )


def _domination(q: Quantities, weaken: float = 1.0) -> Relation:
    """H - (lambda_2(J) - max_j(<c, s> - c_j)) J is positive semidefinite."""
    s, f = q.softmax(q.s), q.softmax(q.t)
    if len(s) < 2:
        return at_least(q.number(0.0), q.number(0.0))
    J = np.diag(s) - np.outer(s, s)
    c = s - f
    second = _second(q, J)
    rate = second - q.largest([(c * s).sum() - entry for entry in c]) * q.number(weaken)
    least, _ = extreme_eigenvalues(_row_hessian(s, f) - J * rate, q.arithmetic)
    return at_least(least + 1, q.number(1.0), offset=1)


def _second(q: Quantities, J: Lifted) -> Lifted:
    if q.arithmetic.name == "float":
        return float(np.linalg.eigvalsh(J)[1])
    return extreme_eigenvalues(J + q.number(np.ones(J.shape)), q.arithmetic)[0]


def _curvature_range(q: Quantities, up: float = 1.0, down: float = 1.0) -> list[Relation]:
    """Both bounds less lam, so that nothing cancels where lam is large; the factors are of wrong neighbours."""
    least, largest = extreme_eigenvalues(q.curvature, q.arithmetic)
    upper, lower = q.of(sharp.lipschitz, q.K, 0), q.of(sharp.lower_curvature, q.K, 0)
    return [at_most(largest, upper * q.number(up), "largest"), at_most(-least, -lower * q.number(down), "least")]


def _bends() -> Iterator[Case]:
    for sign in (-1.0, 1.0):
        p = (15 + sign * np.sqrt(33.0)) / 24
        for place in (p, 1 - p):
            for w in (20.0, -20.0):
                M = np.array([[np.log(place / (1 - place)) / w]])
                values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": M, "lam": 0.0, "mask": None}
                yield Case(values, f"d = 1, X = (1, 0), W = {w}, p = {place:.6f}")


def _norm2(q: Quantities, array: Lifted) -> Lifted:
    return float(np.linalg.norm(array, 2)) if q.arithmetic.name == "float" else spectral_norm(array)


def _rank_one(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """K <= ||X diag(a)|| ||X_c diag(b)|| for |W_ij| <= a_i b_j, a the row maxima, b the column maxima, or any a."""
    ones = q.number(np.ones(q.d))
    centred = q.X - q.X.sum(axis=0)[None, :] / q.n
    size = np.abs(q.W)
    rows = np.array([q.largest(row) for row in size])
    columns = np.array([q.largest(column) for column in size.T])
    left = np.abs(q.number(q.case.get("left", np.ones(q.d)))) + q.number(
        2.0**-4
    )  # any a > 0, with the least b that goes with it
    right = np.array([q.largest(column) for column in (size / left[:, None]).T])
    pairs = {"row maxima": (rows, ones), "column maxima": (ones, columns), "max |W|": (ones * q.w_max, ones)}
    pairs["any a"] = (left, right)
    return [
        at_most(q.K, _norm2(q, q.X * a[None, :]) * _norm2(q, centred * b[None, :]) * q.number(factor), name)
        for name, (a, b) in pairs.items()
    ]


def _row_sizes(rng: Generator, case: Case) -> dict[str, Any]:
    return {"left": np.round(16 * rng.standard_normal(len(case["W"]))) / 16}


def _against_R(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """K <= max|W| ||X||^2 <= R^3, hence L_paper - lam is at least 30/C_+ d n^{7/2} times L_sharp - lam."""
    X = _norm2(q, q.X)
    ours, theirs = q.of(sharp.lipschitz, q.K, 0), q.of(paper.lipschitz, q.n, q.d, q.R, 0)
    root = q.sqrt(q.number(float(q.n**7))) * q.d
    return [
        at_most(q.K, q.w_max * X * X * q.number(factor), "K"),
        at_most(q.w_max * X * X, q.R * q.R * q.R, "R^3"),
        at_most(ours * root * q.number(_TIMES), theirs, f"{_TIMES} d n^{{7/2}}"),
    ]


def _opposite_tokens() -> Iterator[Case]:
    """Two opposite tokens: centring takes nothing away, and ||X||_F = ||W||_F = R = K = 1."""
    X = np.array([[1.0], [-1.0]]) / np.sqrt(2.0)
    yield Case({"X": X, "W": np.ones((1, 1)), "M": np.ones((1, 1)), "lam": 0.0, "mask": None}, "two opposite tokens")


def _attained_rank_one() -> Iterator[Case]:
    """|W| = 1 constant: the rank-one bound is an equality when W = 1 (one centred direction suffices)."""
    for n, d in ((2, 2), (3, 2)):
        X = np.arange(1.0, n * d + 1).reshape(n, d) % 3 - 0.5
        values = {"X": X, "W": np.ones((d, d)), "M": np.zeros((d, d)), "lam": 0.0, "left": np.ones(d)}
        yield Case({**values, "mask": None}, "W = 1")
    a, b = np.array([1.0, 2.0]), np.array([0.5, 3.0])  # |W| = a b^T: the bound by a is ||X diag(a)|| ||X_c diag(b)||
    values = {"X": np.array([[1.0, 1.0], [-1.0, -1.0]]), "W": np.outer(a, b), "M": np.zeros((2, 2)), "lam": 0.0}
    yield Case({**values, "left": a - 2.0**-4, "mask": None}, "|W| = a b^T")


def _beside_a_steep_rest() -> Iterator[Case]:
    """Yield cases where the curvature is L on the whole step."""
    rest = steepest_rest()
    yield rest.but(f"{rest.origin} times 1.001", M=1.001 * rest["M"])


def _directional(q: Quantities, more: float = 1.0, bend: float | None = None) -> list[Relation]:
    """eta = ||g||^2 / (lam ||g||^2 + C_+ ||Pi Delta||^2), Delta = A g, decreases L by at least eta ||g||^2 / 2."""
    g = q.gradient
    size = q.square(g)
    moved = q.PiA @ g.ravel()
    steepest = q.lam * size + (upper_constant(q) if bend is None else q.number(bend)) * q.square(moved)
    step = size / steepest
    # written so that neither side is a small difference
    reached = q.at(q.M - g * step).L
    return [
        at_most(reached + step * size * q.number(more / 2), q.L, "decrease", offset=reached),
        at_least(step * sharp_L(q), q.number(1.0), "never below 1/L"),
    ]


def _drawn_row(rng: Generator, case: Case) -> Case:
    """Shrink the logits of s to where the curvature lives."""
    return case.but(s=case["s"] / 2)


_ROWS = Arrays({"s": "m", "t": "m"}, make=_drawn_row, free=("s", "t"), sizes=(2, 3, 4, 6, 9), rounds=24)
_ANY = Instances("any", small=True)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:row_hessian",
        kind=Kind.THEOREM,
        title="Curvature of a row",
        section=_SECTION,
        reading=LITERAL,
        formula="-C_+ <= lambda_min(H), lambda_max(H) <= C_+, C_+ = (39 + 55 sqrt(33))/1152,"
        " H = J^2 + diag(J c) - s (J c)^T - (J c) s^T, c = s - f, J = diag(s) - s s^T",
        strength=Strength.TIGHT,
        loose=frozenset({"C_-"}),
        margin=lambda q: _row_range(q, lower=upper_constant),
        supply=_ROWS,
        attains=_extreme_rows,
        wrong=(Wrong("0.99 C_+", lambda q: _row_range(q, up=0.99)),),
        source="new",
    ),
    Claim(
        id="new:row_hessian_lower",
        kind=Kind.THEOREM,
        title="Negative curvature of a row",
        section=_SECTION,
        reading=LITERAL,
        formula="lambda_min(H) >= -C_-, C_- = (55 sqrt(33) - 39)/1152, H = J^2 + diag(J c) - s (J c)^T - (J c) s^T,"
        " c = s - f, J = diag(s) - s s^T",
        strength=Strength.TIGHT,
        margin=lambda q: _row_range(q)[1],
        supply=_ROWS,
        attains=_extreme_rows,
        wrong=(Wrong("0.99 C_-", lambda q: _row_range(q, down=0.99)[1]),),
        source="new",
    ),
    Claim(
        id="new:curvature_domination",
        kind=Kind.LEMMA,
        title="Curvature domination",
        section=_SECTION,
        reading=LITERAL,
        formula="lambda_min(H - (lambda_2(J) - max_j (<c, s> - c_j)) J) >= 0, c = s - f, J = diag(s) - s s^T",
        strength=Strength.LOWER,
        margin=_domination,
        supply=_ROWS,
        uses=("new:row_hessian",),
        wrong=(Wrong("three tenths of the maximum", lambda q: _domination(q, weaken=0.3)),),
        source="new",
    ),
    Claim(
        id="new:curvature_range",
        kind=Kind.THEOREM,
        title="Range of the curvature",
        section=_SECTION,
        reading=ANY_MASK,
        formula="lam - C_- K^2 <= lambda_min(Hess L(M)), lambda_max(Hess L(M)) <= lam + C_+ K^2",
        strength=Strength.TIGHT,
        margin=_curvature_range,
        supply=_ANY,
        uses=("new:row_hessian", "new:row_hessian_lower", "thm:mat_view_l"),
        attains=_bends,
        wrong=(
            Wrong("0.99 C_+", lambda q: _curvature_range(q, up=0.99)),
            Wrong("0.99 C_-", lambda q: _curvature_range(q, down=0.99)),
        ),
        source="new",
    ),
    Claim(
        id="new:K_rank_one",
        kind=Kind.LEMMA,
        title="Cheap upper bounds of K",
        section=_SECTION,
        reading=ANY_MASK,
        formula="K <= ||X diag(a)||_2 ||X_c diag(b)||_2 where |W_ij| <= a_i b_j",
        strength=Strength.TIGHT,
        margin=_rank_one,
        supply=Instances("any", extra=_row_sizes, free=("W", "X")),
        attains=_attained_rank_one,
        wrong=(Wrong("0.99 of it", lambda q: _rank_one(q, 0.99)),),
        source="new",
    ),
    Claim(
        id="new:L_against_paper",
        kind=Kind.LEMMA,
        title="How loose the paper's constant is",
        section=_SECTION,
        reading=ANY_MASK,
        formula=f"K <= max|W| ||X||_2^2 <= R^3, L_paper - lam >= {_TIMES} d n^{{7/2}} (L_sharp - lam)",
        strength=Strength.TIGHT,
        margin=_against_R,
        supply=Instances("any", free=("W", "X")),
        attains=_opposite_tokens,
        uses=("thm:lip_grad_l", "fix:lip_grad_l"),
        wrong=(Wrong("K <= 0.95 max|W| ||X||^2", lambda q: _against_R(q, 0.95)),),
        source="new",
    ),
    Claim(
        id="new:directional_step",
        kind=Kind.LEMMA,
        title="A step with a guarantee, without K",
        section="G Convergence of Gradient Descent",
        reading=ANY_MASK,
        formula="L(M) - L(M - eta g) >= eta ||g||^2 / 2, eta L >= 1, eta = ||g||^2/(lam ||g||^2 + C_+ ||Pi A g||^2),"
        " L = lam + C_+ K^2 if ||g|| > 0",
        strength=Strength.LOWER,
        margin=_directional,
        hypotheses=(moving("||g|| > 0"),),
        supply=Instances("any"),
        uses=("new:row_hessian", "thm:mat_view_l"),
        attains=_beside_a_steep_rest,
        wrong=(
            Wrong("1.02 times the decrease", lambda q: _directional(q, 1.02)),
            Wrong("0.3 in place of C_+", lambda q: _directional(q, bend=0.3)),
        ),
        source="new",
    ),
)
