"""Facts of linear algebra and calculus, checked in exact arithmetic (in balls where square roots enter)."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.agreement import conformable
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import spectral_norm
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, equal
from attnprune_verify.claims.cases.supply import Arrays
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import LITERAL
from attnprune_verify.theory.numbers.arithmetic import along, derivative_part

_SECTION = "B Preliminary: facts"


def _outer(a: Lifted, b: Lifted) -> Lifted:
    return a[:, None] * b[None, :]


def _indexing(q: Quantities, transpose: bool = True) -> list[Relation]:
    product = q.U @ q.V
    rows = [equal(product[i], q.V.T @ q.U[i] if transpose else q.V.T @ q.U[0], "row") for i in range(len(product))]
    return rows + [equal(product[:, j], q.U @ q.V[:, j], "column") for j in range(product.shape[1])]


def _combine(q: Quantities, columns: bool = True) -> list[Relation]:
    entrywise = np.array([a * b for a, b in zip(q.u, q.v, strict=True)], dtype=object)
    scaled = q.W * (q.u[None, :] if columns else q.u[:, None])
    return [
        equal(entrywise, np.diag(q.u) @ q.v, "diag(u) v"),
        equal(entrywise, np.diag(q.v) @ q.u, "diag(v) u"),
        equal(scaled, q.W @ np.diag(q.u), "columns scaled: W diag(u)"),
    ]


def _derivative(curve: Callable[[Lifted], Lifted], q: Quantities) -> Lifted:
    """d/dt at 0 of a polynomial curve of degree <= 4, by the five-point stencil, which is exact for those."""
    t = [q.number(float(k)) for k in (-2, -1, 1, 2)]
    return (curve(t[0]) - curve(t[1]) * 8 + curve(t[2]) * 8 - curve(t[3])) / 12


def _power(value: Lifted, n: int) -> Lifted:
    """value^n, also where value is a ball around 0."""
    return value * _power(value, n - 1) if n else value * 0 + 1


def _slope(start: Lifted, direction: Lifted, q: Quantities, times: Lifted = 1) -> Lifted:
    """d/dt of (start + t direction) o times."""
    return _derivative(lambda t: (start + t * direction) * times, q)


def _calculus(q: Quantities, product_rule: bool = True, printed: bool = False) -> list[Relation]:
    """Derivatives of X(t) = X + t X1 and Y(t) = Y + t Y1; a, b the value and slope of a scalar function."""
    a, b, X, X1, Y, Y1 = q.a, q.b, q.X, q.X1, q.Y, q.Y1
    second = Y1 * X if product_rule else 0 * X
    left = q.Z.T if not printed else q.Z
    found = [
        equal(_derivative(lambda t, n=n: _power(a + t * b, n), q), _power(a, n - 1) * b * n, "d f^n = n f^{n-1} f'")  # type: ignore[misc]
        for n in (1, 2, 3, 4)
    ]
    found += [
        equal(_derivative(lambda t: (X + t * X1) * (Y + t * Y1), q), X1 * Y + second, "d (X o Y)"),
        equal(
            _derivative(lambda t: ((X + t * X1) * (Y + t * Y1)).sum(), q), (X1 * Y).sum() + (X * Y1).sum(), "d <x, y>"
        ),
        equal(_derivative(lambda t: (X + t * X1) @ q.Z, q), X1 @ q.Z, "d (X Z)"),
        equal(_derivative(lambda t: left @ (X + t * X1).T, q), left @ X1.T, "d (Z X^T)"),
        equal(_derivative(lambda t: (X + t * X1) + (Y + t * Y1) + (X1 + t * Y), q), X1 + Y1 + Y, "d sum"),
    ]
    moved = derivative_part(np.exp(along(X, X1, q.arithmetic)), q.arithmetic)
    found.append(equal(moved, np.exp(X) * X1, "d exp(f) = exp(f) o f'"))
    for j in range(X.shape[1]):
        e = q.number(np.eye(X.shape[1])[j])
        found.append(equal(_slope(X[0], e, q), e, "d x / d x_i = e_i"))
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            unit = np.zeros(X.shape)
            unit[i, j] = 1.0
            lifted = q.number(unit)
            found.append(equal(_slope(X, lifted, q), lifted, "d X / d X_ij = e_i e_j^T"))
    return found


def _apart(rng: Generator, case: Case) -> Case:
    """Give Z more columns than X has, so that Z X^T is not conformable (the printed shapes allow it)."""
    Z = case["Z"]
    return case.but(Z=np.hstack([Z, np.ones((len(Z), 1))])) if Z.shape[1] == case["X"].shape[1] else case


def _algebra(q: Quantities, wrong: bool = False) -> list[Relation]:
    u, v, w, X, Y, Z = q.u, q.v, q.w, q.X, q.Y, q.Z
    found = [
        equal((u * v).sum(), (v * u).sum(), "<u,v> = <v,u>"),
        equal((u * v).sum(), u @ v, "<u,v> = u^T v"),
        equal(u * v, v * u, "u o v = v o u"),
        equal(u * v, np.diag(u) @ v, "u o v = diag(u) v"),
        equal(u * v, np.diag(v) @ u, "u o v = diag(v) u"),
        equal(u @ v, (u * v) @ q.number(np.ones(len(u))), "<u,v> = <u o v, 1>"),
        equal((u * v) @ w, (u * w) @ v, "<u o v, w> = <u o w, v>"),
        equal((u * v) @ w, (w * v) @ u, "<u o v, w> = <w o v, u>"),
        equal(u @ (v * w), u @ np.diag(v) @ w, "u^T (v o w)"),
        equal((X * Y).T, X.T * Y.T, "(X o Y)^T"),
        equal(
            np.diag(u) @ Z @ np.diag(v),
            _outer(v, u) * Z if wrong else _outer(u, v) * Z,
            "diag(u) Z diag(v) = (u v^T) o Z",
        ),
        equal(X @ Y.T, sum(_outer(X[:, i], Y[:, i]) for i in range(X.shape[1])), "X Y^T as outer products"),
        equal(sum(u * Z[:, j] for j in range(len(u))), u * Z.sum(axis=1), "sum_j u o A_j = u o sum_j A_j"),
        equal((X * X).sum(), np.trace(X @ X.T), "||X||^2 = tr X X^T"),
        equal(np.trace(X @ Y.T), np.trace(Y.T @ X), "tr X Y^T = tr Y^T X"),
        equal((np.diag(u) * np.diag(u)).sum(), (u * u).sum(), "||diag(u)||_F = ||u||"),
    ]
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            unit = np.zeros(X.shape)
            unit[i, j] = 1.0
            found.append(equal(X * q.number(unit), q.number(unit) * X[i, j], "X o e_i e_j^T"))
            found.append(equal((X * Y)[i, j], X[i, j] * Y[i, j], "(X o Y)_ij = X_ij Y_ij"))
    return found


def _norms(q: Quantities, submultiplicative: float = 1.0) -> list[Relation]:
    X, Y, Z, u, a = q.X, q.Y, q.Z, q.u, q.a
    norm = q.norm
    operator = _operator_norm(q, X)
    rank = int(np.linalg.matrix_rank(np.asarray(q.case["X"], dtype=float)))
    return [
        equal(norm(X * a), abs(a) * norm(X), "homogeneity"),
        at_most(norm(X + Y), norm(X) + norm(Y), "triangle"),
        at_most(abs((X * Y).sum()), norm(X) * norm(Y), "Cauchy-Schwarz"),
        equal(norm(X.T), norm(X), "transpose"),
        at_most(norm(X @ u), operator * norm(u), "||X u|| <= ||X|| ||u||"),
        at_most(norm(X * Y), norm(X) * norm(Y), "Hadamard"),
        at_most(q.largest(np.abs(X)), norm(X), "entries"),
        at_most(operator, norm(X), "spectral <= Frobenius"),
        at_most(norm(X), q.sqrt(q.number(float(rank))) * operator, "Frobenius <= sqrt(rank) spectral"),
        at_most(norm(Y @ Z), norm(Y) * norm(Z) * q.number(submultiplicative), "submultiplicative"),
    ]


def _operator_norm(q: Quantities, X: Lifted) -> Lifted:
    return float(np.linalg.norm(X, 2)) if q.arithmetic.name == "float" else spectral_norm(X)


def _square_expansion(q: Quantities, factor: int) -> Relation:
    A, B = q.X, q.Y
    return equal(((A + B) * (A + B)).sum(), (A * A).sum() + (B * B).sum() + (A * B).sum() * factor)


def _hadamard_derivative(q: Quantities, transpose: bool) -> list[Relation]:
    found = []
    for i in range(len(q.M)):
        for j in range(len(q.M)):
            unit = q.unit(i, j)
            entry = q.X[j, i] if transpose else q.X[i, j]
            found.append(equal(_slope(q.M, unit, q, times=q.X), unit * entry))
    return found


_MATRICES = Arrays({"X": "nd", "Y": "nd", "Z": "dm", "u": "d", "a": ""}, free=("X", "Y", "Z"))

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fac:indexing",
        kind=Kind.FACT,
        title="Indexing",
        section=_SECTION,
        reading=LITERAL,
        formula="(U V)_i = V^T U_i, ((U V)^T)_j = U (V^T)_j",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_indexing,
        supply=Arrays({"U": "nm", "V": "md"}),
        wrong=(Wrong("row 0 for every row", lambda q: _indexing(q, transpose=False)),),
    ),
    Claim(
        id="fac:combine",
        kind=Kind.FACT,
        title="Products with diagonal matrices",
        section=_SECTION,
        reading=LITERAL,
        formula="u o v = diag(u) v = diag(v) u, W o (1 u^T) = W diag(u)",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_combine,
        supply=Arrays({"u": "n", "v": "n", "W": "nn"}),
        wrong=(Wrong("rows scaled instead of columns", lambda q: _combine(q, columns=False)),),
        note="Part 2 says 'for i in [n]'; j is meant",
    ),
    Claim(
        id="fac:calculus",
        kind=Kind.FACT,
        title="Calculus",
        section=_SECTION,
        reading=LITERAL,
        finding="in d(Z X^T)/dt the printed shapes Z (m x d) and X^T (m x n) do not multiply",
        formula="d(Z X^T)/dt = Z dX^T/dt with Z in R^{m x d}, X in R^{n x m}",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_calculus,
        defect=lambda q: equal(
            q.number(conformable(q.Z.shape, q.X.T.shape)), q.number(0), "Z X^T exists for the printed shapes"
        ),
        supply=Arrays({"X": "nm", "X1": "nm", "Y": "nm", "Y1": "nm", "Z": "md", "a": "", "b": ""}, make=_apart),
        wrong=(Wrong("second term of the product rule dropped", lambda q: _calculus(q, product_rule=False)),),
        repaired_by="fix:calculus",
        note="n is also used as an exponent in Part 1, and differentiability of f is not assumed",
    ),
    Claim(
        id="fix:calculus",
        kind=Kind.FACT,
        title="Calculus, with shapes that multiply",
        section=_SECTION,
        reading=LITERAL,
        formula="d(Z X^T)/dt = Z dX^T/dt with Z in R^{k x m}, X in R^{n x m}",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_calculus,
        supply=Arrays({"X": "nm", "X1": "nm", "Y": "nm", "Y1": "nm", "Z": "md", "a": "", "b": ""}),
        wrong=(Wrong("second term of the product rule dropped", lambda q: _calculus(q, product_rule=False)),),
        repairs="fac:calculus",
        source="new",
    ),
    Claim(
        id="fac:algebra",
        kind=Kind.FACT,
        title="Basic algebra",
        section=_SECTION,
        reading=LITERAL,
        formula="<u, v> = <v, u> = u^T v = <u o v, 1>, u o v = v o u = diag(u) v = diag(v) u, <u o v, w> = <u o w, v>"
        " = <w o v, u>, u^T (v o w) = u^T diag(v) w, (X o Y)^T = X^T o Y^T, diag(u) Z diag(v) = (u v^T) o Z, X Y^T ="
        " sum_j (X^T)_j ((Y^T)_j)^T, sum_k (u o (Z^T)_k) = u o (Z 1), ||X||_F^2 = tr(X X^T), tr(X Y^T) = tr(Y^T X),"
        " ||diag(u)||_F^2 = ||u||^2, X o (e_i h_j^T) = X_ij e_i h_j^T, (X o Y)_ij = X_ij Y_ij",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_algebra,
        supply=Arrays({"u": "n", "v": "n", "w": "n", "X": "nd", "Y": "nd", "Z": "nn"}),
        wrong=(Wrong("v u^T instead of u v^T", lambda q: _algebra(q, wrong=True)),),
        note="A in the eleventh bullet is not declared (A in R^{n x n})",
    ),
    Claim(
        id="fac:norm_bound",
        kind=Kind.FACT,
        title="Norm bounds",
        section=_SECTION,
        reading=LITERAL,
        formula="||a X||_F = |a| ||X||_F, ||X + Y||_F <= ||X||_F + ||Y||_F, |<X, Y>| <= ||X||_F ||Y||_F,"
        " ||X^T||_F = ||X||_F, ||X u||_F <= ||X||_2 ||u||_F, ||X o Y||_F <= ||X||_F ||Y||_F, max|X| <= ||X||_F,"
        " ||X||_2 <= ||X||_F <= sqrt(rank X) ||X||_2, ||Y Z||_F <= ||Y||_F ||Z||_F",
        strength=Strength.UPPER,
        margin=_norms,
        supply=_MATRICES,
        wrong=(Wrong("||Y Z||_F <= 0.9 ||Y||_F ||Z||_F", lambda q: _norms(q, submultiplicative=0.9)[-1]),),
    ),
    Claim(
        id="fac:F_norm_A_plus_B",
        kind=Kind.FACT,
        title="Square of a sum",
        section=_SECTION,
        reading=LITERAL,
        formula="||X + Y||_F^2 = ||X||_F^2 + ||Y||_F^2 + 2 <X, Y>",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: _square_expansion(q, 2),
        supply=_MATRICES,
        uses=("fac:algebra",),
        wrong=(Wrong("factor 1 on the inner product", lambda q: _square_expansion(q, 1)),),
    ),
    Claim(
        id="lem:mask_hadamard",
        kind=Kind.LEMMA,
        title="Derivative of a Hadamard product",
        section=_SECTION,
        reading=LITERAL,
        formula="d(M o X)/dM_ij = X_ij e_i e_j^T",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: _hadamard_derivative(q, transpose=False),
        supply=Arrays({"M": "nn", "X": "nn"}),
        uses=("fac:calculus", "fac:algebra"),
        wrong=(Wrong("X_ji", lambda q: _hadamard_derivative(q, transpose=True)),),
        note="stated for n x n, used for d x d",
    ),
)
