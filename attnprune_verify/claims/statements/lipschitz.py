"""Lipschitz constants of the paper: they hold, by orders of magnitude."""

from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.lipschitz_pairs import (
    PAIRS,
    F_of,
    Function,
    c_of,
    diagonal_of,
    gradient_of,
    lipschitz,
    p1_of,
    p2_of,
    paper_constant,
    sharpest_bend,
    softest,
)
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Arrays
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL
from attnprune_verify.theory.formulas import paper

_SECTION = "F Lipschitz of Gradient"
_FACTORS = " ||x - y||, L_i = ||f(x)_i - f(y)_i||_F/||x - y||, R_i = max(1, ||f(x)_i||_F, ||f(y)_i||_F)"


def _mean_value(q: Quantities, factor: float = 1.0) -> Relation:
    """g(X) = A X B + X o X; ||g'||_F is convex along the segment, so its maximum is at an end."""

    def value(at: Lifted) -> Lifted:
        return q.A @ at @ q.B + at * at

    def jacobian(at: Lifted) -> Lifted:
        n = len(at)
        table = np.kron(q.A, q.B.T)  # row-major vec
        return q.norm(table + np.diag((at * 2).reshape(n * n)))

    R = q.largest([jacobian(q.X), jacobian(q.Y)]) * q.number(factor)
    return at_most(q.norm(value(q.Y) - value(q.X)), R * q.norm(q.Y - q.X))


def _product(q: Quantities, constant: Callable[[int], float]) -> Relation:
    """f_i(x) = P_i, f_i(y) = Q_i at distance 1, R_i = max(1, ||P_i||, ||Q_i||), L_i = ||P_i - Q_i||."""
    P, Q, n = q.P, q.Q, len(q.P)
    bounds, left, right = q.number(1.0), P[0], Q[0]
    for i in range(n):
        bounds = bounds * q.largest([q.number(1.0), q.norm(P[i]), q.norm(Q[i])])
        if i:
            left, right = left @ P[i], right @ Q[i]
    steepest = q.largest([q.norm(P[i] - Q[i]) for i in range(n)])
    return at_most(q.norm(left - right), steepest * bounds * q.number(constant(n)))


def _lip_f(q: Quantities) -> Lifted:
    return q.of(paper.lipschitz_attention, q.n, q.d, q.R)


def _near_ones() -> Iterator[Case]:
    for n in (2, 3, 4):
        yield Case({"P": np.ones((n, 1, 1)), "Q": np.full((n, 1, 1), 1 - 1e-5)}, f"{n} scalar functions near 1")


def _paper_lemma(
    id_: str,
    title: str,
    formula: str,
    function: Function,
    constant: Function,
    uses: tuple[str, ...],
    repaired_by: str | None,
    note: str = "",
    wrong_factor: float = 1e-3,
    attains: Lifted = softest,
) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title=title,
        section=_SECTION,
        reading=ANY_MASK,
        formula=formula,
        strength=Strength.UPPER,
        margin=lipschitz(function, constant),
        supply=PAIRS,
        uses=uses,
        wrong=(
            Wrong(
                f"the constant without R^3, times {wrong_factor}",
                lipschitz(function, lambda q: constant(q) / (q.R * q.R * q.R) * q.number(wrong_factor)),
            ),
        ),
        repaired_by=repaired_by,
        attains=attains,
        note=note,
    )


def _theorem(id_: str, section: str, uses: tuple[str, ...]) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.THEOREM,
        title="Lipschitz constant of the gradient",
        section=section,
        reading=ANY_MASK,
        formula="||grad L(M) - grad L(M')||_F <= (lam + 30 d n^{7/2} R^6) ||M - M'||_F",
        strength=Strength.UPPER,
        margin=lipschitz(gradient_of, lambda q: q.of(paper.lipschitz, q.n, q.d, q.R, q.lam)),
        supply=PAIRS,
        uses=uses,
        attains=sharpest_bend,
        wrong=(
            Wrong("lam left out, and R^6", lipschitz(gradient_of, lambda q: q.number(1e-3 * q.d))),
            Wrong("half of lam alone", lipschitz(gradient_of, lambda q: q.lam / 2)),
        ),
        repaired_by="fix:lip_grad_l",
        note="in the proof '= R^3' must read '<= R^3'",
    )


