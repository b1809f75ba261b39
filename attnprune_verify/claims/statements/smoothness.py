"""Softmax rows and the logit map: how fast they move, with simple constants that have formal proofs."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Arrays, Instances, Supply
from attnprune_verify.claims.cases.trajectory import upper_constant
from attnprune_verify.claims.core import Claim, Kind, Margin, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL

_SECTION = "F Lipschitz of Gradient"


def _jacobian_norm(q: Quantities, half: float = 0.5) -> Relation:
    s = q.softmax(q.s)
    return at_most(q.norm(s * q.v - s * (s * q.v).sum()), q.norm(q.v) * q.number(half))


def _row_moves(q: Quantities, half: float = 0.5) -> Relation:
    return at_most(q.norm(q.softmax(q.s) - q.softmax(q.s + q.v)), q.norm(q.v) * q.number(half))


def _row_of_p(q: Quantities, logits: Lifted) -> Lifted:
    s, f = q.softmax(logits), q.softmax(q.t)
    c = s - f
    return c * s - s * (c * s).sum()


def _p_row(q: Quantities, constant: float = 1.25) -> Relation:
    return at_most(q.norm(_row_of_p(q, q.s) - _row_of_p(q, q.s + q.v)), q.norm(q.v) * q.number(constant))


def _two_equal() -> Iterator[Case]:
    yield Case({"s": np.zeros(2), "t": np.zeros(2), "v": np.array([1e-6, -1e-6])}, "two equal logits, opposite step")


def _step(rng: Generator, case: Case) -> Case:
    return case.but(s=case["s"] / 2, v=case["v"] * float(rng.choice([1e-3, 1.0])))


def _pair(rng: Generator, case: Case) -> dict[str, Any]:
    return {"N": case["M"] + float(rng.choice([1e-3, 1.0])) * rng.standard_normal(case["M"].shape)}


def _p_moves(q: Quantities, constant: Lifted) -> Relation:
    return at_most(q.norm(q.p - q.at(q.N).p), q.K * q.norm(q.M - q.N) * constant)


def _gradient_moves(q: Quantities, constant: float = 1.25) -> Relation:
    change = q.norm(q.gradient - q.at(q.N).gradient)
    return at_most(change, (q.lam + q.number(constant) * q.K * q.K) * q.norm(q.M - q.N))


def _logits_move(q: Quantities, factor: float = 1.0) -> Relation:
    """The logit map alone, in Frobenius norms."""
    return at_most(q.norm(q.logits), q.w_max * q.square(q.X) * q.norm(q.M) * q.number(factor))


def _rank_one() -> Iterator[Case]:
    values = {"X": np.ones((2, 1)), "W": np.ones((1, 1)), "M": np.ones((1, 1)), "lam": 0.0, "mask": None}
    yield Case(values, "all ones")


def _sharpest() -> Iterator[Case]:
    """The bend of fix:lip_grad_l: p moves at rate C_+ K."""
    for sign in (-1.0, 1.0):
        place = (15 + sign * np.sqrt(33.0)) / 24
        for p in (place, 1 - place):
            M = np.array([[np.log(p / (1 - p)) / 20.0]])
            values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[20.0]]), "M": M, "N": M + 1e-6, "lam": 0.0}
            yield Case({**values, "mask": None}, f"d = 1, W = 20, p = {p:.6f}")


def _claim(
    id_: str,
    title: str,
    formula: str,
    margin: Margin,
    wrong: Wrong,
    *,
    rows: bool = False,
    attains: Callable[[], Iterator[Case]] | None = None,
    tight: bool = True,
    uses: tuple[str, ...] = (),
) -> Claim:
    arrays = Arrays({"s": "m", "t": "m", "v": "m"}, make=_step, free=("s", "t", "v"), sizes=(2, 3, 4, 6), rounds=24)
    supply: Supply = arrays if rows else Instances("any", extra=_pair, free=("M", "N", "W"))
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title=title,
        section=_SECTION,
        reading=LITERAL if rows else ANY_MASK,
        formula=formula,
        strength=Strength.TIGHT if attains and tight else Strength.UPPER,
        margin=margin,
        supply=supply,
        uses=uses,
        attains=attains,
        wrong=(wrong,),
        source="new",
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "new:softmax_jacobian",
        "Norm of the softmax Jacobian",
        "||(diag(s) - s s^T) v|| <= ||v||/2",
        _jacobian_norm,
        Wrong("0.49", lambda q: _jacobian_norm(q, 0.49)),
        rows=True,
        attains=_two_equal,
    ),
    _claim(
        "new:softmax_lipschitz",
        "Softmax is Lipschitz",
        "||softmax(s + v) - softmax(s)|| <= ||v||/2",
        _row_moves,
        Wrong("0.49", lambda q: _row_moves(q, 0.49)),
        rows=True,
        attains=_two_equal,
        uses=("new:softmax_jacobian",),
    ),
    _claim(
        "new:row_hessian_five_quarters",
        "A simple row constant",
        "||p_i(s + v) - p_i(s)|| <= (5/4) ||v||",
        _p_row,
        Wrong("0.3", lambda q: _p_row(q, 0.3)),
        rows=True,
        attains=_two_equal,
        tight=False,
        uses=("new:softmax_jacobian",),
    ),
    _claim(
        "new:lip_p",
        "Lipschitz of p",
        "||p(M) - p(M')||_F <= (5/4) K ||M - M'||_F",
        lambda q: _p_moves(q, q.number(1.25)),
        Wrong("C = 0.3", lambda q: _p_moves(q, q.number(0.3))),
        attains=_sharpest,
        tight=False,
        uses=("new:row_hessian_five_quarters",),
    ),
    _claim(
        "new:lip_p_sharp",
        "Lipschitz of p, sharp",
        "||p(M) - p(M')||_F <= C_+ K ||M - M'||_F",
        lambda q: _p_moves(q, upper_constant(q)),
        Wrong("0.98 C_+", lambda q: _p_moves(q, upper_constant(q) * q.number(0.98))),
        attains=_sharpest,
        uses=("new:row_hessian",),
    ),
    _claim(
        "new:lip_grad_row_constant",
        "Lipschitz of the gradient from a row constant",
        "||grad L(M) - grad L(M')||_F <= (lam + (5/4) K^2) ||M - M'||_F",
        _gradient_moves,
        Wrong("C = 0.3", lambda q: _gradient_moves(q, 0.3)),
        attains=_sharpest,
        tight=False,
        uses=("new:row_hessian_five_quarters", "thm:mat_view_l"),
    ),
    _claim(
        "new:logit_bound",
        "The logit map is bounded",
        "||X (M o W) X^T||_F <= max|W| ||X||_F^2 ||M||_F",
        _logits_move,
        Wrong("0.9 of it", lambda q: _logits_move(q, 0.9)),
        attains=_rank_one,
    ),
)
