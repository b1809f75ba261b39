"""Certificates for lem:PL_ineq: refutations of mu = 2 min|W| beta delta,
confirmations of mu = 2 (min|W| beta delta)^2.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, exact_ends, table, word, words

PAPER_MU, ALLOWED_MU, SQUARED_MU = "2*wmin*beta*delta", "2*wmin*beta*delta_allowed", "2*(wmin*beta*delta)^2"
LOG2 = Q(6931471805599453, 10**16)


@dataclass(frozen=True)
class PLCase:
    X: list[list[Fraction]]
    W: list[list[Fraction]]
    M: list[list[Fraction]]
    lam: Fraction
    beta: Fraction
    delta: Fraction
    mu: str
    mask: str = "full"
    given: tuple[tuple[int, ...], ...] = ()

    @property
    def allowed(self) -> b.Mask:
        if self.mask == "given":
            return [[entry == 1 for entry in row] for row in self.given]
        return b.causal(len(self.X)) if self.mask == "causal" else b.full(len(self.X))

    @property
    def listed_mask(self) -> Any:
        """The mask as `inputs` holds it."""
        if self.mask == "given":
            return [[str(entry) for entry in row] for row in self.given]
        return None if self.mask == "full" else self.mask


@dataclass(frozen=True)
class Numbers:
    min_f: arb
    c_sq: arb
    lhs: arb
    rhs: arb


def cases() -> Iterator[tuple[str, PLCase]]:
    """Name of the file and its case; every refutation is followed by the confirmation of the corrected mu on the
    same instance.
    """
    eye, zeros = b.identity(2), [[Q(0)] * 2] * 2
    half = [[Q(1, 2)] * 2] * 2
    log_w = [[LOG2, 2 * LOG2], [2 * LOG2, LOG2]]
    base = PLCase(eye, log_w, zeros, Q(0), Q(1), Q(1, 2), PAPER_MU)
    yield from _pair("lambda-0", base)
    yield from _pair("lambda-1e-4", replace(base, lam=Q(1, 10**4)))
    for power in (1, 2, 3):
        s = Q(1, 10**power)
        small = replace(base, W=[[s, -s], [-s, s]], lam=s * s / 10**6)
        yield from _pair(f"small-weights-1e-{power}", small)
    interior = replace(
        base, W=[[Q(1, 10), Q(-1, 10)], [Q(-1, 10), Q(1, 10)]], M=half, lam=Q(1, 10**7), delta=Q(47, 100)
    )
    yield from _pair("interior-mask", interior)
    yield from _pair("causal", replace(interior, M=zeros, delta=Q(1, 2), mu=ALLOWED_MU, mask="causal"))
    yield from _pair("four-tokens", replace(_four_tokens(), lam=Q(1, 10**8)))
    blocks = ((1, 1, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1), (0, 0, 1, 1))
    yield from _pair("block-mask", replace(_four_tokens(), mu=ALLOWED_MU, mask="given", given=blocks, delta=Q(45, 100)))
    unit = [[Q(1), Q(-1)], [Q(-1), Q(1)]]
    yield "PL_ineq-confirmation-attained", replace(base, W=unit, mu=SQUARED_MU)
    yield "PL_ineq-confirmation-attained-three-tokens", _attained(3)


def _pair(name: str, case: PLCase) -> Iterator[tuple[str, PLCase]]:
    yield f"PL_ineq-refutation-{name}", case
    yield f"PL_ineq-confirmation-{name}", replace(case, mu=SQUARED_MU)


def _four_tokens() -> PLCase:
    """n = 4 < d = 5, X with orthonormal rows, weights of both signs, M inside the box: the refutation is not a
    matter of n = d = 2.
    """
    eye = [[Q(int(i == j)) for j in range(5)] for i in range(4)]
    signs = [[Q((-1) ** (i * j + i), 10) for j in range(5)] for i in range(5)]
    M = [[Q(1 + (3 * i + 2 * j) % 5, 10) for j in range(5)] for i in range(5)]
    return PLCase(eye, signs, M, Q(1, 10**7), Q(1), Q(22, 100), PAPER_MU)


def _attained(n: int) -> PLCase:
    """X = I, |W| = 1, F uniform: ||grad L||^2 = (min|W| beta delta)^2 ||c||^2 exactly."""
    W = [[Q(1 if i == j else -1) for j in range(n)] for i in range(n)]
    return PLCase(b.identity(n), W, [[Q(0)] * n] * n, Q(0), Q(1), Q(1, n), SQUARED_MU)


def numbers(case: PLCase) -> Numbers:
    """Return both sides of the inequality, in balls at the working precision."""
    n, d = len(case.X), len(case.W)
    mask = case.allowed
    X, W, M = balls(case.X), balls(case.W), balls(case.M)
    F, f = b.attention(X, b.hadamard(M, W), mask), b.attention(X, W, mask)
    c = b.residual(F, f)
    G = b.attention_gradient(X, W, b.p_matrix(F, c))
    lam = ball(case.lam)
    grad = [[g + lam * m for g, m in zip(gs, ms, strict=True)] for gs, ms in zip(G, M, strict=True)]
    absolute = [abs(entry) for row in case.W for entry in row]
    half_mu = min(absolute) * case.beta * case.delta
    if case.mu == SQUARED_MU:
        half_mu *= half_mu
    norm_x = sum(entry * entry for row in case.X for entry in row)
    norm_m = sum(entry * entry for row in case.M for entry in row)
    slack = ball(6 * max(absolute) * norm_x * case.lam * d) * arb(n).sqrt()
    rhs = ball(half_mu) * b.norm_sq(c) + ball(case.lam**2 * norm_m) - slack
    min_f = b.least([F[i][j] for i in range(n) for j in range(n) if mask[i][j]])
    return Numbers(min_f, b.norm_sq(c), b.norm_sq(grad), rhs)


def settled(case: PLCase) -> tuple[Numbers, int, str]:
    """Double the precision until the relation is decided; an attained equality is reported as lhs >= rhs."""
    for bits in (128, 256, 512, 1024):
        with b.precision(bits):
            found = numbers(case)
            if found.lhs < found.rhs:
                return found, bits, "lhs<rhs"
            if found.lhs > found.rhs or (case.lam == 0 and bits == 1024):
                return found, bits, "lhs>=rhs"
    raise ArithmeticError("undecided at 1024 bits")


def documents() -> Iterator[tuple[str, Document]]:
    for name, case in cases():
        found, bits, relation = settled(case)
        kind = "refutation" if relation == "lhs<rhs" else "confirmation"
        if kind not in name:
            raise ArithmeticError(f"{name}: came out as a {kind}")
        min_f = enclosure(found.min_f)
        if exact_ends(found.min_f)[0] < case.delta:  # attained: F is uniform, min F = 1/m exactly
            min_f = words([case.delta, case.delta])
        yield (
            name,
            certificate(
                "lem:PL_ineq",
                kind,
                {"mask": case.mask, "mu": case.mu},
                {
                    "n": len(case.X),
                    "d": len(case.W),
                    "X": table(case.X),
                    "W": table(case.W),
                    "M": table(case.M),
                    "mask": case.listed_mask,
                    "lambda": word(case.lam),
                    "beta": word(case.beta),
                    "delta": word(case.delta),
                },
                {"psd_pivots": words(ldl(case.X, case.beta)), "delta_le_min_f": min_f},
                {"c_sq": enclosure(found.c_sq), "lhs": enclosure(found.lhs), "rhs": enclosure(found.rhs)},
                relation,
                bits,
            ),
        )


def ldl(X: list[list[Fraction]], beta: Fraction) -> list[Fraction]:
    """Pivots of X X^T - beta I, column by column over the rationals."""
    n = len(X)
    A = [
        [sum((p * q for p, q in zip(X[i], X[j], strict=True)), Q(0)) - (beta if i == j else 0) for j in range(n)]
        for i in range(n)
    ]
    pivots = []
    for k in range(n):
        pivots.append(A[k][k])
        for i in range(k + 1, n):
            factor = A[i][k] / A[k][k] if A[k][k] else Q(0)
            for j in range(k + 1, n):
                A[i][j] -= factor * A[k][j]
    return pivots
