"""Certificates for thm:our_convergence (refuted from M_0 = 0 and from M_0 = 1) and for its corrected form on the
same instances.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import certificate
from proofs_check.producer.notation import Q, ball, enclosure, table, word, words

BITS = 256
PAPER_MU, SQUARED_MU = "2*wmin*beta*delta", "2*(wmin*beta*delta)^2"


@dataclass(frozen=True)
class Setting:
    start: str
    sizes: list[int]
    B: list[list[Fraction]]
    W: list[list[Fraction]]
    lam: Fraction
    beta: Fraction
    delta: Fraction
    epsilon: Fraction
    R: Fraction

    @property
    def n(self) -> int:
        return len(self.B)

    @property
    def d(self) -> int:
        return sum(self.sizes)

    @property
    def weights(self) -> list[Fraction]:
        return [abs(entry) for row in self.W for entry in row]

    def mu(self, squared: bool) -> Fraction:
        product = min(self.weights) * self.beta * self.delta
        return 2 * product**2 if squared else 2 * product

    def gram(self) -> list[list[Fraction]]:
        return [
            [sum((s * p * q for s, p, q in zip(self.sizes, x, y, strict=True)), Q(0)) for y in self.B] for x in self.B
        ]

    def spectral(self) -> Fraction:
        return max(sum(map(abs, row), Q(0)) for row in self.gram())

    def threshold(self, squared: bool) -> arb:
        norm_x = sum(self.gram()[i][i] for i in range(self.n))
        scale = 12 * max(self.weights) * norm_x * self.lam * self.d / self.mu(squared)
        xi = ball(scale) / (arb(self.n) * arb(self.n).sqrt())
        return (xi + ball(self.epsilon)) / 2

    def inputs(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "d": self.d,
            "sizes": self.sizes,
            "X": table(self.B),
            "W": table(self.W),
            "lambda": word(self.lam),
            "beta": word(self.beta),
            "delta": word(self.delta),
            "epsilon": word(self.epsilon),
            "R": word(self.R),
        }


def from_zeros() -> Setting:
    """X = I, W = (1/10)[[1, -1], [-1, 1]]: the paper's mu is 20 times too large, so its T is 20 times too small."""
    s = Q(1, 10)
    lam, epsilon = Q(1, 10**10), Q(124, 10**5)
    W = [[s, -s], [-s, s]]
    return Setting("zeros", [1, 1], b.identity(2), W, lam, Q(1), Q(45, 100), epsilon, Q(3, 2))


def from_ones() -> Setting:
    """Two tokens, a million features: x_1 = 1/1000 everywhere, x_2 = 1/1000 on one half and -1/1000 on the other; W
    = 1e-6 everywhere.
    """
    half, x, w = 500_000, Q(1, 1000), Q(1, 10**6)
    lam, delta, epsilon = Q(2, 10**10), Q(19, 100), Q(1, 1000)
    return Setting("ones", [half, half], [[x, x], [x, -x]], [[w, w], [w, w]], lam, Q(1), delta, epsilon, Q(3, 2))


def floor_of_attention(setting: Setting, radius: arb) -> arb:
    """Below every F(M)_ij over the box and over ||M||_F <= radius: 1 / sum_k exp(max of z_ik - z_ij)."""
    found = []
    n, r = setting.n, len(setting.sizes)
    for i in range(n):
        for j in range(n):
            mass = arb(1)
            for k in range(n):
                if k == j:
                    continue
                box, square = Q(0), Q(0)
                for p in range(r):
                    for q in range(r):
                        v = setting.W[p][q] * setting.B[i][p] * (setting.B[k][q] - setting.B[j][q])
                        count = setting.sizes[p] * setting.sizes[q]
                        box += count * max(v, Q(0))
                        square += count * v * v
                mass += ball(box).max(radius * ball(square).sqrt()).exp()
            found.append(1 / mass)
    return b.least(found)


@dataclass(frozen=True)
class Point:
    c_sq: arb
    norm_sq: arb
    gradient: b.Balls
    F: b.Balls


def point(setting: Setting, M: b.Balls) -> Point:
    sizes, n = setting.sizes, setting.n
    count = [[arb(s * t) for t in sizes] for s in sizes]
    B, W = ([[ball(e) for e in row] for row in A] for A in (setting.B, setting.W))
    F = b.attention(B, b.hadamard(count, b.hadamard(M, W)), b.full(n))
    f = b.attention(B, b.hadamard(count, W), b.full(n))
    c = b.residual(F, f)
    G = b.attention_gradient(B, W, b.p_matrix(F, c))
    lam = ball(setting.lam)
    grad = [[g + lam * m for g, m in zip(gs, ms, strict=True)] for gs, ms in zip(G, M, strict=True)]
    norm = sum((k * m * m for ks, ms in zip(count, M, strict=True) for k, m in zip(ks, ms, strict=True)), arb(0))
    return Point(b.norm_sq(c), norm, grad, F)


def start(setting: Setting) -> b.Balls:
    entry = arb(1 if setting.start == "ones" else 0)
    return [[entry for _ in setting.sizes] for _ in setting.sizes]


def hypotheses(setting: Setting, min_f: arb) -> dict[str, Any]:
    return {"psd_pivots": words(pivots(setting)), "delta_le_min_f": enclosure(min_f)}