CLAIMS: tuple[Claim, ...] = (
    _theorem("thm:lip_grad_l_informal", "5 Technique Overview", ("thm:lip_grad_l",)),
    Claim(
        id="fac:mean_value",
        kind=Kind.FACT,
        title="Mean value theorem for matrix functions",
        section=_SECTION,
        reading=LITERAL,
        formula="||g(Y) - g(X)||_F <= R ||Y - X||_F, R = max(||dg(X)||_F, ||dg(Y)||_F), g(X) = A X B + X o X, g(Y) ="
        " A Y B + Y o Y",
        strength=Strength.UPPER,
        margin=_mean_value,
        supply=Arrays({"A": "nn", "B": "nn", "X": "nn", "Y": "nn"}, free=("X", "Y")),
        wrong=(Wrong("R/4", lambda q: _mean_value(q, 0.25)),),
        note="f and G are mixed; g(Y) = g(X) needs its own line",
    ),
    Claim(
        id="fac:lip_product",
        kind=Kind.FACT,
        title="Lipschitz constant of a product",
        section=_SECTION,
        reading=LITERAL,
        formula=f"||prod_i f(x)_i - prod_i f(y)_i||_F <= 2^{{n-1}} (max_i L_i) prod_i R_i{_FACTORS}",
        strength=Strength.UPPER,
        margin=lambda q: _product(q, lambda n: 2.0 ** (n - 1)),
        supply=Arrays({"P": "nmm", "Q": "nmm"}, free=("P", "Q"), sizes=(1, 2, 3)),
        attains=_near_ones,
        wrong=(Wrong("constant 1", lambda q: _product(q, lambda n: 1.0)),),
        repaired_by="fix:lip_product",
    ),
    Claim(
        id="fix:lip_product",
        kind=Kind.FACT,
        title="Lipschitz constant of a product, sharp",
        section=_SECTION,
        reading=LITERAL,
        formula=f"||prod_i f(x)_i - prod_i f(y)_i||_F <= n (max_i L_i) prod_i R_i{_FACTORS}",
        strength=Strength.TIGHT,
        margin=lambda q: _product(q, float),
        supply=Arrays({"P": "nmm", "Q": "nmm"}, free=("P", "Q"), sizes=(1, 2, 3)),
        attains=_near_ones,
        wrong=(Wrong("0.95 n", lambda q: _product(q, lambda n: 0.95 * n)),),
        repairs="fac:lip_product",
        source="new: telescoping",
    ),
    _paper_lemma(
        "lem:lip_f",
        "Lipschitz of f(M)",
        "||f(M) - f(M')||_F <= 2 d n R^3 ||M - M'||_F",
        F_of,
        _lip_f,
        ("fac:mean_value", "lem:bound_grad_f"),
        "fix:lip_f",
    ),
    _paper_lemma(
        "lem:lip_c",
        "Lipschitz of c(M)",
        "||c(M) - c(M')||_F <= 2 d n R^3 ||M - M'||_F",
        c_of,
        _lip_f,
        ("fac:mean_value", "lem:grad_one_unit", "lem:bound_grad_f"),
        "fix:lip_c",
    ),
    _paper_lemma(
        "lem:lip_f_circ_c",
        "Lipschitz of f(M) o c(M)",
        "||f(M) o c(M) - f(M') o c(M')||_F <= 6 d n^{3/2} R^3 ||M - M'||_F",
        p1_of,
        paper_constant(1.5, 6),
        ("lem:lip_f", "lem:lip_c", "lem:bound_basic_func", "fac:norm_bound"),
        "fix:lip_f_circ_c",
        attains=sharpest_bend,
    ),
    _paper_lemma(
        "lem:lip_diag",
        "Lipschitz of the diagonal",
        "||diag((f(M) o c(M)) 1) - diag((f(M') o c(M')) 1)||_F <= 6 d n^2 R^3 ||M - M'||_F",
        diagonal_of,
        paper_constant(2, 6),
        ("lem:lip_f_circ_c", "fac:algebra", "fac:norm_bound"),
        "new:lip_diag",
        attains=sharpest_bend,
    ),
    _paper_lemma(
        "lem:lip_diag_f",
        "Lipschitz of the correction term",
        "||diag((f(M) o c(M)) 1) f(M) - diag((f(M') o c(M')) 1) f(M')||_F <= 24 d n^{7/2} R^3 ||M - M'||_F",
        p2_of,
        paper_constant(3.5, 24),
        ("fac:lip_product", "lem:lip_f", "lem:lip_diag", "lem:bound_basic_func"),
        "new:lip_diag_f",
        note="the maximum lists 6 d n^{3/2} R^3 where Lip(f(M)) = 2 d n R^3 belongs; harmless",
        attains=sharpest_bend,
        wrong_factor=1e-4,
    ),
    _theorem(
        "thm:lip_grad_l",
        _SECTION,
        ("thm:mat_view_l", "lem:lip_f_circ_c", "lem:lip_diag_f", "fac:norm_bound", "asp:bound_parameters"),
    ),
)
