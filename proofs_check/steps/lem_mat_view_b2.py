"""lem:mat_view_b2: sum of C_2 = -W o (X^T p_2 X)."""

from fractions import Fraction

from proofs_check.steps.exact import (
    Matrix,
    Vector,
    apply,
    diag,
    dot,
    hadamard,
    outer,
    row_sums,
    scaled,
    times,
    total,
    transpose,
)
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:mat_view_b2"
FAILING: tuple[str, ...] = ()


def C2(x: StepInstance, i0: int, j0: int) -> Matrix:
    return [[x.B2(i0, j0, i1, j1) for j1 in range(x.d)] for i1 in range(x.d)]


def steps() -> list[Step]:
    def mean_key(x: StepInstance, i0: int) -> Vector:
        """X^T F_{i0}."""
        return apply(transpose(x.X), x.F[i0])

    def weight(x: StepInstance, i0: int, j0: int) -> Fraction:
        return x.c[i0][j0] * x.F[i0][j0]

    def entry(x: StepInstance) -> bool:
        """c F f^T X_{*,j1} (diag(X_{i0}) W_{*,j1})_{i1}."""
        return all(
            -C2(x, i, j)[a][b]
            == weight(x, i, j) * dot(x.F[i], [row[b] for row in x.X]) * times(diag(x.X[i]), x.W)[a][b]
            for i, j in x.positions
            for a, b in x.entries
        )

    def sandwiched(x: StepInstance) -> bool:
        return all(
            scaled(-1, C2(x, i, j)) == scaled(weight(x, i, j), times(diag(x.X[i]), x.W, diag(mean_key(x, i))))
            for i, j in x.positions
        )

    def as_hadamard(x: StepInstance) -> bool:
        return all(
            scaled(-1, C2(x, i, j)) == scaled(weight(x, i, j), hadamard(outer(x.X[i], mean_key(x, i)), x.W))
            for i, j in x.positions
        )

    def summed(x: StepInstance) -> Matrix:
        return scaled(-1, total([C2(x, i, j) for i, j in x.positions]))

    def by_rows(x: StepInstance) -> Matrix:
        """W o sum over i0 of (X_{i0} F_{i0}^T X) 1^T (p_1)_{i0}."""
        sums = row_sums(x.p1)
        return hadamard(x.W, total([scaled(sums[i], outer(x.X[i], mean_key(x, i))) for i in range(x.n)]))

    def with_diag(x: StepInstance) -> Matrix:
        return hadamard(x.W, times(transpose(x.X), diag(row_sums(x.p1)), x.F, x.X))

    def final(x: StepInstance) -> Matrix:
        return hadamard(x.W, times(transpose(x.X), x.p2, x.X))

    return [
        step("part 1, 4", "-C_2(i1, j1) = c F F_{i0}^T X_{*,j1} (diag(X_{i0}) W_{*,j1})_{i1}", on(instances(), entry)),
        step("part 1, eq:one_init_c2", "-C_2 = c F diag(X_{i0}) W diag(X^T F_{i0})", on(instances(), sandwiched)),
        step("part 2, 2", "= c F ((X_{i0} F_{i0}^T X) o W)", on(instances(), as_hadamard)),
        step(
            "part 2, 4",
            "-sum C_2 = W o sum_{i0} (X_{i0} F_{i0}^T X) 1^T (p_1)_{i0}",
            on(instances(), lambda x: summed(x) == by_rows(x)),
        ),
        step("part 2, 5", "= W o (X^T diag(p_1 1) F X)", on(instances(), lambda x: by_rows(x) == with_diag(x))),
        step("part 2, 6", "= W o (X^T p_2 X)", on(instances(), lambda x: with_diag(x) == final(x))),
    ]
