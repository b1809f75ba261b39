"""Sharp Lipschitz constants: K/2 for the attention matrix and its residual, lam + C_+ K^2 for the gradient."""

from __future__ import annotations

from attnprune_verify.claims.cases.lipschitz_pairs import (
    PAIRS,
    F_of,
    c_of,
    diagonal_of,
    diagonal_rate,
    gradient_of,
    lipschitz,
    p1_of,
    p2_of,
    sharpest_bend,
    sharpest_product,
    smooth,
    softest,
)
from attnprune_verify.claims.cases.trajectory import sharp_L
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.theory.formulas import sharp

_SECTION = "F Lipschitz of Gradient"
_Q = (5 + 13**0.5) / 12  # the q that maximises q (1 - q) (4 q - 1)
_CORRECTION = 0.50788  # 0.507868 at two tokens, a = (3 + sqrt 3)/6, rounded up (PROOFS.md)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fix:lip_f",
        kind=Kind.LEMMA,
        title="Lipschitz of f(M), sharp",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||f(M) - f(M')||_F <= (K/2) ||M - M'||_F",
        strength=Strength.TIGHT,
        margin=lipschitz(F_of, lambda q: q.of(sharp.lipschitz_attention, q.K)),
        supply=PAIRS,
        uses=("lem:grad_soft_prob",),
        attains=softest,
        wrong=(
            Wrong("0.49 K", lipschitz(F_of, lambda q: q.K * q.number(0.49))),
            Wrong("K/4", lipschitz(F_of, lambda q: q.K / 4)),
        ),
        repairs="lem:lip_f",
        source="new",
    ),
    Claim(
        id="fix:lip_c",
        kind=Kind.LEMMA,
        title="Lipschitz of c(M), sharp",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||c(M) - c(M')||_F <= (K/2) ||M - M'||_F",
        strength=Strength.TIGHT,
        margin=lipschitz(c_of, lambda q: q.of(sharp.lipschitz_attention, q.K)),
        supply=PAIRS,
        uses=("fix:lip_f", "lem:grad_one_unit"),
        attains=softest,
        wrong=(Wrong("0.49 K", lipschitz(c_of, lambda q: q.K * q.number(0.49))),),
        repairs="lem:lip_c",
        source="new",
    ),
    Claim(
        id="fix:lip_f_circ_c",
        kind=Kind.LEMMA,
        title="Lipschitz of f(M) o c(M), sharp",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||f(M) o c(M) - f(M') o c(M')||_F <= (K/2) ||M - M'||_F",
        strength=Strength.TIGHT,
        margin=lipschitz(p1_of, lambda q: q.K / 2),
        supply=PAIRS,
        uses=("lem:grad_soft_prob", "def:one_unit_loss"),
        attains=sharpest_product,
        wrong=(Wrong("0.49 K", lipschitz(p1_of, lambda q: q.K * q.number(0.49))),),
        repairs="lem:lip_f_circ_c",
        source="new",
    ),
    Claim(
        id="fix:lip_grad_l",
        kind=Kind.THEOREM,
        title="Lipschitz constant of the gradient, sharp",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||grad L(M) - grad L(M')||_F <= (lam + C_+ K^2) ||M - M'||_F, C_+ = (39 + 55 sqrt(33))/1152",
        strength=Strength.TIGHT,
        margin=lipschitz(gradient_of, sharp_L),
        supply=PAIRS,
        uses=("thm:mat_view_l", "new:row_hessian"),
        attains=sharpest_bend,
        wrong=(
            Wrong("0.99 C_+", lipschitz(gradient_of, lambda q: smooth(q, 0.305036))),
            Wrong("lam left out", lipschitz(gradient_of, lambda q: smooth(q, 0.308118) - q.lam)),
        ),
        repairs="thm:lip_grad_l",
        source="new",
    ),
    Claim(
        id="new:lip_diag",
        kind=Kind.LEMMA,
        title="Lipschitz of the diagonal, sharp",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||diag((f(M) o c(M)) 1) - diag((f(M') o c(M')) 1)||_F <= sqrt 2 q (1-q) (4q-1) K ||M - M'||_F,"
        " q = (5 + sqrt 13)/12",
        strength=Strength.UPPER,
        margin=lipschitz(diagonal_of, lambda q: q.K * diagonal_rate(q)),
        supply=PAIRS,
        uses=("fix:lip_f_circ_c",),
        attains=sharpest_bend,
        wrong=(Wrong("0.53 K", lipschitz(diagonal_of, lambda q: q.K * q.number(0.53))),),
        repairs="lem:lip_diag",
        source="new",
        note="a third token raises the 1-norm of the row's derivative a little and lowers its 2-norm by more",
    ),
    Claim(
        id="new:lip_diag_f",
        kind=Kind.LEMMA,
        title="Lipschitz of the correction term",
        section=_SECTION,
        reading=ANY_MASK,
        formula=f"||p2(M) - p2(M')||_F <= {_CORRECTION} K ||M - M'||_F",
        strength=Strength.UPPER,
        margin=lipschitz(p2_of, lambda q: q.K * q.number(_CORRECTION)),
        supply=PAIRS,
        uses=("new:lip_diag", "new:jacobian_two_largest"),
        attains=sharpest_bend,
        wrong=(Wrong("0.5 K", lipschitz(p2_of, lambda q: q.K * q.number(0.5))),),
        repairs="lem:lip_diag_f",
        source="new",
        note="a row's rate is the norm of s (J (2s - f))^T + <s, s - f> J, s the row, largest at a vertex f and at two"
        " tokens",
    ),
)
