"""lem:grad_sum: d alpha~_{i0} / dM = <u~_{i0} o (M_c)_{i0}, W X_{i0,i1} X_{*,j1}>, as formulas, with a causal mask."""

import sympy as sp

from proofs_check.steps.record import Step, step
from proofs_check.steps.symbols import TRIPLES, same, symbols

LABEL = "lem:grad_sum"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    s = symbols()
    Mc, ones = sp.Matrix([[1, 0], [1, 1]]), sp.ones(2, 1)
    u = s.Z.applyfunc(sp.exp)

    def kept(i0: int) -> sp.Matrix:
        return u[i0, :].multiply_elementwise(Mc[i0, :]).T

    def allowed(i0: int) -> sp.Matrix:
        return Mc[i0, :].T

    def by(expression: sp.Expr, t: tuple[int, int, int]) -> sp.Expr:
        return sp.diff(expression, s.M[t[1:]])

    def alpha(i0: int) -> sp.Expr:
        return kept(i0).dot(ones)

    def du(t: tuple[int, int, int]) -> sp.Matrix:
        return u[t[0], :].T.diff(s.M[t[1:]])

    return [
        step(
            "2",
            "d<u o M_c, 1> = <d(u o M_c), 1>",
            ((t, same(by(alpha(t[0]), t), kept(t[0]).diff(s.M[t[1:]]).dot(ones))) for t in TRIPLES),
        ),
        step(
            "3",
            "= <du o M_c, 1>",
            ((t, same(by(alpha(t[0]), t), du(t).multiply_elementwise(allowed(t[0])).dot(ones))) for t in TRIPLES),
        ),
        step(
            "4",
            "= <u o (W X X_{*,j1}) o M_c, 1>",
            (
                (
                    t,
                    same(
                        by(alpha(t[0]), t),
                        u[t[0], :].T.multiply_elementwise(s.k(*t)).multiply_elementwise(allowed(t[0])).dot(ones),
                    ),
                )
                for t in TRIPLES
            ),
        ),
        step(
            "5", "= <u o M_c, W X X_{*,j1}>", ((t, same(by(alpha(t[0]), t), kept(t[0]).dot(s.k(*t)))) for t in TRIPLES)
        ),
    ]
