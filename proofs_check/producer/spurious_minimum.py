"""Strict local minima with positive loss for n > d: Newton's method in Arb,
then a ball on which the Hessian is positive.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, arb_mat

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, balls, enclosure, exact_ends, table, word, words

BITS = 256  # bits; chosen: twice the checkers' first precision
RADIUS = Q(1, 10**10)


@dataclass(frozen=True)
class MinimumCase:
    X: list[list[int]]
    W: list[list[int]]
    start: list[list[float]]
    mask: str
    domain: str
    curvature: Fraction  # somewhat below the least eigenvalue of the Hessian


def cases() -> Iterator[tuple[str, MinimumCase]]:
    yield (
        "four-tokens",
        MinimumCase(
            [[-2, -1], [1, 3], [-2, -2], [2, 0]],
            [[-3, 3], [2, -3]],
            [[0.1159488534, 0.2368410716], [-0.3210097236, 0.2168730488]],
            "full",
            "ball",
            Q(298, 10**4),
        ),
    )
    yield (
        "five-tokens",
        MinimumCase(
            [[0, -1], [-3, -2], [-2, 1], [0, 2], [2, -2]],
            [[-3, 3], [3, 3]],
            [[-0.2599294770, -0.3155898915], [0.3223881322, 0.2453948017]],
            "full",
            "ball",
            Q(370, 1000),
        ),
    )
    yield (
        "four-tokens-again",
        MinimumCase(
            [[-3, -1], [1, 2], [3, 0], [0, -2]],
            [[-1, -3], [-1, 3]],
            [[0.33378112, 0.33369237], [0.87647671, -0.29152817]],
            "full",
            "ball",
            Q(158, 10**4),
        ),
    )
    yield (
        "five-tokens-causal",
        MinimumCase(
            [[1, -2], [-2, -3], [0, -3], [1, 3], [3, -1]],
            [[2, 2], [-3, 2]],
            [[0.2183513871, -0.1572010439], [0.0501455195, -0.5668578118]],
            "causal",
            "ball",
            Q(167, 1000),
        ),
    )
    yield (
        "seven-tokens-causal-in-box",
        MinimumCase(
            [[0, 2], [-2, 3], [-3, 2], [-3, 1], [1, 1], [0, -1], [3, 1]],
            [[2, 2], [-3, -1]],
            [[0.00209233, 0.33303125], [0.59203062, 0.15713096]],
            "causal",
            "box",
            Q(116, 1000),
        ),
    )
    yield (
        "six-tokens-causal-in-box",
        MinimumCase(
            [[0, 1], [2, -2], [3, 2], [2, -3], [-2, 2], [-1, -3]],
            [[2, -1], [-3, 1]],
            [[0.19671602, 0.97194186], [0.19723738, 0.95702949]],
            "causal",
            "box",
            Q(237, 10**4),
        ),
    )


@dataclass(frozen=True)
class Derivatives:
    loss: arb
    gradient: list[arb]
    hessian: list[list[arb]]


def derivatives(case: MinimumCase, M: list[list[Fraction]]) -> Derivatives:
    """L_attn, W o (X^T p X) and sum_i A_i^T H_i A_i with H = J^2 + diag(g) - F g^T - g F^T, g = J c."""
    n, d = len(case.X), len(case.W)
    mask = b.causal(n) if case.mask == "causal" else b.full(n)
    X, W, E = balls(case.X), balls(case.W), b.hadamard(balls(M), balls(case.W))
    F, f = b.attention(X, E, mask), b.attention(X, W, mask)
    c = b.residual(F, f)
    p = b.p_matrix(F, c)
    grad = [entry for row in b.attention_gradient(X, W, p) for entry in row]
    hessian = [[arb(0)] * (d * d) for _ in range(d * d)]
    for i in range(n):
        slopes = [[X[i][a] * W[a][q] * X[j][q] for a in range(d) for q in range(d)] for j in range(n)]
        J = [[F[i][j] * (int(j == k) - F[i][k]) for k in range(n)] for j in range(n)]
        J2 = b.product(J, J)
        H = [
            [J2[j][k] + int(j == k) * p[i][j] - F[i][j] * p[i][k] - p[i][j] * F[i][k] for k in range(n)]
            for j in range(n)
        ]
        part = b.product(b.product(b.transpose(slopes), H), slopes)
        hessian = [[h + x for h, x in zip(hs, xs, strict=True)] for hs, xs in zip(hessian, part, strict=True)]
    return Derivatives(b.norm_sq(c) / 2, grad, hessian)


def newton(case: MinimumCase) -> list[list[Fraction]]:
    """The stationary point to 40 decimals, as exact fractions."""
    d = len(case.W)
    M = [[Q(str(entry)) for entry in row] for row in case.start]
    for _ in range(8):
        now = derivatives(case, M)
        middle = [[entry.mid() for entry in row] for row in now.hessian]
        step = arb_mat(middle).solve(arb_mat([[entry.mid()] for entry in now.gradient]))
        M = [[_rounded(M[a][q] - exact_ends(step[a * d + q, 0].mid())[0]) for q in range(d)] for a in range(d)]
    return M


def _rounded(number: Fraction) -> Fraction:
    return Q(round(number * 10**40), 10**40)


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        for name, case in cases():
            M = newton(case)
            now = derivatives(case, M)
            norm = sum((g * g for g in now.gradient), arb(0)).sqrt()
            diagonal = b.least([now.hessian[s][s] for s in range(len(now.hessian))])
            value = now.loss + norm * arb(0, float(RADIUS))
            d = len(case.W)
            gram = [[Q(sum(x[a] * x[q] for x in case.X)) for q in range(d)] for a in range(d)]
            yield (
                f"spurious_minimum-{name}",
                certificate(
                    "new:spurious_minima",
                    "confirmation",
                    {"mask": case.mask, "domain": case.domain},
                    {
                        "n": len(case.X),
                        "d": d,
                        "X": table(case.X),
                        "W": table(case.W),
                        "mask": None if case.mask == "full" else case.mask,
                        "M": table(M),
                        "radius": word(RADIUS),
                    },
                    {"gram_pivots": words([gram[0][0], gram[1][1] - gram[0][1] ** 2 / gram[0][0]])},
                    {
                        "curvature": [word(case.curvature), word(Q(int(float(diagonal.mid()) * 1000) + 2, 1000))],
                        "gradient_norm": enclosure(norm, 6),
                        "lhs": enclosure(value),
                        "rhs": words([0, 0]),
                    },
                    "lhs>rhs",
                    BITS,
                ),
            )
