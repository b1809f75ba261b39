"""Simpler bounds between the paper's and the sharp ones: each has a formal proof."""

from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Margin, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL

_SECTION = "E Bounds for Basic Functions"


def _root(q: Quantities, value: float) -> Lifted:
    return q.sqrt(q.number(value))


def _flipped(scale: float = 40.0, M: float = -1.0) -> Iterator[Case]:
    W = scale * np.array([[1.0, -1.0], [-1.0, 1.0]])
    values = {"X": np.eye(2), "W": W, "M": np.full((2, 2), M), "lam": 0.0, "mask": None}
    yield Case(values, f"X = I_2, |W| = {scale}, M = {M:.3g}")


def _halved() -> Iterator[Case]:
    """f(M) uniform over two: the softmax Jacobian has norm 1/2."""
    yield from _flipped(1.0, 0.0)


def _plus_lam_M(q: Quantities, cross: float = 2.0) -> Relation:
    """||B + lam M||^2 >= ||B||^2 + lam^2 ||M||^2 - 2 ||B|| lam d for ||M||_F <= d."""
    total = q.B + q.M * q.lam
    lost = q.norm(q.B) * q.lam * q.number(cross * len(q.case["B"]))
    return at_least(q.square(total) + lost, q.square(q.B) + q.lam * q.lam * q.square(q.M))


def _in_ball(rng: np.random.Generator, case: Case) -> Case:
    d, size = len(case["M"]), float(np.linalg.norm(case["M"]))
    M = case["M"] * (0.999 * d / size) if size > 0 else case["M"]
    return case.but(M=M, lam=float(rng.choice([0.0, 0.5, 2.0])))


def _opposed() -> Iterator[Case]:
    """One large entry outside the box, B opposed to it."""
    for d in (1, 2):
        M = np.zeros((d, d))
        M[0, 0] = -d
        yield Case({"B": 0.5 * np.sign(-M), "M": M, "lam": 0.5}, f"d = {d}, M outside the box")


def _bound(
    id_: str,
    title: str,
    formula: str,
    margin: Margin,
    wrong: Wrong,
    attains: Callable[[], Iterator[Case]] | None = None,
    note: str = "",
) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title=title,
        section=_SECTION,
        reading=ANY_MASK,
        formula=formula,
        strength=Strength.TIGHT if attains else Strength.UPPER,
        margin=margin,
        supply=Instances("any"),
        uses=("def:p",),
        attains=attains,
        wrong=(wrong,),
        source="new",
        note=note,
    )


def _upper(q: Quantities, factor: float = 3.0) -> Relation:
    return at_most(q.norm(q.G), _root(q, float(q.n)) * q.w_max * q.square(q.X) * q.number(factor))


CLAIMS: tuple[Claim, ...] = (
    _bound(
        "new:bound_c_sharp",
        "Bound for c by the number of rows",
        "||c(M)||_F <= sqrt(2n)",
        lambda q: at_most(q.norm(q.c), _root(q, 2.0 * q.n)),
        Wrong("1.4 sqrt(n)", lambda q: at_most(q.norm(q.c), _root(q, 1.96 * q.n))),
        _flipped,
    ),
    _bound(
        "new:bound_diag_sharp",
        "Bound for the diagonal by the number of rows",
        "||diag((c o f(M)) 1)||_F <= sqrt(n)",
        lambda q: at_most(q.norm(q.p1.sum(axis=1)), _root(q, float(q.n))),
        Wrong("0.9 sqrt(n)", lambda q: at_most(q.norm(q.p1.sum(axis=1)), _root(q, 0.81 * q.n))),
        _flipped,
    ),
    _bound(
        "new:bound_p",
        "Bound for p",
        "||p||_F <= 3 sqrt(n)",
        lambda q: at_most(q.norm(q.p), _root(q, 9.0 * q.n)),
        Wrong("0.41 sqrt(n)", lambda q: at_most(q.norm(q.p), _root(q, 0.41**2 * q.n))),
        note="7.2 times too large: new:bound_p_sharp has 8 sqrt(2)/27 in place of 3",
    ),
    _bound(
        "new:p_norm_half_c",
        "p against c",
        "||p||_F <= ||c||_F / 2",
        lambda q: at_most(q.norm(q.p), q.norm(q.c) / 2),
        Wrong("0.49 ||c||", lambda q: at_most(q.norm(q.p), q.norm(q.c) * q.number(0.49))),
        _halved,
    ),
    _bound(
        "new:attention_gradient_upper",
        "The attention gradient by norms",
        "||W o (X^T p X)||_F <= 3 sqrt(n) max|W| ||X||_F^2",
        _upper,
        Wrong("0.41 in place of 3", lambda q: _upper(q, 0.41)),
        note="7.2 times too large: new:attention_gradient_sharp has 8 sqrt(2)/27 in place of 3",
    ),
    Claim(
        id="fix:lower_bound_B_plus_M",
        kind=Kind.LEMMA,
        title="Lower bound for B + lam M in the ball",
        section="G Convergence of Gradient Descent",
        reading=LITERAL,
        formula="||B + lam M||^2 >= ||B||^2 + lam^2 ||M||^2 - 2 ||B|| lam d for ||M||_F <= d",
        strength=Strength.TIGHT,
        margin=_plus_lam_M,
        supply=Arrays({"B": "dd", "M": "dd"}, make=_in_ball, free=("B",), rounds=24),
        hypotheses=(
            Hypothesis("||M||_F <= d", lambda q: bool(q.square(q.M) <= len(q.case["M"]) ** 2), lambda rng: _opposed()),
        ),
        uses=("fac:F_norm_A_plus_B", "fac:norm_bound"),
        attains=_opposed,
        wrong=(Wrong("1.9 ||B|| lam d", lambda q: _plus_lam_M(q, cross=1.9)),),
        repairs="lem:lower_bound_B_plus_M",
        source="new",
    ),
)
