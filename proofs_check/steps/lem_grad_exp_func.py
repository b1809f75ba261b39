"""lem:grad_exp_func: du~_{i0} / dM_{i1,j1} = u~_{i0} o (W_{i1,j1} X_{i0,i1} X_{*,j1}), as formulas for n = d = 2."""

import sympy as sp

from proofs_check.steps.record import Step, step
from proofs_check.steps.symbols import TRIPLES, same, symbols

LABEL = "lem:grad_exp_func"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    s = symbols()
    u = s.Z.applyfunc(sp.exp)

    def du(t: tuple[int, int, int]) -> sp.Matrix:
        return u[t[0], :].T.diff(s.M[t[1:]])

    def dz(t: tuple[int, int, int]) -> sp.Matrix:
        return s.Z[t[0], :].T.diff(s.M[t[1:]])

    def row(t: tuple[int, int, int]) -> sp.Matrix:
        return u[t[0], :].T

    return [
        step(
            "2",
            "d exp(z)_{i0} = exp(z)_{i0} o dz_{i0}",
            ((t, same(du(t), row(t).multiply_elementwise(dz(t)))) for t in TRIPLES),
        ),
        step(
            "4", "= u~_{i0} o (W X X_{*,j1})", ((t, same(du(t), row(t).multiply_elementwise(s.k(*t)))) for t in TRIPLES)
        ),
    ]
