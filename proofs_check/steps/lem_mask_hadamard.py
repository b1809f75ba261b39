"""lem:mask_hadamard: d(M o X)/dM_ij = X_ij e_i e_j^T, as formulas in the entries of M and X."""

import sympy as sp

from proofs_check.steps.record import Step, step

LABEL = "lem:mask_hadamard"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    n = 3
    M, X = (sp.Matrix(n, n, lambda i, j, name=name: sp.Symbol(f"{name}{i}{j}")) for name in "MX")
    pairs = [(i, j) for i in range(n) for j in range(n)]

    def unit(i: int, j: int) -> sp.Matrix:
        return sp.Matrix(n, n, lambda a, b: int((a, b) == (i, j)))

    def by(A: sp.Matrix, i: int, j: int) -> sp.Matrix:
        return A.diff(M[i, j])

    product = M.multiply_elementwise
    return [
        step(
            "1",
            "d(M o X) = M o dX + X o dM",
            ((ij, by(product(X), *ij) == product(by(X, *ij)) + X.multiply_elementwise(by(M, *ij))) for ij in pairs),
        ),
        step("2", "dX = 0", ((ij, by(X, *ij) == sp.zeros(n, n)) for ij in pairs)),
        step("3", "dM = e_i e_j^T", ((ij, by(M, *ij) == unit(*ij)) for ij in pairs)),
        step(
            "4",
            "X o e_i e_j^T = X_ij e_i e_j^T",
            ((ij, X.multiply_elementwise(unit(*ij)) == X[ij] * unit(*ij)) for ij in pairs),
        ),
    ]
