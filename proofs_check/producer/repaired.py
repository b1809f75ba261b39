"""Confirmations of repaired statements: the floor under F(M), and the best mask with a prescribed number of zeros."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, table, word

BITS = 4096  # 1 + e^2828, of W = 1000, d = 2, has 4,081 bits before the point


def documents() -> Iterator[tuple[str, Document]]:
    eye, ones, zeros = b.identity(2), [[Q(1)] * 2] * 2, [[Q(0)] * 2] * 2
    big = [[1000 * entry for entry in row] for row in eye]
    with b.precision(BITS):
        yield "practical-confirmation-underflow", _floor(eye, big, ones, "full")
        yield "practical-confirmation-causal", _floor(eye, eye, zeros, "causal")
    with b.precision(256):
        yield "attn_prun-confirmation-best-mask", _best()


def _floor(X: Any, W: Any, M: Any, mask: str) -> Document:
    n, d = len(X), len(W)
    allowed = b.causal(n) if mask == "causal" else b.full(n)
    F = b.attention(balls(X), b.hadamard(balls(M), balls(W)), allowed)
    pairs = [(i, j) for i in range(n) for j in range(n) if allowed[i][j]]
    floors = []
    for i, j in pairs:
        mass = arb(0)
        for k in (k for k in range(n) if allowed[i][k]):
            pull = sum((W[a][q] * X[i][a] * (X[k][q] - X[j][q])) ** 2 for a in range(d) for q in range(d))
            mass += (d * ball(pull).sqrt()).exp()
        floors.append(1 / mass)
    return certificate(
        "fix:practical",
        "confirmation",
        {"mask": mask},
        {"n": n, "d": d, "X": table(X), "W": table(W), "M": table(M), "mask": None if mask == "full" else mask},
        {},
        {"lhs": enclosure(b.least([F[i][j] for i, j in pairs])), "rhs": enclosure(b.least(floors))},
        "lhs>=rhs",
        BITS,
    )


def _best() -> Document:
    """Half of nine weights pruned, four tokens, causal: the best of 126 masks."""
    d, rho, zeros = 3, Q(1, 2), 4
    X = [[Q((3 * i + 5 * j) % 7 - 3, 4) for j in range(d)] for i in range(4)]
    W = [[Q((2 * i + 3 * j) % 5 + 1, 3) * (-1) ** (i + j) for j in range(d)] for i in range(d)]
    mask = b.causal(4)
    f = b.attention(balls(X), balls(W), mask)

    def kept(pruned: tuple[int, ...]) -> list[list[Fraction]]:
        return [[Q(int(a * d + q not in pruned)) for q in range(d)] for a in range(d)]

    def loss(pruned: tuple[int, ...]) -> arb:
        F = b.attention(balls(X), b.hadamard(balls(kept(pruned)), balls(W)), mask)
        return b.norm_sq(b.residual(F, f)) / 2

    masks = sorted(combinations(range(d * d), zeros), key=lambda pruned: float(loss(pruned).mid()))
    first, second = loss(masks[0]), loss(masks[1])
    if not first < second:
        raise ArithmeticError("the two best masks are not told apart")
    return certificate(
        "fix:attn_prun",
        "confirmation",
        {"mask": "causal"},
        {
            "n": 4, "d": d, "X": table(X), "W": table(W), "M": table(kept(masks[0])),
            "mask": "causal", "rho": word(rho),
        },
        {},
        {"lhs": enclosure(first), "rhs": enclosure(second)},
        "lhs<rhs",
        256,
    )  # fmt: skip
