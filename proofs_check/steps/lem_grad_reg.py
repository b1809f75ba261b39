"""lem:grad_reg: dL_reg/dM_{i1,j1} = lam M_{i1,j1}, as formulas."""

import sympy as sp

from proofs_check.steps.record import Step, step

LABEL = "lem:grad_reg"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    lam, M = sp.Symbol("lam"), sp.Matrix(3, 3, lambda i, j: sp.Symbol(f"M{i}{j}"))
    squares = sum(entry**2 for entry in M)
    pairs = [(i, j) for i in range(3) for j in range(3)]
    return [
        step("2", "||M||_F^2 = sum of M_ij^2", [("d = 3", sp.expand((M.T * M).trace() - squares) == 0)]),
        step(
            "3",
            "(lam/2) d sum M_ij^2 = lam M_{i1,j1}",
            ((ij, sp.diff(lam / 2 * squares, M[ij]) == lam * M[ij]) for ij in pairs),
        ),
    ]
