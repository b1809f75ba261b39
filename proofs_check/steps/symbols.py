"""Symbolic X, W, M with n = d = 2: formulas in 12 letters, differentiated by sympy."""

from dataclasses import dataclass

import sympy as sp


@dataclass(frozen=True)
class Symbols:
    X: sp.Matrix
    W: sp.Matrix
    M: sp.Matrix

    @property
    def Z(self) -> sp.Matrix:
        """X (M o W) X^T."""
        return self.X * self.M.multiply_elementwise(self.W) * self.X.T

    def k(self, i0: int, i1: int, j1: int) -> sp.Matrix:
        """W_{i1,j1} X_{i0,i1} X_{*,j1}."""
        return self.W[i1, j1] * self.X[i0, i1] * self.X[:, j1]


def symbols(n: int = 2, d: int = 2) -> Symbols:
    def letters(name: str, rows: int, columns: int) -> sp.Matrix:
        return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}{i}{j}", real=True))

    return Symbols(letters("X", n, d), letters("W", d, d), letters("M", d, d))


def same(A: sp.Expr | sp.Matrix, B: sp.Expr | sp.Matrix) -> bool:
    """Equal as formulas."""
    difference = A - B
    entries = list(difference) if isinstance(difference, sp.MatrixBase) else [difference]
    return all(sp.expand(entry) == 0 for entry in entries)


TRIPLES = [(i0, i1, j1) for i0 in range(2) for i1 in range(2) for j1 in range(2)]
