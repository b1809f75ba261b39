"""Ingredients of the PL inequality's proof: true lemmas, two of which the causal mask makes vacuous."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Arrays
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL

_SECTION = "G Convergence of Gradient Descent"
_MORE = Fraction(121, 100)
_FULL = Reading("full", "every entry of f(M) may be positive", "full")
_CAUSAL = Reading("causal", "f(M) is lower triangular, as the causal mask makes it; n >= 2", "causal")


def _roots(q: Quantities, factor: float = 1.0) -> list[Relation]:
    a, b = abs(q.a), abs(q.b)
    found = [at_least(q.sqrt(a * a + b * b), (a + b) / q.sqrt(q.number(2.0)) * q.number(factor), "Part 1")]
    if a > b:
        found.append(at_least(q.sqrt(a - b), (q.sqrt(a) - q.sqrt(b)) * q.number(factor), "Part 2"))
    return found


def _equal_arguments() -> Iterator[Case]:
    yield Case({"a": 1.0, "b": 1.0}, "a = b")
    yield Case({"a": 1.0, "b": 0.0}, "b = 0")


def _in_box(rng: Generator, case: Case) -> Case:
    lam = float(rng.choice([0.0, 0.25, 0.5, 1.0]))
    return case.but(M=np.clip(np.abs(case["M"]), 0.0, 1.0), lam=lam)


def _opposed() -> Iterator[Case]:
    """B = -lam M with M = 1: the cross term is as large as the bound allows."""
    for d in (1, 2):
        yield Case({"B": -0.5 * np.ones((d, d)), "M": np.ones((d, d)), "lam": 0.5}, "B = -lam M, M = 1")


def _plus_lam_M(q: Quantities, cross: int = 2, root: float = 1.0) -> list[Relation]:
    """R is ||B||_F, the smallest the lemma allows; d the size of B."""
    B, M, lam, d = q.B, q.M, q.lam, len(q.case["B"])
    R = q.norm(B)
    total = B + M * lam
    right = q.square(B) + lam * lam * q.square(M) - R * lam * (cross * d)
    half = (R + lam * q.norm(M)) / q.sqrt(q.number(2.0)) * q.number(root) - q.sqrt(R * lam * (2 * d))
    return [at_least(q.square(total), right, "Part 1"), at_least(q.norm(total), half, "Part 2")]


def _box() -> Hypothesis:
    return Hypothesis(
        "M in [0,1]^{dxd}", lambda q: all(0 <= entry <= 1 for entry in q.M.ravel()), lambda rng: _opposed()
    )


def _shifted_gram(rng: Generator, case: Case) -> Case:
    """A = C C^T + beta I, so that A - beta I is positive semidefinite; beta may be negative."""
    return case.but(level=float(rng.integers(-3, 4)) / 2)


def _trace(q: Quantities, factor: float = 1.0) -> Relation:
    A = q.C @ q.C.T + np.diag([q.level] * len(q.C))
    left = np.trace(q.B.T @ A @ q.B)
    shift = q.square(q.B) * 8  # keeps both sides positive: |beta| <= 3/2
    return at_least(left + shift, q.level * q.square(q.B) * q.number(factor) + shift)


def _tight_tokens(rng: Generator, case: Case) -> Case:
    """X = [sqrt(b) I, Y], b a square: X X^T - b I = Y Y^T is positive semidefinite; beta is b, or negative."""
    root = float(rng.integers(0, 4)) / 2
    if rng.integers(4) == 0:
        return case.but(X=case["Y"] / 64, level=-1.0 - root)
    return case.but(X=np.hstack([root * np.eye(len(case["B"])), case["Y"]]), level=root * root)


def _sandwich(q: Quantities, power: int = 2, factor: int = 1) -> list[Relation]:
    """Squares of both sides, of beta with its sign: ||X^T B X||^2 >= beta |beta| ||B||^2. Of beta < 0 only the sign."""
    beta = q.level * abs(q.level) if power == 2 else q.level * 4
    part = "beta >= 0" if q.level >= 0 else "beta < 0"
    return [at_least(q.square(q.X.T @ q.B @ q.X), beta * q.square(q.B) * factor, part)]


def _hadamard(q: Quantities, low: int = 1, high: int = 1) -> list[Relation]:
    size = np.abs(q.W)
    least, most = min(size.ravel()), max(size.ravel())
    product = q.square(q.W * q.B)
    return [
        at_most(product, most * most * q.square(q.B) / high, "upper"),
        at_least(product, least * least * q.square(q.B) * low, "lower"),
    ]


def _stochastic(mask: str) -> Lifted:
    """f a row-stochastic matrix of fractions on a mask, B with zero row sums on the same mask."""

    def make(rng: Generator, case: Case) -> Case:
        n = len(case["B"])
        allowed = np.ones((n, n), bool) if mask == "full" else np.tri(n, dtype=bool)
        if mask == "any":
            allowed = (rng.uniform(size=(n, n)) < 0.6) | np.eye(n, dtype=bool)
        kind = int(rng.integers(3))
        weights = np.where(allowed, rng.integers(1, 9, (n, n)) if kind else 1, 0)
        B = np.where(allowed, np.round(case["B"] * 16), 0).astype(int)
        f = np.empty((n, n), dtype=object)
        zero_sum = np.empty((n, n), dtype=object)
        for i in range(n):
            total, count = int(weights[i].sum()), int(allowed[i].sum())
            mean = Fraction(int(B[i].sum()), count)
            for j in range(n):
                f[i, j] = Fraction(int(weights[i, j]), total)
                zero_sum[i, j] = int(B[i, j]) - mean if allowed[i, j] else Fraction(0)
        return case.but(f=f, B=zero_sum, allowed=allowed)

    return make


def _uniform() -> Iterator[Case]:
    """Uniform rows and B with zero row sums: the correction vanishes and every entry is scaled by delta."""
    for n in (2, 3):
        B = np.zeros((n, n), dtype=object) + Fraction(0)
        B[:, 0], B[:, 1] = Fraction(1), Fraction(-1)
        f = np.full((n, n), Fraction(1, n), dtype=object)
        yield Case({"B": B, "f": f, "allowed": np.ones((n, n), dtype=bool)}, f"uniform rows, n = {n}")


def _scaled_identity() -> Iterator[Case]:
    """X X^T = beta I, and A = beta I: equality."""
    values = {
        "B": np.array([[1.0, 2.0], [-1.0, 3.0]]),
        "C": np.zeros((2, 1)),
        "X": 1.5 * np.eye(2),
        "Y": np.zeros((2, 1)),
    }
    yield Case({**values, "level": 2.25, "W": np.ones((2, 2))}, "X X^T = beta I")


def _delta(f: Lifted, allowed: Lifted = None) -> Lifted:
    return min(f.ravel()) if allowed is None else min(f[allowed])


def _correct(f: Lifted, B: Lifted) -> Lifted:
    """B o f - diag((B o f) 1) f."""
    inner = (B * f).sum(axis=1)
    return B * f - inner[:, None] * f


def _row_bound(q: Quantities, delta: Lifted, factor: Fraction | int = 1) -> list[Relation]:
    """Squares, row by row: ||(b - <b, f> 1) o f||^2 >= delta^2 ||b||^2."""
    rows = _correct(q.f, q.B)
    return [at_least(q.square(row), delta * delta * q.square(b) * factor) for row, b in zip(rows, q.B, strict=True)]


def _matrix_bound(q: Quantities, delta: Lifted, factor: Fraction | int = 1) -> Relation:
    return at_least(q.square(_correct(q.f, q.B)), delta * delta * q.square(q.B) * factor)


def _positive_delta(mask: str) -> Hypothesis:
    supply = Arrays({"B": "nn"}, make=_stochastic(mask), sizes=(2, 3))
    return Hypothesis("delta > 0 over all positions", lambda q: _delta(q.f) > 0, supply.families)


def _several(mask: str) -> Hypothesis:
    supply = Arrays({"B": "nn"}, make=_stochastic(mask), sizes=(2, 3))
    return Hypothesis("n >= 2", lambda q: len(q.case["B"]) >= 2, supply.families)


_SUMS = " if B 1 = 0 and f 1 = 1"
_ROW = f"||(B_i - <B_i, f_i> 1) o f_i|| >= delta ||B_i||{_SUMS}"
_MATRIX = f"||B o f - diag((B o f) 1) f||_F >= delta ||B||_F{_SUMS}"
_ON_THE_MASK = " if B 1 = 0 and B o M_c = B"
_NEVER = "no f(M) with a causal mask and two tokens is such"


def _p_lemma(id_: str, reading: Reading, section: str, uses: tuple[str, ...], repaired_by: str) -> Claim:
    mask = str(reading.mask)
    rows = id_ == "lem:lower_bound_p_row"
    bound = _row_bound if rows else _matrix_bound
    hypotheses = (_positive_delta(mask),) if mask == "full" else (_several(mask), _positive_delta(mask))
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title="Lower bound for a row" if rows else "Lower bound for centred rows",
        section=section,
        reading=reading,
        formula=_ROW if rows else _MATRIX,
        strength=Strength.TIGHT if mask == "full" else Strength.LOWER,
        arithmetic="exact",
        margin=lambda q: bound(q, _delta(q.f)),
        supply=Arrays({"B": "nn"}, make=_stochastic(mask), rounds=24),
        hypotheses=hypotheses,
        uses=uses,
        attains=_uniform if mask == "full" else None,
        wrong=(
            Wrong("1.1 delta", lambda q: bound(q, _delta(q.f, q.case["allowed"]), _MORE), ()),
            Wrong("10 delta^(1/2) on allowed positions", lambda q: bound(q, _delta(q.f, q.case["allowed"]) * 10), ()),
        ),
        repaired_by=repaired_by if rows or mask != "full" else None,
        note=_NEVER if mask == "causal" else "",
    )


def _repaired_p(id_: str, repairs: str, uses: tuple[str, ...]) -> Claim:
    rows = id_ == "fix:lower_bound_p_row"
    bound = _row_bound if rows else _matrix_bound
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title="Lower bound for a row over allowed positions" if rows else "Lower bound over allowed positions",
        section=_SECTION,
        reading=ANY_MASK,
        formula=(_ROW if rows else _MATRIX).replace("delta", "min_allowed f").replace(_SUMS, _ON_THE_MASK),
        strength=Strength.TIGHT,
        arithmetic="exact",
        margin=lambda q: bound(q, _delta(q.f, q.case["allowed"])),
        supply=Arrays({"B": "nn"}, make=_stochastic("any"), rounds=24),
        uses=uses,
        attains=_uniform,
        wrong=(Wrong("1.1 delta", lambda q: bound(q, _delta(q.f, q.case["allowed"]), _MORE)),),
        repairs=repairs,
        source="new",
    )


def _xbx(id_: str, section: str, uses: tuple[str, ...]) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title="Sandwich lower bound",
        section=section,
        reading=LITERAL,
        formula="lambda_min(X X^T) >= beta implies ||X^T B X||_F >= beta ||B||_F",
        strength=Strength.TIGHT,
        loose=frozenset({"beta < 0"}),
        arithmetic="exact",
        margin=_sandwich,
        supply=Arrays({"B": "nn", "Y": "nd"}, make=_tight_tokens, rounds=24),
        attains=_scaled_identity,
        uses=uses,
        wrong=(
            Wrong("sqrt(2) beta", lambda q: _sandwich(q, factor=2)),
            Wrong("2 sqrt(beta)", lambda q: _sandwich(q, power=1)),
        ),
        note="step 4 of the proof needs beta >= 0; for beta < 0 the statement is trivial",
    )


CLAIMS: tuple[Claim, ...] = (
    _xbx("lem:lower_bound_XBX_informal", "5 Technique Overview", ("lem:lower_bound_XBX",)),
    _p_lemma("lem:lower_bound_p_informal", _FULL, "5 Technique Overview", ("lem:lower_bound_p",), "fix:lower_bound_p"),
    _p_lemma(
        "lem:lower_bound_p_informal", _CAUSAL, "5 Technique Overview", ("lem:lower_bound_p",), "fix:lower_bound_p"
    ),
    Claim(
        id="fac:abs_inequality",
        kind=Kind.FACT,
        title="Inequalities of square roots",
        section=_SECTION,
        reading=LITERAL,
        formula="sqrt(a^2 + b^2) >= (|a| + |b|)/sqrt(2), sqrt(|a| - |b|) >= sqrt(|a|) - sqrt(|b|) wherever |a| > |b|",
        strength=Strength.TIGHT,
        margin=_roots,
        supply=Arrays({"a": "", "b": ""}, free=("a", "b"), rounds=24),
        attains=_equal_arguments,
        wrong=(Wrong("1.01 times the right sides", lambda q: _roots(q, 1.01)),),
    ),
    Claim(
        id="lem:lower_bound_B_plus_M",
        kind=Kind.LEMMA,
        title="Lower bound for B + lam M",
        section=_SECTION,
        reading=LITERAL,
        formula="||B + lam M||^2 >= ||B||^2 + lam^2 ||M||^2 - 2 R lam d; ||B + lam M|| >= (||B|| + lam ||M||)/sqrt 2 -"
        " sqrt(2 R lam d), if ||B||_F <= R and 0 <= M_ij <= 1",
        strength=Strength.TIGHT,
        loose=frozenset({"Part 2"}),
        margin=_plus_lam_M,
        supply=Arrays({"B": "dd", "M": "dd"}, make=_in_box, free=("B",), rounds=24),
        hypotheses=(_box(),),
        attains=_opposed,
        uses=("fac:F_norm_A_plus_B", "fac:norm_bound", "fac:abs_inequality", "lem:M_bounds"),
        wrong=(
            Wrong("R lam d instead of 2 R lam d", lambda q: _plus_lam_M(q, cross=1)),
            Wrong("1.5 on the right of Part 2", lambda q: _plus_lam_M(q, root=1.5)[1]),
        ),
        repaired_by="fix:lower_bound_B_plus_M",
        note="Part 2's proof takes the root of a number that can be negative; the right side is then <= 0",
    ),
    Claim(
        id="fac:trace_BAB",
        kind=Kind.FACT,
        title="Trace of a quadratic form",
        section=_SECTION,
        reading=LITERAL,
        formula="lambda_min(A) >= beta implies tr(B^T A B) >= beta tr(B^T B)",
        strength=Strength.TIGHT,
        arithmetic="exact",
        margin=_trace,
        supply=Arrays({"B": "nm", "C": "nk"}, make=_shifted_gram, rounds=24),
        attains=_scaled_identity,
        wrong=(Wrong("2 beta", lambda q: _trace(q, 2.0)),),
    ),
    _xbx("lem:lower_bound_XBX", _SECTION, ("fac:trace_BAB", "fac:algebra")),
    Claim(
        id="lem:lower_bound_hadamard",
        kind=Kind.LEMMA,
        title="Size of a Hadamard product",
        section=_SECTION,
        reading=LITERAL,
        formula="max|W| ||B||_F >= ||W o B||_F >= min|W| ||B||_F",
        strength=Strength.TIGHT,
        arithmetic="exact",
        margin=_hadamard,
        supply=Arrays({"W": "dd", "B": "dd"}, rounds=24),
        attains=_scaled_identity,
        wrong=(
            Wrong("sqrt 2 min|W|", lambda q: _hadamard(q, low=2)),
            Wrong("max|W| / 2", lambda q: _hadamard(q, high=4)),
        ),
        note="stated for d x d, cited for n x n",
    ),
    _p_lemma("lem:lower_bound_p_row", _FULL, _SECTION, (), "fix:lower_bound_p_row"),
    _p_lemma("lem:lower_bound_p", _FULL, _SECTION, ("lem:lower_bound_p_row",), "fix:lower_bound_p"),
    _p_lemma("lem:lower_bound_p", _CAUSAL, _SECTION, ("lem:lower_bound_p_row",), "fix:lower_bound_p"),
    _repaired_p("fix:lower_bound_p_row", "lem:lower_bound_p_row", ()),
    _repaired_p("fix:lower_bound_p", "lem:lower_bound_p", ("fix:lower_bound_p_row",)),
)
