"""Stronger PL inequalities: global in M, with the operator's own constants, or valid for n > d."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import (
    ANY_MASK,
    FULL,
    beta_positive,
    delta_allowed_positive,
    some_choice,
    weights_nonzero,
)
from attnprune_verify.theory.formulas import rates, sharp

_SECTION = "G Convergence of Gradient Descent"
_PL = (beta_positive("any"), delta_allowed_positive(), weights_nonzero("any"))


def _inner_limit(q: Quantities) -> Lifted:
    """sum_i W0((m_i - 1)/e)."""
    return -sharp.inner_product_floor(q.row_sizes.tolist(), arithmetic=q.arithmetic)


def _inner(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """-<G, M> is at most the limit, and the limit at most n log n."""
    limit = _inner_limit(q)
    return [
        at_most(-(q.G * q.M).sum(), limit * q.number(factor), "W0"),
        at_most(limit, q.n * q.log(q.number(float(q.n))), "n log n"),
    ]


def _global(q: Quantities, factor: float = 1.0, cross: float = 1.0) -> Relation:
    half_mu = q.of(sharp.mu, q.w_min, q.beta, q.delta_allowed) / 2
    right = half_mu * q.square(q.c) * q.number(factor) + q.lam * q.lam * q.square(q.M)
    lost = q.of(sharp.cross_global, q.lam, _inner_limit(q)) * q.number(cross)
    return at_least(q.square(q.gradient) + lost, right)


def _direct(q: Quantities, factor: float = 1.0) -> Relation:
    kappa = q.w_min * q.beta * q.delta_allowed * q.number(factor)
    return at_most(kappa * q.norm(q.c), q.norm(q.gradient) + q.lam * q.norm(q.M))


def _sharp(q: Quantities, factor: float = 1.0) -> Relation:
    half_mu = q.of(sharp.mu_by_operator, q.kappa_T, q.lambda_2) / 2
    return at_least(q.norm(q.G), q.sqrt(half_mu) * q.norm(q.c) * q.number(factor))


def _two_tokens() -> Iterator[Case]:
    """X = I_2, |W| = 1, uniform rows: all three constants are met at once."""
    for n in (2, 3):
        W = np.ones((n, n)) - 2 * np.eye(n)
        yield Case({"X": np.eye(n), "W": W, "M": np.zeros((n, n)), "lam": 0.0, "mask": None}, f"X = I_{n}, M = 0")


def _constants(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """kappa_T >= min|W| beta and lambda_2(J_i) >= delta over allowed positions."""
    return [
        at_least(q.kappa_T, q.w_min * q.beta * q.number(factor), "kappa_T"),
        at_least(q.lambda_2, q.delta_allowed * q.number(factor), "lambda_2"),
    ]


def _across_ones(q: Quantities, tokens: Lifted) -> Lifted:
    """The least eigenvalue of tokens tokens^T on the vectors orthogonal to 1, for two tokens or more."""
    size = len(tokens)
    centred = tokens - tokens.sum(axis=0)[None, :] / size
    gram = centred @ centred.T
    # lift the direction 1 out of the way: its eigenvalue becomes trace + 1, above all others
    top = np.trace(gram) + 1
    least, _ = extreme_eigenvalues(gram + q.number(np.ones((size, size))) * (top / size), q.arithmetic)
    return least


def _centred(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """kappa_T^2 >= min|W|^2 beta beta_c, beta_c the least eigenvalue of X_c X_c^T across 1, and beta_c >= beta."""
    beta_c = _across_ones(q, q.X)
    return [
        at_least(q.kappa_T * q.kappa_T, q.w_min * q.w_min * q.beta * beta_c * q.number(factor), "kappa_T"),
        at_least(beta_c, q.beta, "beta_c"),
    ]


def _choosing(q: Quantities) -> tuple[Lifted, list[Lifted]]:
    """beta_L, the least eigenvalue of X_L X_L^T over the rows L with a choice, and each one's beta_i."""
    chosen = q.X[q.row_sizes >= 2]
    least, _ = extreme_eigenvalues(chosen @ chosen.T, q.arithmetic)
    return least, [_across_ones(q, q.X[row]) for row in q.allowed[q.row_sizes >= 2]]


