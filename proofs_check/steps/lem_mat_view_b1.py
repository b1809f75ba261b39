"""lem:mat_view_b1: sum of C_1 = W o (X^T p_1 X)."""

from fractions import Fraction

from proofs_check.steps.exact import Matrix, diag, hadamard, outer, scaled, times, total, transpose
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:mat_view_b1"
FAILING: tuple[str, ...] = ()


def C1(x: StepInstance, i0: int, j0: int) -> Matrix:
    return [[x.B1(i0, j0, i1, j1) for j1 in range(x.d)] for i1 in range(x.d)]


def steps() -> list[Step]:
    def weight(x: StepInstance, i0: int, j0: int) -> Fraction:
        return x.c[i0][j0] * x.F[i0][j0]

    def sandwiched(x: StepInstance) -> bool:
        return all(
            C1(x, i, j) == scaled(weight(x, i, j), times(diag(x.X[i]), x.W, diag(x.X[j]))) for i, j in x.positions
        )

    def as_hadamard(x: StepInstance) -> bool:
        return all(C1(x, i, j) == scaled(weight(x, i, j), hadamard(x.W, outer(x.X[i], x.X[j]))) for i, j in x.positions)

    def summed(x: StepInstance) -> Matrix:
        return total([C1(x, i, j) for i, j in x.positions])

    def pulled_out(x: StepInstance) -> Matrix:
        return hadamard(x.W, total([scaled(weight(x, i, j), outer(x.X[i], x.X[j])) for i, j in x.positions]))

    def by_columns(x: StepInstance) -> Matrix:
        """W o sum over j0 of (X^T (p_1)_{*,j0}) X_{j0}^T."""
        columns = times(transpose(x.X), x.p1)
        return hadamard(x.W, total([outer([row[j] for row in columns], x.X[j]) for j in range(x.n)]))

    return [
        step("part 1, eq:one_unit_c1, 1", "C_1 = c F diag(X_{i0}) W diag(X_{j0})", on(instances(), sandwiched)),
        step("part 1, eq:one_unit_c1, 2", "= c F (W o X_{i0} X_{j0}^T)", on(instances(), as_hadamard)),
        step(
            "part 2, 3", "sum C_1 = W o sum c F X_{i0} X_{j0}^T", on(instances(), lambda x: summed(x) == pulled_out(x))
        ),
        step(
            "part 2, 5",
            "= W o sum_{j0} X^T (p_1)_{*,j0} X_{j0}^T",
            on(instances(), lambda x: pulled_out(x) == by_columns(x)),
        ),
        step(
            "part 2, 6",
            "= W o (X^T p_1 X)",
            on(instances(), lambda x: by_columns(x) == hadamard(x.W, times(transpose(x.X), x.p1, x.X))),
        ),
    ]
