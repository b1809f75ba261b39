"""The paper's definitions, enclosed: logits, masked row softmax, loss, and the loss differentiated.

A logit z_ij = sum_b y_ib X_jb with y_i = (M o W)^T x_i, so the loss of row i is a function of the d numbers y_ib
alone. It is evaluated on dual numbers with one direction per b, and the chain rule gives dL_attn / dM_ab = sum_i
(dL_i / dy_ib) X_ia W_ab.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from operator import mul

from proofs_check.checker.dual import Dual, squared_distance, zero
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Matrix
from proofs_check.checker.interval import Number, exactly, lower, square, total

Mask = list[list[bool]]
Rows = Sequence[Sequence[Number]]
Shifted = list[Number | None]
_ROWS = 64  # chosen: as many tokens as a certificate may have


def logits(X: Matrix, E: Rows) -> list[list[Number]]:
    """X E X^T; exact where E is."""
    d = len(E)
    queries = [[total(x[a] * E[a][b] for a in range(d) if x[a]) for b in range(d)] for x in X]
    return [[total(y[b] * x[b] for b in range(d) if x[b]) for x in X] for y in queries]


def exact_logits(X: Matrix, E: Rows) -> list[list[Fraction]]:
    """X E X^T for rational X and E, over common denominators (one per row of X, one for E)."""
    d, exact = len(E), exactly(E)
    scales = [lcm(*(entry.denominator for entry in x)) for x in X]
    rows = [[int(entry * scale) for entry in x] for x, scale in zip(X, scales, strict=True)]
    unit = lcm(*(entry.denominator for row in exact for entry in row))
    columns = [[int(exact[a][b] * unit) for a in range(d)] for b in range(d)]
    queries = [[sum(map(mul, x, column)) for column in columns] for x in rows]
    return [
        [Fraction(sum(map(mul, y, x)), unit * s * t) for x, t in zip(rows, scales, strict=True)]
        for y, s in zip(queries, scales, strict=True)
    ]


def relative(z: Rows, mask: Mask) -> list[Shifted]:
    """Allowed logits minus (about) their row's maximum, None elsewhere:
    softmax is unchanged and exp cannot overflow.
    """
    return [_relative_row(row, allowed) for row, allowed in zip(z, mask, strict=True)]


def _relative_row(row: Sequence[Number], allowed: Sequence[bool]) -> Shifted:
    top = max(lower(z) for z, keep in zip(row, allowed, strict=True) if keep)
    return [z - top if keep else None for z, keep in zip(row, allowed, strict=True)]


def softmax_row(row: Shifted, bits: int) -> list[Number]:
    """One row of F: exp(z_ij) / sum over allowed k of exp(z_ik), 0 off the mask;
    exact where all allowed logits are equal.
    """
    weights = [Fraction(0) if z is None else exponential(z, bits) for z in row]
    mass = total(weights)
    return [Fraction(0) if z is None else weight / mass for weight, z in zip(weights, row, strict=True)]


def softmax(z: Sequence[Shifted], bits: int) -> list[list[Number]]:
    return [softmax_row(row, bits) for row in z]


def row_loss(row: Shifted, target: Sequence[Number], X: Matrix, bits: int) -> Dual:
    """2 L_i = sum_j (F_ij - f_ij)^2 with its slopes in y_i1 ... y_id, where dz_ij / dy_ib = X_jb."""
    pairs = [(Dual(z, list(x)).exp(bits), f) for z, x, f in zip(row, X, target, strict=True) if z is not None]
    mass = zero(len(X[0]))
    for weight, _ in pairs:
        mass = mass + weight
    return squared_distance(pairs, mass)


@lru_cache(maxsize=_ROWS)
def _dense_row(row: tuple[Number | None, ...], bits: int) -> list[Number]:
    """A row of f, which is the same at every step of a descent."""
    return softmax_row(list(row), bits)


@dataclass(frozen=True)
class AttentionLoss:
    """||c||_F^2 and the matrix of dL_attn / dE_ab, E = M o W."""

    c_sq: Number
    slope: list[list[Number]]


def attention_loss(X: Matrix, z: Sequence[Shifted], z_dense: Sequence[Shifted], bits: int) -> AttentionLoss:
    """Differentiate L_attn = 1/2 ||F(z) - F(z_dense)||_F^2; `relative` logits in.

    Rows whose exact logits are those of the dense row have c = 0 exactly and contribute nothing.
    """
    n, d = len(X), len(X[0])
    c_sq: Number = Fraction(0)
    slope: list[list[Number]] = [[Fraction(0)] * d for _ in range(d)]
    for i in range(n):
        if z[i] == z_dense[i]:
            continue
        row = row_loss(z[i], _dense_row(tuple(z_dense[i]), bits), X, bits)
        c_sq = c_sq + row.value
        for a in range(d):
            if X[i][a]:
                half = X[i][a] / 2
                slope[a] = [g + half * s for g, s in zip(slope[a], row.slopes, strict=True)]
    return AttentionLoss(c_sq, slope)


def gradient(slope: Rows, W: Rows, M: Rows, lam: Fraction) -> list[list[Number]]:
    """dL / dM_ab = W_ab dL_attn / dE_ab + lam M_ab."""
    return [
        [w * s + lam * m for w, s, m in zip(ws, ss, ms, strict=True)] for ws, ss, ms in zip(W, slope, M, strict=True)
    ]


def norm_sq(A: Rows) -> Number:
    return total(square(entry) for row in A for entry in row)


def frobenius_sq(A: Matrix) -> Fraction:
    """||A||_F^2 of a rational matrix."""
    return sum((entry * entry for row in A for entry in row), Fraction(0))


def hadamard(M: Rows, W: Rows) -> list[list[Number]]:
    return [[m * w for m, w in zip(ms, ws, strict=True)] for ms, ws in zip(M, W, strict=True)]