def _masked(q: Quantities, factor: float = 1.0, weakest_row: bool = True) -> list[Relation]:
    """kappa_T^2 >= min|W|^2 beta_L min_i beta_i; both factors are at least beta."""
    beta_L, beta_rows = _choosing(q)
    bound = q.w_min * q.w_min * beta_L * (q.smallest if weakest_row else q.largest)(beta_rows)
    return [
        at_least(q.kappa_T * q.kappa_T, bound * q.number(factor), "kappa_T"),
        at_least(beta_L, q.beta, "beta_L"),
        at_least(q.smallest(beta_rows), q.beta, "beta_i"),
    ]


def _independent_choices() -> Hypothesis:
    """Rows with a choice exist, are linearly independent, and each sees affinely independent tokens."""

    def holds(q: Quantities) -> bool:
        if q.n_e == 0:
            return False
        beta_L, beta_rows = _choosing(q)
        floor = q.square(q.X) * q.number(1e-12)  # what float64 cannot tell from 0
        return bool(beta_L > floor) and all(bool(beta > floor) for beta in beta_rows)

    return Hypothesis("lambda_min(X_L X_L^T) > 0 and min_i beta_i > 0", holds, lambda rng: _one_token_more())


def _one_token_more() -> Iterator[Case]:
    """X = (0; e_1; ...; e_d), |W| = 1, causal, so n = d + 1 and beta = 0: X_L = I, and the weakest row decides."""
    for d in (1, 2, 3):
        W = np.ones((d, d)) - 2 * np.eye(d)
        values = {"X": np.eye(d + 1)[:, 1:], "W": W, "M": np.zeros((d, d)), "lam": 0.0, "mask": "causal"}
        yield Case(values, f"X = (0; e_1; ...; e_{d}), |W| = 1, causal")


def _near_dense(q: Quantities, factor: float = 1.0) -> Relation:
    rate = q.of(rates.pl_near_dense, q.kappa_plus, q.f_min, q.largest(np.abs(q.c)))
    return at_least(q.norm(q.G), rate * q.norm(q.c) * q.number(factor))


def _close_to_dense(rng: Generator, case: Case) -> dict[str, Any]:
    step = float(rng.choice([1e-3, 1e-2, 0.1, 0.3]))
    return {"M": 1.0 + step * (case["M"] - 0.5), "W": case["W"] / max(1.0, float(np.abs(case["W"]).max()))}


def _small_residual() -> Hypothesis:
    supply = Instances("any", extra=_close_to_dense, small=True)

    def holds(q: Quantities) -> bool:
        return bool(q.of(rates.near_dense, q.f_min, q.largest(np.abs(q.c))))

    return Hypothesis("max|c_ij| < f_min/2", holds, supply.families)


