"""Exact instances of the paper's quantities.

From exp onwards a proof uses nothing of u = exp(logits) but u > 0 and du = u o d(logits), so an instance takes
positive rationals for u and u~: f, f~, c, p and their derivatives are then exact rationals. An identity on all of
these is more than the paper needs. A failing step wants a true instance: M = 0 comes first, where u~ = 1 exactly.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from proofs_check.steps.exact import Matrix, Q, Vector, diag, dot, hadamard, matrix, minus, row_sums, shown, times


@dataclass(frozen=True)
class StepInstance:
    """X, W, M, a mask and positive weights u, u~ on it."""

    seed: int
    n: int
    d: int
    X: Matrix
    W: Matrix
    M: Matrix
    Mc: Matrix
    u: Matrix
    u_tilde: Matrix
    lam: Fraction

    def __str__(self) -> str:
        """The whole instance: a witness must be enough to redo the computation."""
        named = (("X", self.X), ("W", self.W), ("M", self.M), ("M_c", self.Mc), ("u", self.u), ("u~", self.u_tilde))
        return ", ".join([*(f"{name} = {shown(A)}" for name, A in named), f"lam = {self.lam}"])

    @cached_property
    def alpha(self) -> Vector:
        return row_sums(hadamard(self.u_tilde, self.Mc))

    @cached_property
    def f(self) -> Matrix:
        return _softmax(hadamard(self.u, self.Mc))

    @cached_property
    def F(self) -> Matrix:
        """Return the attention f~(M)."""
        return _softmax(hadamard(self.u_tilde, self.Mc))

    @cached_property
    def c(self) -> Matrix:
        return minus(self.F, self.f)

    @cached_property
    def p1(self) -> Matrix:
        return hadamard(self.c, self.F)

    @cached_property
    def p2(self) -> Matrix:
        return times(diag(row_sums(self.p1)), self.F)

    @cached_property
    def p(self) -> Matrix:
        return minus(self.p1, self.p2)

    @property
    def positions(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.n) for j in range(self.n)]

    @property
    def entries(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.d) for j in range(self.d)]

    def k(self, i0: int, i1: int, j1: int) -> Vector:
        """W_{i1,j1} X_{i0,i1} X_{*,j1}: the derivative of row i0 of the logits."""
        return [self.W[i1][j1] * self.X[i0][i1] * x[j1] for x in self.X]

    def B1(self, i0: int, j0: int, i1: int, j1: int) -> Fraction:
        return self.c[i0][j0] * self.F[i0][j0] * self.k(i0, i1, j1)[j0]

    def B2(self, i0: int, j0: int, i1: int, j1: int) -> Fraction:
        return -self.c[i0][j0] * self.F[i0][j0] * dot(self.F[i0], self.k(i0, i1, j1))

    def dF(self, i0: int, i1: int, j1: int) -> Vector:
        """Row i0 of dF / dM_{i1,j1} by the quotient rule from du~ = u~ o k alone."""
        u, k = [a * b for a, b in zip(self.u_tilde[i0], self.Mc[i0], strict=True)], self.k(i0, i1, j1)
        du = [a * b for a, b in zip(u, k, strict=True)]
        s, ds = sum(u, Q(0)), sum(du, Q(0))
        return [(a * s - b * ds) / s**2 for a, b in zip(du, u, strict=True)]

    def dL(self, i1: int, j1: int) -> Fraction:
        """dL_attn / dM_{i1,j1} = sum c dF."""
        return sum((dot(self.c[i], self.dF(i, i1, j1)) for i in range(self.n)), Q(0))


def _softmax(u: Matrix) -> Matrix:
    return [[entry / sum(row) for entry in row] for row in u]


def instance(seed: int, n: int, d: int, mask: str = "full") -> StepInstance:
    rng = random.Random(seed)
    Mc = [
        [Q(int(mask == "full" or (mask == "causal" and j <= i) or i == j or rng.random() < 0.5)) for j in range(n)]
        for i in range(n)
    ]
    if mask == "causal":
        Mc = [[Q(int(j <= i)) for j in range(n)] for i in range(n)]
    return StepInstance(
        seed, n, d, matrix(rng, n, d), matrix(rng, d, d), matrix(rng, d, d, 0, 3), Mc,
        matrix(rng, n, n, 1, 12), matrix(rng, n, n, 1, 12), Q(rng.randint(0, 9), 10),
    )  # fmt: skip


SHAPES = (
    (2, 2, "full"),
    (3, 2, "causal"),
    (2, 4, "full"),
    (4, 3, "causal"),
    (3, 3, "any"),
    (5, 2, "any"),
    (1, 2, "full"),
)


def at_zero() -> StepInstance:
    """M = 0, where the paper's F is exactly uniform whatever X and W are."""
    zeros, ones = [[Q(0)] * 2] * 2, [[Q(1)] * 2] * 2
    X, W = [[Q(1), Q(0)], [Q(1, 2), Q(1)]], [[Q(1, 2), Q(-1)], [Q(1, 3), Q(2)]]
    return StepInstance(98, 2, 2, X, W, zeros, ones, [[Q(2), Q(1)], [Q(1), Q(3)]], ones, Q(1, 10))


def instances(full_only: bool = False) -> Iterator[StepInstance]:
    """M = 0, then random exact instances of several shapes and masks, the same ones every time."""
    yield at_zero()
    for seed, (n, d, mask) in enumerate(SHAPES):
        yield instance(seed, n, d, "full" if full_only else mask)
