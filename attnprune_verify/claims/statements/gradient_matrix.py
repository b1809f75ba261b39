"""The gradient in matrix form, against automatic differentiation in balls and against the library's own code."""

import numpy as np

from attnprune_verify.claims.cases.agreement import agree
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, equal
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, CAUSAL, LITERAL
from attnprune_verify.model import gradient

_SECTION = "D Matrix Form"
_ANY = Instances("any", small=True, rounds=1)


def _p(q: Quantities, formula: Lifted) -> list[Relation]:
    """p entry by entry: F_ij (c_ij - <c_i, F_i>), which is J_i c_i; columns of p_1, and rows of p_2 both ways."""
    rows = [q.F[i] * (q.c[i] - (q.c[i] * q.F[i]).sum()) for i in range(q.n)]
    found = [equal(np.array(rows), formula, "p")]
    found += [equal(q.p1[:, j], (q.c * q.F)[:, j], "p_1") for j in range(q.n)]
    for i in range(q.n):
        ones = (q.number(np.ones(q.n)) * q.p1[i]).sum() * q.F[i]
        found += [equal(q.p2[i], ones, "p_2"), equal(ones, q.F[i] * (q.c[i] * q.F[i]).sum(), "p_2, the other way")]
    return found


def _scaled_outer(q: Quantities, i0: int, j0: int) -> Lifted:
    """C1: the matrix with entries B1(M, i1, j1), index by index."""
    factor = q.c[i0, j0] * q.F[i0, j0]
    table = [[factor * q.W[a, b] * q.X[i0, a] * q.X[j0, b] for b in range(q.d)] for a in range(q.d)]
    return np.array(table, dtype=object)


def _minus_mean(q: Quantities, i0: int, j0: int) -> Lifted:
    """C2: the matrix with entries B2(M, i1, j1), index by index."""
    factor = q.c[i0, j0] * q.F[i0, j0]
    table = []
    for a in range(q.d):
        row = []
        for b in range(q.d):
            mean = q.number(0.0)
            for j in range(q.n):
                mean = mean + q.F[i0, j] * q.W[a, b] * q.X[i0, a] * q.X[j, b]
            row.append(-factor * mean)
        table.append(row)
    return np.array(table, dtype=object)


def _pairs(q: Quantities) -> list[tuple[int, int]]:
    return [(i, j) for i in range(q.n) for j in range(q.n)]


def _total(q: Quantities, term: Lifted) -> Lifted:
    total = q.number(np.zeros((q.d, q.d)))
    for i, j in _pairs(q):
        total = total + term(q, i, j)
    return total


def _view_1(q: Quantities, core: Lifted) -> list[Relation]:
    first = [
        equal(_scaled_outer(q, i, j), (q.W * (q.X[i][:, None] * q.X[j][None, :])) * (q.c[i, j] * q.F[i, j]), "Part 1")
        for i, j in _pairs(q)
    ]
    return [*first, equal(_total(q, _scaled_outer), q.W * (q.X.T @ core @ q.X), "Part 2")]


def _view_2(q: Quantities, core: Lifted) -> list[Relation]:
    first = [
        equal(
            _minus_mean(q, i, j),
            -(np.diag(q.X[i]) @ q.W @ np.diag(q.X.T @ q.F[i])) * (q.c[i, j] * q.F[i, j]),
            "Part 1",
        )
        for i, j in _pairs(q)
    ]
    return [*first, equal(_total(q, _minus_mean), -q.W * (q.X.T @ core @ q.X), "Part 2")]


def _differentiated(q: Quantities) -> Lifted:
    """The gradient of L, one automatic derivative of the literal loss per entry of M."""
    slopes = [
        [q.directional(q.unit(i, j), lambda m: m.L_attn + q.lam * (m.M * m.M).sum() / 2) for j in range(q.d)]
        for i in range(q.d)
    ]
    return np.array(slopes)