def _uniform_dense() -> Iterator[Case]:
    """Nearly uniform dense rows and M near 1: both factors of the bound tend to 1 and delta."""
    W = 1e-4 * (np.ones((2, 2)) - 2 * np.eye(2))
    M = np.array([[0.99, 1.0], [1.0, 1.0]])
    yield Case({"X": np.eye(2), "W": W, "M": M, "lam": 0.0, "mask": None}, "X = I_2, |W| = 1e-4, M near 1")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:gradient_inner_product",
        kind=Kind.LEMMA,
        title="The gradient against the mask",
        section=_SECTION,
        reading=ANY_MASK,
        formula="<W o (X^T p X), M> >= -sum_i W0((m_i - 1)/e) >= -n log n",
        strength=Strength.LOWER,
        margin=_inner,
        supply=Instances("any", free=("M", "W", "X")),
        uses=("thm:mat_view_l", "def:p"),
        wrong=(Wrong("<G, M> >= 0", lambda q: _inner(q, 0.0)), Wrong("0.36 of it", lambda q: _inner(q, 0.36))),
        source="new",
    ),
    Claim(
        id="new:PL_global",
        kind=Kind.LEMMA,
        title="PL inequality, global",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||grad L||^2 + (mu/2) xi >= (mu/2) ||c||^2 + lam^2 ||M||^2, (mu/2) xi = 2 lam sum_i W0((m_i - 1)/e),"
        " mu = 2 (min|W| beta delta)^2, xi = 4 lam sum_i W0((m_i - 1)/e)/mu if beta > 0 and"
        " delta > 0 and min|W| > 0",
        strength=Strength.TIGHT,
        margin=_global,
        supply=Instances("any"),
        hypotheses=_PL,
        uses=("new:gradient_inner_product", "fix:lower_bound_p", "lem:lower_bound_XBX", "lem:lower_bound_hadamard"),
        attains=_two_tokens,
        wrong=(
            Wrong("1.1 mu", lambda q: _global(q, factor=1.1)),
            Wrong("the cross term dropped", lambda q: _global(q, cross=0.0)),
        ),
        repairs="lem:PL_ineq",
        source="new",
    ),
    Claim(
        id="new:PL_additive_free",
        kind=Kind.LEMMA,
        title="Residual bounded by gradient and regulariser",
        section=_SECTION,
        reading=ANY_MASK,
        formula="min|W| beta delta ||c||_F <= ||grad L||_F + lam ||M||_F if beta > 0 and delta > 0 and min|W| > 0",
        strength=Strength.TIGHT,
        margin=_direct,
        supply=Instances("any"),
        hypotheses=_PL,
        uses=("fix:lower_bound_p", "lem:lower_bound_XBX", "lem:lower_bound_hadamard"),
        attains=_two_tokens,
        wrong=(Wrong("1.1 times the left side", lambda q: _direct(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:PL_sharp",
        kind=Kind.LEMMA,
        title="PL inequality with the operator's constants",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||W o (X^T p X)||_F^2 >= (mu/2) ||c||_F^2, mu = 2 (kappa_T l)^2, l = min_i lambda_2(J_i)",
        strength=Strength.TIGHT,
        margin=_sharp,
        supply=Instances("any"),
        uses=("thm:mat_view_l", "def:p"),
        attains=_two_tokens,
        wrong=(Wrong("1.1 times the right side", lambda q: _sharp(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:PL_constants",
        kind=Kind.LEMMA,
        title="How the sharp constants compare",
        section=_SECTION,
        reading=ANY_MASK,
        formula="kappa_T >= min|W| beta, lambda_2(J_i) >= min_allowed F_ij if beta > 0 and n_e >= 1",
        strength=Strength.TIGHT,
        margin=_constants,
        supply=Instances("any"),
        hypotheses=(
            beta_positive("any"),
            some_choice(lambda rng: _two_tokens()),
        ),
        uses=("lem:lower_bound_XBX", "lem:lower_bound_hadamard"),
        attains=_two_tokens,
        wrong=(Wrong("1.1 times the right sides", lambda q: _constants(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:kappa_centred",
        kind=Kind.LEMMA,
        title="Lower bound of kappa_T by centred tokens",
        section=_SECTION,
        reading=FULL,
        formula="kappa_T^2 >= min|W|^2 beta beta_c, beta_c >= beta if beta > 0 and n >= 2",
        strength=Strength.LOWER,
        margin=_centred,
        supply=Instances("full", least_tokens=2),
        hypotheses=(
            beta_positive("full"),
            Hypothesis("n >= 2", lambda q: q.n >= 2, lambda rng: _two_tokens()),
        ),
        uses=("new:PL_constants",),
        attains=_two_tokens,
        wrong=(Wrong("1.1 times the right side", lambda q: _centred(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:kappa_masked",
        kind=Kind.LEMMA,
        title="Lower bound of kappa_T by the tokens of rows",
        section=_SECTION,
        reading=ANY_MASK,
        formula="kappa_T^2 >= min|W|^2 lambda_min(X_L X_L^T) min_i beta_i, lambda_min(X_L X_L^T) >= beta,"
        " min_i beta_i >= beta if lambda_min(X_L X_L^T) > 0 and min_i beta_i > 0",
        strength=Strength.TIGHT,
        margin=_masked,
        supply=Instances("any", free=("W", "X")),
        hypotheses=(_independent_choices(),),
        uses=("lem:lower_bound_hadamard",),
        attains=_one_token_more,
        wrong=(
            Wrong("1.1 times the right side", lambda q: _masked(q, 1.1)),
            Wrong("the strongest row in place of the weakest", lambda q: _masked(q, weakest_row=False)),
        ),
        source="new",
    ),
    Claim(
        id="new:PL_near_dense",
        kind=Kind.LEMMA,
        title="PL inequality near the dense model",
        section=_SECTION,
        reading=ANY_MASK,
        formula="2 s < f_min implies ||W o (X^T p X)|| >= (1 - 2 s/f_min) kappa_+ (f_min - s) ||c||, s = max|c_ij|",
        strength=Strength.LOWER,
        margin=_near_dense,
        supply=Instances("any", extra=_close_to_dense),
        hypotheses=(_small_residual(),),
        uses=("new:PL_sharp",),
        attains=_uniform_dense,
        wrong=(Wrong("1.02 times the right side", lambda q: _near_dense(q, 1.02)),),
        source="new",
    ),
)
