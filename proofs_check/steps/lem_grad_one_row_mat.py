"""lem:grad_one_row_mat: d(X (M o W) X^T)_{i0} / dM_{i1,j1} = W_{i1,j1} X_{i0,i1} X_{*,j1},
as formulas for n = d = 2.
"""

import sympy as sp

from proofs_check.steps.record import Step, step
from proofs_check.steps.symbols import TRIPLES, same, symbols

LABEL = "lem:grad_one_row_mat"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    s = symbols()
    E = s.M.multiply_elementwise(s.W)

    def row(i0: int) -> sp.Matrix:
        return s.X[i0, :].T

    def unit(i: int, j: int) -> sp.Matrix:
        return sp.Matrix(2, 2, lambda a, b: int((a, b) == (i, j)))

    def by(A: sp.Matrix, i1: int, j1: int) -> sp.Matrix:
        return A.diff(s.M[i1, j1])

    rows = [
        (
            "eq:mat_total, 1",
            "(X E X^T)_{i0} = X (X E)_{i0}",
            [(i, same(s.Z[i, :].T, s.X * (s.X * E)[i, :].T)) for i in range(2)],
        ),
        ("eq:mat_total, 2", "= X E^T X_{i0}", [(i, same(s.Z[i, :].T, s.X * E.T * row(i))) for i in range(2)]),
        (
            "eq:mat_total, 3",
            "its derivative is X (dE^T) X_{i0}",
            [(t, same(by(s.Z[t[0], :].T, *t[1:]), s.X * by(E.T, *t[1:]) * row(t[0]))) for t in TRIPLES],
        ),
        ("eq:mat_mask, 1", "(M o W)^T = M^T o W^T", [("", same(E.T, s.M.T.multiply_elementwise(s.W.T)))]),
        (
            "eq:mat_mask, 4",
            "d(M o W)^T = W_{i1,j1} e_{j1} e_{i1}^T",
            [((i, j), same(by(E.T, i, j), s.W[i, j] * unit(j, i))) for i in range(2) for j in range(2)],
        ),
        (
            "final, 1",
            "= X W_{i1,j1} e_{j1} e_{i1}^T X_{i0}",
            [(t, same(by(s.Z[t[0], :].T, *t[1:]), s.W[t[1:]] * s.X * unit(t[2], t[1]) * row(t[0]))) for t in TRIPLES],
        ),
        (
            "final, 3",
            "= W_{i1,j1} X_{*,j1} X_{i0,i1}",
            [(t, same(s.W[t[1:]] * s.X * unit(t[2], t[1]) * row(t[0]), s.k(*t))) for t in TRIPLES],
        ),
    ]
    return [step(*parts) for parts in rows]
