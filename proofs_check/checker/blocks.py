"""Block-constant instances: d may be a million when the features fall into a few classes of equal features.

With class sizes s_1 ... s_r, X = B repeated (n x r values), W and M constant on blocks. Then X (M o W) X^T = B E
B^T with E_rs = s_r s_s M_rs W_rs, and dL / dM_ab = W_rs dL / dE_rs + lam M_rs for every entry (a, b) of block (r,
s): gradient descent started at a block-constant M stays block-constant. Sizes 1, ..., 1 give the plain form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.attention import Shifted, attention_loss, exact_logits, gradient, logits, relative, softmax
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Interval, Number, enclose, hull, lower, square, square_root, total, upper
from proofs_check.checker.reject import GaveUp, Reject

MAX_CLASSES = 8  # chosen: the committed certificates have 2
MAX_FEATURES = 10**9  # chosen: the committed certificates have at most 10^6
# Chosen: the committed certificates need at most 14,400 (returned_mask: 100 steps, n = 6, 4 classes)
_MOST_WORK = 40_000


@dataclass(frozen=True)
class Blocks:
    """The data of the theorem, by classes of features."""

    sizes: list[int]
    B: fields.Matrix
    W: fields.Matrix
    lam: Fraction
    beta: Fraction
    delta: Fraction
    mask: str = "full"

    @property
    def n(self) -> int:
        return len(self.B)

    @property
    def d(self) -> int:
        return sum(self.sizes)

    @property
    def allowed(self) -> list[list[bool]]:
        return fields.attention_mask(self.mask, self.n, "the mask")

    def smallest_weight(self) -> Fraction:
        return min(abs(entry) for row in self.W for entry in row)

    def largest_weight(self) -> Fraction:
        return max(abs(entry) for row in self.W for entry in row)

    def norm_x_sq(self) -> Fraction:
        return sum((s * b * b for row in self.B for s, b in zip(self.sizes, row, strict=True)), Fraction(0))

    def norm_sq(self, values: Any) -> Number:
        """||.||_F^2 of a block-constant d x d matrix."""
        return total(
            Fraction(s * t) * square(entry)
            for s, row in zip(self.sizes, values, strict=True)
            for t, entry in zip(self.sizes, row, strict=True)
        )

    def gram(self) -> fields.Matrix:
        """X X^T."""
        return [
            [sum((s * p * q for s, p, q in zip(self.sizes, x, y, strict=True)), Fraction(0)) for y in self.B]
            for x in self.B
        ]

    def spectral_bound(self) -> Fraction:
        """||X||_2^2 <= the largest absolute row sum of X X^T."""
        return max(sum(map(abs, row), Fraction(0)) for row in self.gram())

    def fused(self, M: Any) -> list[list[Number]]:
        """E_rs = s_r s_s M_rs W_rs."""
        return [
            [Fraction(s * t) * (m * w) for t, m, w in zip(self.sizes, ms, ws, strict=True)]
            for s, ms, ws in zip(self.sizes, M, self.W, strict=True)
        ]

    def ones(self) -> list[list[Number]]:
        return [[Fraction(1)] * len(self.sizes) for _ in self.sizes]

    def dense_logits(self) -> list[list[Fraction]]:
        return exact_logits(self.B, self.fused(self.ones()))

    def logits(self, M: Any) -> Sequence[Sequence[Number]]:
        if any(isinstance(entry, Interval) for row in M for entry in row):
            return logits(self.B, self.fused(M))
        return exact_logits(self.B, self.fused(M))


def read_blocks(inputs: Document, mask: str) -> Blocks:
    n = fields.integer(inputs["n"], "inputs.n", 2, 8)
    d = fields.integer(inputs["d"], "inputs.d", 1, MAX_FEATURES)
    if not isinstance(inputs["sizes"], list) or not 1 <= len(inputs["sizes"]) <= MAX_CLASSES:
        raise Reject(f"inputs.sizes must list 1 to {MAX_CLASSES} class sizes")
    sizes = [fields.integer(size, "a class size", 1, MAX_FEATURES) for size in inputs["sizes"]]
    if sum(sizes) != d:
        raise Reject("inputs.sizes must add up to d")
    r = len(sizes)
    B = fields.matrix(inputs["X"], n, r, "inputs.X")
    W = fields.matrix(inputs["W"], r, r, "inputs.W")
    lam, beta, delta = (fields.rational(inputs[key], f"inputs.{key}", 60) for key in ("lambda", "beta", "delta"))
    if not 0 <= lam <= 1 or beta <= 0 or delta <= 0:
        raise Reject("inputs.lambda must lie in [0, 1], inputs.beta and inputs.delta must be > 0")
    if any(max(abs(e.numerator), e.denominator) > 10**30 for A in (B, W) for row in A for e in row):
        raise Reject("entries of X and W have at most 30 digits here")
    if min(abs(entry) for row in W for entry in row) == 0:
        raise Reject("entries of W must not be 0: mu would be 0")
    return Blocks(sizes, B, W, lam, beta, delta, mask)


def require_pivots(listed: Any, blocks: Blocks) -> None:
    """X X^T - beta I >= 0, with its exact pivots."""
    pivots = fields.rationals(listed, "hypotheses.psd_pivots", blocks.n, fields.RESULT_DIGITS)
    if shifted_pivots(blocks.gram(), blocks.beta) != pivots:
        raise Reject("psd_pivots are not the pivots of LDL^T of X X^T - beta I")


def shifted_pivots(gram: fields.Matrix, beta: Fraction) -> list[Fraction]:
    """Pivots of a rational Gram matrix minus beta I; Reject unless it is positive semidefinite."""
    n = len(gram)
    A = [[entry - (beta if i == j else 0) for j, entry in enumerate(row)] for i, row in enumerate(gram)]
    pivots = []
    for k in range(n):
        pivot = A[k][k]
        pivots.append(pivot)
        if pivot < 0 or (pivot == 0 and any(A[i][k] for i in range(k + 1, n))):
            raise Reject("X X^T - beta I is not positive semidefinite")
        for i in range(k + 1, n):
            factor = A[i][k] / pivot if pivot else Fraction(0)
            for j in range(k + 1, n):
                A[i][j] -= factor * A[k][j]
    return pivots


def smallest_attention(blocks: Blocks, radius: Number, bits: int) -> tuple[Fraction, Fraction]:
    """Bounds of a number below every allowed F(M)_ij with M in the box [0, 1]^(d x d) or with ||M||_F <= radius.

    F_ij = 1 / sum_k exp(z_ik - z_ij), and z_ik - z_ij = <V, M> with V = W o x_i (x_k - x_j)^T: at most the sum of
    the positive entries of V on the box, at most radius ||V||_F on the ball.
    """
    found = []
    for i, allowed in enumerate(blocks.allowed):
        columns = [j for j in range(blocks.n) if allowed[j]]
        for j in columns:
            masses = [_reach(blocks, i, k, j, radius, bits) for k in columns if k != j]
            found.append(1 / (Fraction(1) + total(exponential(reach, bits) for reach in masses)))
    return hull(found, largest=False)


def _reach(blocks: Blocks, i: int, k: int, j: int, radius: Number, bits: int) -> Number:
    """The larger of max over the box and max over the ball of z_ik - z_ij."""
    weighted = [
        (s * t, w * blocks.B[i][r] * (blocks.B[k][q] - blocks.B[j][q]))
        for r, s in enumerate(blocks.sizes)
        for q, (t, w) in enumerate(zip(blocks.sizes, blocks.W[r], strict=True))
    ]
    box = sum((count * max(v, Fraction(0)) for count, v in weighted), Fraction(0))
    ball = radius * square_root(sum((count * v * v for count, v in weighted), Fraction(0)), bits)
    if lower(ball) > box:
        return ball
    return box if upper(ball) <= box else Fraction(upper(ball))


@dataclass(frozen=True)
class State:
    """One iterate and what the loss is there."""

    M: list[list[Number]]
    c_sq: Number
    gradient: list[list[Number]]
    logits: list[Shifted]
    bits: int

    @cached_property
    def F(self) -> list[list[Number]]:  # noqa: N802  # the paper's letter
        """The softmax of the logits, which a walk does without."""
        return softmax(self.logits, self.bits)


def state(blocks: Blocks, M: list[list[Number]], bits: int) -> State:
    z = relative(blocks.logits(M), blocks.allowed)
    loss = attention_loss(blocks.B, z, relative(blocks.dense_logits(), blocks.allowed), bits)
    return State(M, loss.c_sq, gradient(loss.slope, blocks.W, M, blocks.lam), z, bits)


def require_affordable(steps: int, n: int, classes: int) -> None:
    """A descent is bounded by its steps times n^2 times the classes of features."""
    if steps * n * n * classes > _MOST_WORK:
        raise GaveUp(f"more work than is allowed: t n^2 times the classes of features is at most {_MOST_WORK}")


def least_allowed(blocks: Blocks, F: Sequence[Sequence[Number]]) -> tuple[Fraction, Fraction]:
    """Bounds of the smallest entry of F at an allowed position."""
    pairs = zip(F, blocks.allowed, strict=True)
    return hull((f for row, allowed in pairs for f, keep in zip(row, allowed, strict=True) if keep), largest=False)


def descend(M: list[list[Number]], grad: list[list[Number]], eta: Fraction) -> list[list[Number]]:
    return [[m - eta * g for m, g in zip(ms, gs, strict=True)] for ms, gs in zip(M, grad, strict=True)]


def as_intervals(M: list[list[Number]], bits: int) -> list[list[Number]]:
    """Exact entries become intervals: exact iterates would double in length with every step."""
    return [[entry if isinstance(entry, Interval) else enclose(entry, bits) for entry in row] for row in M]
