"""Attention, loss and closed-form gradient in Arb balls."""

from collections.abc import Sequence
from fractions import Fraction

from flint import arb, ctx

Balls = list[list[arb]]
Mask = list[list[bool]]


def full(n: int) -> Mask:
    return [[True] * n for _ in range(n)]


def causal(n: int) -> Mask:
    return [[j <= i for j in range(n)] for i in range(n)]


def product(A: Balls, B: Balls) -> Balls:
    return [[dot(row, column) for column in zip(*B, strict=True)] for row in A]


def dot(a: Sequence[arb], b: Sequence[arb]) -> arb:
    return sum((p * q for p, q in zip(a, b, strict=True)), arb(0))


def transpose(A: Balls) -> Balls:
    return [list(column) for column in zip(*A, strict=True)]


def hadamard(A: Balls, B: Balls) -> Balls:
    return [[p * q for p, q in zip(r, s, strict=True)] for r, s in zip(A, B, strict=True)]


def norm_sq(A: Balls) -> arb:
    return sum((entry * entry for row in A for entry in row), arb(0))


def attention(X: Balls, E: Balls, mask: Mask) -> Balls:
    """Row softmax of X E X^T over the allowed positions."""
    z = product(product(X, E), transpose(X))
    result = []
    for row, allowed in zip(z, mask, strict=True):
        top = max((float(entry.mid()) for entry, keep in zip(row, allowed, strict=True) if keep))
        weights = [(entry - top).exp() if keep else arb(0) for entry, keep in zip(row, allowed, strict=True)]
        mass = sum(weights, arb(0))
        result.append([weight / mass for weight in weights])
    return result


def residual(F: Balls, f: Balls) -> Balls:
    return [[p - q for p, q in zip(r, s, strict=True)] for r, s in zip(F, f, strict=True)]


def p_matrix(F: Balls, c: Balls) -> Balls:
    """p = c o F - diag((c o F) 1) F."""
    result = []
    for f_row, c_row in zip(F, c, strict=True):
        mean = dot(f_row, c_row)
        result.append([f * (x - mean) for f, x in zip(f_row, c_row, strict=True)])
    return result


def attention_gradient(X: Balls, W: Balls, p: Balls) -> Balls:
    """W o (X^T p X)."""
    return hadamard(W, product(product(transpose(X), p), X))


def least(values: Sequence[arb]) -> arb:
    result = values[0]
    for value in values[1:]:
        result = result.min(value)
    return result


class precision:
    """`with precision(bits):` sets Arb's working precision and restores it."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __enter__(self) -> None:
        self.before = ctx.prec
        ctx.prec = self.bits

    def __exit__(self, *_: object) -> None:
        ctx.prec = self.before


def identity(n: int) -> list[list[Fraction]]:
    return [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
