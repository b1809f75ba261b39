"""The equations inside proofs that the paper numbers, line by line."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.lipschitz_pairs import (
    PAIRS,
    diagonal_of,
    gradient_of,
    moved,
    p1_of,
    p2_of,
    paper_constant,
)
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal
from attnprune_verify.claims.cases.supply import Arrays, Instances, Supply
from attnprune_verify.claims.core import Claim, Kind, Margin, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, FULL, LITERAL
from attnprune_verify.theory.formulas import paper

_C, _D = "C Gradient Calculation", "D Matrix Form"
_F, _G = "F Lipschitz of Gradient", "G Convergence of Gradient Descent"
_NODES = 8  # chosen: slopes at both ends and seven points between
_ROUNDED = 1e-9
"""What float64 may lose of the gradients; a larger difference is decided by balls, in which it is 0."""
_Lines = Callable[[Quantities, int, int], list[Lifted]]


def _equation(
    id_: str,
    section: str,
    title: str,
    formula: str,
    margin: Margin,
    wrong: Wrong,
    uses: tuple[str, ...],
    *,
    supply: Supply,
    reading: Reading = ANY_MASK,
    strength: Strength = Strength.IDENTITY,
    arithmetic: str = "ball",
    attains: Callable[[], Iterator[Case]] | None = None,
    note: str = "",
) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.EQUATION,
        title=f"Equation in a proof: {title}",
        section=section,
        reading=reading,
        formula=formula,
        strength=strength,
        arithmetic=arithmetic,
        margin=margin,
        supply=supply,
        uses=uses,
        wrong=(wrong,),
        attains=attains,
        note=note,
    )


def _chain(q: Quantities, lines: _Lines) -> list[Relation]:
    """For every M_{i1,j1}: each line equals the one before."""
    found = []
    for i, j in ((i, j) for i in range(q.d) for j in range(q.d)):
        values = lines(q, i, j)
        found += [
            equal(one, other, f"line {k}") for k, (one, other) in enumerate(zip(values, values[1:], strict=False), 2)
        ]
    return found


def _change(q: Quantities, i: int, j: int) -> Lifted:
    """W_ij X_{i0,i} X_{*,j} as an (n, n) table, row i0: how the logits move with M_ij."""
    return (q.X[:, i][:, None] * q.X[:, j][None, :]) * q.W[i, j]


def _rows(q: Quantities, i: int, j: int, transposed: bool = True) -> list[Lifted]:
    """Derivative of the logits; of (X (M o W)^T X_{i0}); and X d(M o W)^T X_{i0}, all rows i0 at once."""
    unit = q.unit(i, j)
    inner = q.directional(unit, lambda m: (m.M * m.W).T if transposed else m.M * m.W)
    whole = q.directional(unit, lambda m: (m.X @ (m.M * m.W).T @ m.X.T).T)
    return [q.directional(unit, lambda m: m.logits), whole, (q.X @ inner @ q.X.T).T]


def _masked_weight(q: Quantities, i: int, j: int, transposed: bool = True) -> list[Lifted]:
    one = q.directional(q.unit(i, j), lambda m: (m.M * m.W).T)
    return [one, q.unit(j, i) * q.W.T[j, i], (q.unit(j, i) if transposed else q.unit(i, j)) * q.W[i, j]]


def _allowed(q: Quantities) -> Lifted:
    return q.number(q.allowed.astype(float))


def _kept(q: Quantities) -> Lifted:
    """u(M) o M_c."""
    return q.ut * _allowed(q)


def _quotient(q: Quantities, i: int, j: int, sign: int = 1) -> list[Lifted]:
    """The derivative of f(M) and both terms of the product rule."""
    unit, inverse = q.unit(i, j), 1 / q.alphat
    first = q.directional(unit, lambda m: 1 / m.alphat)[:, None] * _kept(q)
    second = q.directional(unit, _kept) * inverse[:, None]
    return [q.directional(unit, lambda m: m.F), first + second * sign]


def _first_term(q: Quantities, i: int, j: int, power: int = 2) -> list[Lifted]:
    change, kept, alpha = _change(q, i, j), _kept(q), q.alphat[:, None]
    slope = q.directional(q.unit(i, j), lambda m: m.alphat)[:, None]
    return [
        q.directional(q.unit(i, j), lambda m: 1 / m.alphat)[:, None] * kept,
        -kept * slope / (alpha * alpha if power == 2 else alpha),
        -kept * (kept * change).sum(axis=1)[:, None] / (alpha * alpha),
        -(kept / alpha) * ((kept / alpha) * change).sum(axis=1)[:, None],
        -q.F * (q.F * change).sum(axis=1)[:, None],
    ]


def _second_term(q: Quantities, i: int, j: int, swapped: bool = False) -> list[Lifted]:
    alpha, unit = q.alphat[:, None], q.unit(i, j)
    change = _change(q, j, i) if swapped else _change(q, i, j)
    return [
        q.directional(unit, _kept) / alpha,
        _allowed(q) * q.directional(unit, lambda m: m.ut) / alpha,
        (_kept(q) / alpha) * _change(q, i, j),
        q.F * change,
    ]


def _entries(q: Quantities, value: Callable[[int, int], Lifted]) -> Lifted:
    return np.array([[value(a, b) for b in range(q.d)] for a in range(q.d)], dtype=object)


def _C1(q: Quantities, right: int = 1) -> list[Relation]:
    """C_1 index by index, as two diagonal factors, and as a Hadamard product."""
    found = []
    for i, j in ((i, j) for i in range(q.n) for j in range(q.n)):
        factor = q.c[i, j] * q.F[i, j]
        table = _entries(q, lambda a, b, i=i, j=j, factor=factor: factor * q.W[a, b] * q.X[i, a] * q.X[j, b])  # type: ignore[misc]
        diagonal = np.diag(q.X[i]) @ q.W @ (np.diag(q.X[j]) if right else np.diag(q.X[i]))
        hadamard = q.W * (q.X[i][:, None] * q.X[j][None, :])
        found += [equal(table, diagonal * factor, "line 1"), equal(diagonal * factor, hadamard * factor, "line 2")]
    return found


def _C2(q: Quantities, sign: int = -1) -> list[Relation]:
    """C_2 from its entries B_2, and -C_2 as two diagonal factors."""
    found = []
    for i, j in ((i, j) for i in range(q.n) for j in range(q.n)):
        factor = q.c[i, j] * q.F[i, j]

        def entry(a: int, b: int, i: int = i, factor: Lifted = factor) -> Lifted:
            return -factor * (q.F[i] * _change(q, a, b)[i]).sum()

        diagonal = np.diag(q.X[i]) @ q.W @ np.diag(q.X.T @ q.F[i])
        found.append(equal(_entries(q, entry) * sign, diagonal * factor))
    return found


def _mean_value(q: Quantities, everywhere: bool = False) -> list[Relation]:
    """A cubic f: <grad f(x + t (y - x)), y - x> takes values on both sides of f(y) - f(x), so the mean between."""

    def value(at: Lifted) -> Lifted:
        return (q.a * at * at * at + q.b * at).sum()

    def slope(t: Lifted) -> Lifted:
        at = q.x + (q.y - q.x) * t
        return ((q.a * at * at * 3 + q.b) * (q.y - q.x)).sum()

    rise = value(q.y) - value(q.x)
    if everywhere:
        return [equal(slope(q.number(0)), rise)]
    slopes = [slope(q.number(k) / _NODES) for k in range(_NODES + 1)]
    way = "_t <grad f(x + t (y - x)), y - x>"
    q.note({f"min{way}": min(slopes), f"max{way}": max(slopes), "f(x)": value(q.x), "f(y)": value(q.y)})
    return [at_most(min(slopes), rise, "some t below"), at_least(max(slopes), rise, "some t above")]


def _difference(q: Quantities) -> Lifted:
    return p1_of(q) - p1_of(q.at(q.N))


def _spectral(q: Quantities, array: Lifted) -> Lifted:
    return q.sqrt(extreme_eigenvalues(array.T @ array, q.arithmetic)[1])


def _diagonal(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """||diag(v) - diag(v')||_F = ||v - v'|| = ||(P - P') 1|| <= ||P - P'|| sqrt n."""
    v, other = diagonal_of(q), diagonal_of(q.at(q.N))
    P = _difference(q)
    limit = _spectral(q, P) * q.sqrt(q.number(float(q.n))) * q.number(factor)
    return [
        equal(q.square(np.diag(v) - np.diag(other)), q.square(v - other), "diagonal"),
        equal(v - other, P.sum(axis=1), "times 1"),
        at_most(q.norm(v - other), limit, "spectral norm"),
    ]


def _two_terms(q: Quantities, both: bool = True) -> list[Relation]:
    """grad L(M) - grad L(N) as displayed, and the triangle inequality."""
    N = q.at(q.N)
    first = q.W * (q.X.T @ (p1_of(q) - p2_of(q) - p1_of(N) + p2_of(N)) @ q.X)
    second = (q.M - q.N) * q.lam
    total = gradient_of(q) - gradient_of(N)
    return [
        at_most(
            q.norm(total - first - second), (q.norm(gradient_of(q)) + q.norm(gradient_of(N))) * _ROUNDED, "displayed"
        ),
        at_most(q.norm(total), q.norm(first) + (q.norm(second) if both else q.number(0.0)), "triangle"),
    ]


def _thirty(q: Quantities, thirty: int = 30) -> list[Relation]:
    """R^3 (...) <= R^3 (24 d n^{7/2} R^3 + 6 d n^{3/2} R^3) ||M - N|| <= 30 d n^{7/2} R^6 ||M - N||."""
    first, distance = moved(q, p1_of)
    cube = q.R * q.R * q.R
    both = (paper_constant(3.5, 24)(q) + paper_constant(1.5, 6)(q)) * cube * distance
    whole = q.of(paper.lipschitz, q.n, q.d, q.R, q.number(0.0)) if thirty == 30 else paper_constant(3.5, thirty, 6)(q)
    return [
        at_most(cube * (first + moved(q, p2_of)[0]), both, "the two lemmas"),
        at_most(both, whole * distance, "n >= 1"),
    ]


def _one_token() -> Iterator[Case]:
    """n = 1: both powers of n are 1, and 24 + 6 = 30."""
    one = np.ones((1, 1))
    yield Case({"X": one, "W": one, "M": one, "N": 2 * one, "lam": 0.5, "mask": None}, "one token, one feature")


def _in_box(rng: Generator, case: Case) -> Case:
    lam = float(rng.choice([0.0, 0.25, 0.5, 1.0]))
    return case.but(M=np.clip(np.abs(case["M"]), 0.0, 1.0), lam=lam)


def _opposed() -> Iterator[Case]:
    for d in (1, 2):
        yield Case({"B": -0.5 * np.ones((d, d)), "M": np.ones((d, d)), "lam": 0.5}, "B = -lam M, M = 1")


def _square(q: Quantities, cross: int = 2) -> list[Relation]:
    """||B + lam M||^2, its expansion, Cauchy-Schwarz, and ||M|| <= d with R = ||B||, the least R allowed."""
    B, scaled, R = q.B, q.M * q.lam, q.norm(q.B)
    rest = q.square(B) + q.square(scaled)
    return [
        equal(q.square(B + scaled), rest + (B * scaled).sum() * 2, "line 1"),
        at_least((B * scaled).sum() * 2, -R * q.norm(scaled) * 2, "line 2"),
        at_least(-R * q.norm(scaled) * 2, -R * q.lam * (cross * len(q.case["B"])), "line 3"),
    ]


_ANY, _FULL = Instances("any", small=True, rounds=1), Instances("full", small=True, rounds=1)
_BOUND: dict[str, Any] = {"supply": PAIRS, "strength": Strength.UPPER, "arithmetic": "float"}

CLAIMS: tuple[Claim, ...] = (
    _equation(
        "eq:mat_total", _C,
        "A row of the logits",
        "(d(X (M o W) X^T)/dM_ab)^T = d(X (M o W)^T X^T)/dM_ab = X d(M o W)^T/dM_ab X^T",
        lambda q: _chain(q, _rows),
        Wrong("d(M o W) not transposed", lambda q: _chain(q, lambda q, i, j: _rows(q, i, j, transposed=False))),
        ("fac:indexing", "fac:calculus"), supply=_FULL, reading=FULL,
        note="the displayed middle term X (X (M o W))_{i0} lacks its brackets; read as X ((M o W)^T X_{i0})",
    ),
    _equation(
        "eq:mat_mask", _C,
        "The masked weight",
        "d(M o W)^T/dM_ab = (W^T)_ba e_b e_a^T = W_ab e_b e_a^T",
        lambda q: _chain(q, _masked_weight),
        Wrong("at (i1, j1)", lambda q: _chain(q, lambda q, i, j: _masked_weight(q, i, j, transposed=False))),
        ("fac:calculus", "lem:mask_hadamard"), supply=_FULL, reading=FULL,
    ),
    _equation(
        "eq:grad_prob", _C,
        "The product rule for f(M)",
        "df(M)_ij/dM_ab = d(1/alpha(M))_i/dM_ab u(M)_ij (M_c)_ij + d(u(M) o M_c)_ij/dM_ab / alpha(M)_i",
        lambda q: _chain(q, _quotient),
        Wrong("a minus between", lambda q: _chain(q, lambda q, i, j: _quotient(q, i, j, -1))),
        ("def:soft_prob_func", "fac:calculus"), supply=_ANY,
    ),
    _equation(
        "eq:grad_proB_1(M)", _C,
        "The first term of the product rule",
        "d(1/alpha(M))_i/dM_ab u(M)_ij (M_c)_ij = -u(M)_ij (M_c)_ij dalpha(M)_i/dM_ab / alpha(M)_i^2"
        " = -f(M)_ij sum_k f(M)_ik W_ab X_ia X_kb",
        lambda q: _chain(q, _first_term),
        Wrong("alpha^{-1} for alpha^{-2}", lambda q: _chain(q, lambda q, i, j: _first_term(q, i, j, 1))),
        ("lem:grad_sum", "def:soft_prob_func", "fac:calculus"), supply=_ANY,
    ),
    _equation(
        "eq:grad_proB_2(M)", _C,
        "The second term of the product rule",
        "d(u(M) o M_c)_ij/dM_ab / alpha(M)_i = (M_c)_ij du(M)_ij/dM_ab / alpha(M)_i = f(M)_ij W_ab X_ia X_jb",
        lambda q: _chain(q, _second_term),
        Wrong("i1 and j1 swapped", lambda q: _chain(q, lambda q, i, j: _second_term(q, i, j, swapped=True))),
        ("lem:grad_exp_func", "def:soft_prob_func"), supply=_ANY,
    ),
    _equation(
        "eq:one_unit_c1", _D,
        "C_1 as a matrix",
        "C1(M)_ij = c(M)_ij f(M)_ij diag(X_i) W diag(X_j) = c(M)_ij f(M)_ij (W o (X_i X_j^T))",
        _C1, Wrong("diag(X_{i0}) twice", lambda q: _C1(q, right=0)),
        ("fac:indexing", "fac:combine", "fac:algebra"), supply=_ANY,
    ),
    _equation(
        "eq:one_init_c2", _D,
        "C_2 as a matrix",
        "-C2(M)_ij = c(M)_ij f(M)_ij diag(X_i) W diag(X^T f(M)_i)",
        _C2, Wrong("without the sign", lambda q: _C2(q, 1)),
        ("fac:indexing", "fac:algebra"), supply=_ANY,
    ),
    _equation(
        "eq:mean_thm", _F,
        "The mean value theorem in one variable",
        "min_t <grad f(x + t (y - x)), y - x> <= f(y) - f(x) <= max_t <grad f(x + t (y - x)), y - x>, f(x) = sum_i"
        " (a_i x_i^3 + b_i x_i), f(y) = sum_i (a_i y_i^3 + b_i y_i)",
        _mean_value, Wrong("at t = 0", lambda q: _mean_value(q, everywhere=True)),
        (), supply=Arrays({"a": "n", "b": "n", "x": "n", "y": "n"}), reading=LITERAL, strength=Strength.LOWER,
        arithmetic="exact",
        note="the values on both sides of the mean are found at nine points; continuity gives t",
    ),
    _equation(
        "eq:lip_diag_1", _F,
        "The diagonal through the spectral norm",
        "||diag(P 1) - diag(P' 1)||_F = ||(P - P') 1||_2 <= ||P - P'|| ||1||_2 = sqrt(n) ||P - P'||"
        ", P 1 - P' 1 = (P - P') 1, P = f(M) o c(M), P' = f(M') o c(M')",
        _diagonal, Wrong("half of sqrt(n)", lambda q: _diagonal(q, 0.5)),
        ("fac:algebra", "fac:norm_bound"), **_BOUND,
    ),
    _equation(
        "eq:lip_diag_2", _F,
        "The spectral norm against the Frobenius norm",
        "||P - P'|| <= ||P - P'||_F, P = f(M) o c(M), P' = f(M') o c(M')",
        lambda q: at_most(_spectral(q, _difference(q)), q.norm(_difference(q))),
        Wrong("0.9 of it", lambda q: at_most(_spectral(q, _difference(q)), q.norm(_difference(q)) * q.number(0.9))),
        ("fac:norm_bound",), **_BOUND,
    ),
    _equation(
        "eq:lip_l_0", _F,
        "The gradient's change, term by term",
        "||grad L(M) - grad L(M')||_F <= ||W o (X^T (p - p') X)||_F + ||lam (M - M')||_F,"
        " grad L(M) - grad L(M') = W o (X^T (p - p') X) + lam (M - M')",
        _two_terms, Wrong("the second left out", lambda q: _two_terms(q, both=False)),
        ("thm:mat_view_l",), **_BOUND,
    ),
    _equation(
        "eq:lip_l_1", _F,
        "The attention's term",
        "R^3 (||f o c - f' o c'|| + ||diag((f o c) 1) f - diag((f' o c') 1) f'||) <= R^3 (24 d n^{7/2} R^3"
        " + 6 d n^{3/2} R^3) ||M - M'|| <= 30 d n^{7/2} R^6 ||M - M'||_F",
        _thirty, Wrong("29 for 30", lambda q: _thirty(q, 29)),
        ("lem:lip_f_circ_c", "lem:lip_diag_f"), attains=_one_token, **_BOUND,
        note="the lemmas are cited in the other order than their constants stand",
    ),
    _equation(
        "eq:lip_l_2", _F,
        "The regulariser's term",
        "||lam (M - M')||_F = lam ||M - M'||_F",
        lambda q: equal(q.norm((q.M - q.N) * q.lam), q.norm(q.M - q.N) * q.lam),
        Wrong("lam^2", lambda q: equal(q.norm((q.M - q.N) * q.lam), q.norm(q.M - q.N) * q.lam * q.lam)),
        ("fac:norm_bound",), supply=PAIRS,
    ),
    _equation(
        "eq:convergence:add_squre", _G,
        "The square of B + lam M",
        "||B + lam M||^2 = ||B||^2 + lam^2 ||M||^2 + 2 <B, lam M>, 2 <B, lam M> >= -2 ||B|| ||lam M|| >= -2 R lam d,"
        " if 0 <= M_ij <= 1",
        _square, Wrong("R lam d", lambda q: _square(q, 1)),
        (), supply=Arrays({"B": "dd", "M": "dd"}, make=_in_box), reading=LITERAL, strength=Strength.LOWER,
        arithmetic="float", attains=_opposed,
    ),
)  # fmt: skip
