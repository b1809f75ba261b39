"""lem:grad_rec: dL_attn/dM = sum over i0, j0 of (B_1 + B_2). The proof's third line drops the double sum.

The first instance has M = 0, so F is uniform for every W; any f comes from W = X^-1 (log f + row constants) X^-T,
as X is invertible, and the terms of entry (i1, j1) are all proportional to W_{i1,j1}: the comparison does not
depend on it.
"""

from fractions import Fraction

from proofs_check.steps.exact import dot
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, step

LABEL = "lem:grad_rec"
FAILING = ("second display, 2",)


def steps() -> list[Step]:
    cases = [(x, i1, j1) for x in instances() for i1, j1 in x.entries]

    def terms(x: StepInstance, i1: int, j1: int) -> list[Fraction]:
        return [x.B1(i0, j0, i1, j1) + x.B2(i0, j0, i1, j1) for i0, j0 in x.positions]

    def summed(x: StepInstance, i1: int, j1: int) -> Fraction:
        return sum((dot(x.c[i], x.dF(i, i1, j1)) for i in range(x.n)), Fraction(0))

    def one_term(x: StepInstance, i1: int, j1: int) -> bool:
        """The printed line has no sum: it would hold for every (i0, j0)."""
        return all(term == summed(x, i1, j1) for term in terms(x, i1, j1))

    def half_square(x: StepInstance, i1: int, j1: int) -> bool:
        """1/2 ((c + h dc)^2 - c^2) = h c dc + h^2 dc^2 / 2: the first-order term is c dc."""
        h, rest = Fraction(1, 1000), Fraction(0)
        for i in range(x.n):
            for c, dc in zip(x.c[i], x.dF(i, i1, j1), strict=True):
                rest += ((c + h * dc) ** 2 - c**2) / 2 - h * c * dc - h * h * dc**2 / 2
        return rest == 0

    def named(case: tuple[StepInstance, int, int]) -> str:
        return (
            f"{case[0]}, (i1, j1) = {case[1:]}: sum {summed(*case)}, single terms {', '.join(map(str, terms(*case)))}"
        )

    return [
        step("first display, 4", "1/2 d c^2 = c dc", ((named(x), half_square(*x)) for x in cases)),
        step(
            "second display, 1", "sum c dc = sum (B_1 + B_2)", ((named(x), summed(*x) == sum(terms(*x))) for x in cases)
        ),
        step(
            "second display, 2",
            "= B_1 + B_2 of one (i0, j0), without the double sum",
            ((named(x), one_term(*x)) for x in cases),
        ),
        step(
            "second display, 3",
            "dL_attn = sum over i0, j0 of (B_1 + B_2)",
            ((named(x), x[0].dL(*x[1:]) == sum(terms(*x))) for x in cases),
        ),
    ]