def _closed(q: Quantities, core: Lifted, lam: Lifted) -> list[Relation]:
    formula = q.W * (q.X.T @ core @ q.X) + q.M * lam
    theirs = gradient(q.case["M"], q.case["X"], q.case["W"], q.case["lam"], q.case["mask"])
    return [equal(_differentiated(q), formula, "derivative of the literal loss"), agree(q, formula, theirs, "library")]


def _gradient_claim(id_: str, section: str, causal: bool, uses: tuple[str, ...]) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.THEOREM,
        title="Closed form of the gradient",
        section=section,
        reading=CAUSAL if causal else ANY_MASK,
        formula="dL/dM = W o (X^T p X) + lam M",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _closed(q, q.p, q.lam),
        supply=Instances("causal", small=True, rounds=1) if causal else _ANY,
        uses=uses,
        wrong=(
            Wrong("p2 left out", lambda q: _closed(q, q.p1, q.lam)),
            Wrong("p transposed", lambda q: _closed(q, q.p.T, q.lam)),
            Wrong("lam M doubled", lambda q: _closed(q, q.p, q.lam * 2)),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    _gradient_claim("thm:mat_view_l_informal", "5 Technique Overview", True, ("thm:mat_view_l",)),
    Claim(
        id="def:p",
        kind=Kind.DEFINITION,
        title="p",
        section=_SECTION,
        reading=ANY_MASK,
        formula="p = c o f(M) - diag((c o f(M)) 1) f(M)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _p(q, q.p),
        supply=_ANY,
        uses=("def:one_unit_loss", "def:soft_prob_func"),
        wrong=(
            Wrong("the correction uses the dense softmax", lambda q: _p(q, q.p1 - q.p1.sum(axis=1)[:, None] * q.f)),
            Wrong("the correction left out", lambda q: _p(q, q.p1)),
        ),
    ),
    Claim(
        id="lem:mat_view_b1",
        kind=Kind.LEMMA,
        title="Matrix view of B1",
        section=_SECTION,
        reading=ANY_MASK,
        formula="C1(M)_ij = c(M)_ij f(M)_ij (W o (X_i X_j^T)), sum_ij C1(M)_ij = W o (X^T p1 X)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _view_1(q, q.p1),
        supply=_ANY,
        uses=("def:p", "lem:grad_loss_func", "fac:indexing", "fac:combine", "fac:algebra"),
        wrong=(Wrong("p1 transposed", lambda q: _view_1(q, q.p1.T)),),
        note="C1 depends on (i0, j0), which its name does not show",
    ),
    Claim(
        id="lem:mat_view_b2",
        kind=Kind.LEMMA,
        title="Matrix view of B2",
        section=_SECTION,
        reading=ANY_MASK,
        formula="C2(M)_ij = -c(M)_ij f(M)_ij diag(X_i) W diag(X^T f(M)_i), sum_ij C2(M)_ij = -W o (X^T p2 X)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _view_2(q, q.p2),
        supply=_ANY,
        uses=("def:p", "lem:grad_loss_func", "fac:indexing", "fac:combine", "fac:algebra"),
        wrong=(Wrong("p1 in place of p2", lambda q: _view_2(q, q.p1)),),
    ),
    Claim(
        id="lem:mat_view_b3",
        kind=Kind.LEMMA,
        title="Matrix view of B3",
        section=_SECTION,
        reading=LITERAL,
        formula="C3(M) = lam M",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: equal(q.M * q.lam, np.array([[q.lam * entry for entry in row] for row in q.M], dtype=object)),
        supply=Arrays({"M": "dd", "lam": ""}),
        tags=frozenset({"tautology"}),
        uses=("lem:grad_loss_func",),
        wrong=(
            Wrong("transposed", lambda q: equal(q.M.T * q.lam, np.array([[q.lam * e for e in row] for row in q.M]))),
        ),
    ),
    _gradient_claim(
        "thm:mat_view_l",
        _SECTION,
        False,
        ("lem:grad_loss_func", "lem:mat_view_b1", "lem:mat_view_b2", "lem:mat_view_b3", "def:p"),
    ),
)