def pivots(setting: Setting) -> list[Fraction]:
    """n <= 2 here."""
    A = setting.gram()
    first, last = A[0][0] - setting.beta, A[1][1] - setting.beta
    return [first, last - A[0][1] ** 2 / first if first else last]


def refute_zeros(setting: Setting) -> dict[str, Any]:
    now = point(setting, start(setting))
    loss = now.c_sq / 2
    n_sq = setting.n**2
    eta_t = 4 * loss / (ball(setting.mu(False) * setting.epsilon) * n_sq)
    slope = ball(max(setting.weights) * setting.spectral() / 2)
    G = slope * (2 * loss).sqrt() + (2 * ball(setting.lam) * loss).sqrt()
    radius = eta_t * G
    left = (loss - eta_t * G * G * 3 / 2 - ball(setting.lam) * radius * radius / 2) / n_sq
    right = setting.threshold(False)
    if not left > right:
        raise ArithmeticError("not a refutation")
    quantities = {"loss": loss, "eta_T": eta_t, "G": G, "lhs": left, "rhs": right}
    return certificate(
        "thm:our_convergence",
        "refutation",
        {"mask": "full", "start": "zeros", "mu": PAPER_MU},
        setting.inputs(),
        hypotheses(setting, floor_of_attention(setting, radius)),
        {name: enclosure(value) for name, value in quantities.items()},
        "lhs>rhs",
        BITS,
    )


def refute_ones(setting: Setting) -> dict[str, Any]:
    """The infimum over tau of (sigma(tau) - sigma(tau_0))^2 + weight tau^2, found by ternary search and enclosed
    with a margin.
    """
    row, (p, q) = 0, setting.B
    V = [
        [w * x * (a - c) for w, a, c in zip(ws, p, q, strict=True)]
        for ws, x in zip(setting.W, setting.B[row], strict=True)
    ]
    pairs = [(s * t, v) for s, vs in zip(setting.sizes, V, strict=True) for t, v in zip(setting.sizes, vs, strict=True)]
    weight = setting.lam**2 / (setting.mu(False) * sum(k * v * v for k, v in pairs))
    dense = sum(k * v for k, v in pairs)

    def h(tau: Fraction) -> arb:
        gap = 1 / (1 + ball(-tau).exp()) - 1 / (1 + ball(-dense).exp())
        return gap * gap + ball(weight * tau * tau)

    tau = min((Q(k, 1000) for k in range(-1000, 1001)), key=lambda t: float(h(t)))
    best = Q(int(float(h(tau)) * 10**9), 10**9)
    lhs = [best * Q(98, 100) / setting.n**2, (best + Q(1, 10**8)) / setting.n**2]
    right = setting.threshold(False)
    if not ball(lhs[0]) > right:
        raise ArithmeticError("not a refutation")
    return certificate(
        "thm:our_convergence",
        "refutation",
        {"mask": "full", "start": "ones", "mu": PAPER_MU},
        setting.inputs() | {"row": row, "tau": word(tau)},
        hypotheses(setting, floor_of_attention(setting, arb(setting.d))),
        {"lhs": words(lhs), "rhs": enclosure(right)},
        "lhs>rhs",
        BITS,
    )


def confirm(setting: Setting) -> dict[str, Any]:
    """Descend with eta = 0.9 / K until the guarantee of the corrected mu holds."""
    lipschitz = setting.lam + Q(5, 4) * max(setting.weights) ** 2 * setting.spectral() ** 2
    eta = Q(int(Q(9, 10) / lipschitz * 1000), 1000)
    mu, n_sq, right = setting.mu(True), setting.n**2, setting.threshold(True)
    now = point(setting, start(setting))
    loss = now.c_sq / 2 + ball(setting.lam) * now.norm_sq / 2
    T = 4 * loss / (ball(eta * mu * setting.epsilon) * n_sq)
    t, left, seen = _first_good(setting, eta, mu, right)
    if not T > t:
        raise ArithmeticError("the iterate comes after T")
    return certificate(
        "fix:our_convergence",
        "confirmation",
        {"mask": "full", "start": setting.start, "mu": SQUARED_MU},
        setting.inputs() | {"eta": word(eta), "t": t},
        hypotheses(setting, b.least(seen)),
        {"T": enclosure(T), "lhs": enclosure(left), "rhs": enclosure(right)},
        "lhs<=rhs",
        BITS,
    )


def _first_good(setting: Setting, eta: Fraction, mu: Fraction, right: arb) -> tuple[int, arb, list[arb]]:
    """The first t whose iterate satisfies the guarantee, its left side, and all entries of F met on the way."""
    M, seen = start(setting), []
    for t in range(400):
        now = point(setting, M)
        seen += [f for row in now.F for f in row]
        left = (now.c_sq / 2 + ball(setting.lam**2 / mu) * now.norm_sq) / setting.n**2
        if left < right:
            return t, left, seen
        M = [[m - ball(eta) * g for m, g in zip(ms, gs, strict=True)] for ms, gs in zip(M, now.gradient, strict=True)]
    raise ArithmeticError("no iterate found")


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    with b.precision(BITS):
        yield "our_convergence-refutation-from-zeros", refute_zeros(from_zeros())
        yield "our_convergence-refutation-from-ones", refute_ones(from_ones())
        yield "our_convergence-confirmation-from-zeros", confirm(from_zeros())
        yield "our_convergence-confirmation-from-ones", confirm(from_ones())
