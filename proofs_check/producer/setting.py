"""A block-constant instance of the main theorem, and the loss at a block-constant M."""

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document
from proofs_check.producer.notation import Q, ball, table, word


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
    mask: str = "full"

    @property
    def allowed(self) -> b.Mask:
        return b.causal(self.n) if self.mask == "causal" else b.full(self.n)

    def reading(self, squared: bool) -> dict[str, str]:
        paper = "2*wmin*beta*delta" if self.mask == "full" else "2*wmin*beta*delta_allowed"
        return {"mask": self.mask, "start": self.start, "mu": "2*(wmin*beta*delta)^2" if squared else paper}

    def least(self, F: b.Balls) -> arb:
        """The smallest allowed entry."""
        return b.least([F[i][j] for i in range(self.n) for j in range(self.n) if self.allowed[i][j]])

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

    def inputs(self) -> Document:
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


def floor_of_attention(setting: Setting, radius: arb) -> arb:
    """Below every F(M)_ij over the box and over ||M||_F <= radius: 1 / sum_k exp(max of z_ik - z_ij)."""
    found = []
    n, r = setting.n, len(setting.sizes)
    for i in range(n):
        columns = [j for j in range(n) if setting.allowed[i][j]]
        for j in columns:
            mass = arb(1)
            for k in columns:
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
class TokenPoint:
    c_sq: arb
    norm_sq: arb
    gradient: b.Balls
    F: b.Balls


def point(setting: Setting, M: b.Balls) -> TokenPoint:
    sizes = setting.sizes
    count = [[arb(s * t) for t in sizes] for s in sizes]
    B, W = ([[ball(e) for e in row] for row in A] for A in (setting.B, setting.W))
    F = b.attention(B, b.hadamard(count, b.hadamard(M, W)), setting.allowed)
    f = b.attention(B, b.hadamard(count, W), setting.allowed)
    c = b.residual(F, f)
    G = b.attention_gradient(B, W, b.p_matrix(F, c))
    lam = ball(setting.lam)
    grad = [[g + lam * m for g, m in zip(gs, ms, strict=True)] for gs, ms in zip(G, M, strict=True)]
    norm = sum((k * m * m for ks, ms in zip(count, M, strict=True) for k, m in zip(ks, ms, strict=True)), arb(0))
    return TokenPoint(b.norm_sq(c), norm, grad, F)


def start(setting: Setting) -> b.Balls:
    entry = arb(1 if setting.start == "ones" else 0)
    return [[entry for _ in setting.sizes] for _ in setting.sizes]
