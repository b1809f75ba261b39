"""lem:bound_basic_func: ten bounds. Part 1 reverses f <= f^2; part 10 writes = where only <= holds."""

from fractions import Fraction

from proofs_check.steps.exact import dot, largest, norm_sq, root_at_most_sum, row_sums
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:bound_basic_func"
FAILING = ("part 1, reason", "part 10, 3")


def steps() -> list[Step]:
    cases = list(instances())

    def entries(x: StepInstance) -> list[Fraction]:
        return [entry for row in x.F for entry in row]

    def reversed_reason(x: StepInstance) -> tuple[str, bool]:
        bad = [entry for entry in entries(x) if not entry <= entry * entry]
        return (f"{x}: F_ij = {bad[0]} > {bad[0] ** 2} = F_ij^2" if bad else str(x)), not bad

    def R_sq(x: StepInstance) -> Fraction:
        """R^2 as small as the assumption allows: max(||X||_F, ||W||_F)^2, above 1."""
        return max(norm_sq(x.X), norm_sq(x.W), Fraction(2))

    def products(x: StepInstance) -> list[tuple[Fraction, Fraction]]:
        """Parts 8 and 9, squared: against R^6."""
        found = []
        for i0, j0 in x.positions:
            for i1, j1 in x.entries:
                k = x.k(i0, i1, j1)
                found += [
                    ((x.F[i0][j0] * k[j0]) ** 2, R_sq(x) ** 3),
                    ((x.F[i0][j0] * dot(x.F[i0], k)) ** 2, R_sq(x) ** 3),
                ]
        return found

    def diagonal(x: StepInstance) -> Fraction:
        return sum((entry**2 for entry in row_sums(x.p1)), Fraction(0))

    def equality(x: StepInstance) -> tuple[str, bool]:
        left, right = x.n * norm_sq(x.p1), Fraction(4 * x.n**2)
        return f"{x}: (||1||_2 ||c o F||_F)^2 = {left}, (sqrt(n) 2 sqrt(n))^2 = {right}", left == right

    return [
        step("part 1, 1", "0 <= F_ij <= 1", on(cases, lambda x: all(0 <= e <= 1 for e in entries(x)))),
        step("part 1, 2", "rows of F sum to 1", on(cases, lambda x: row_sums(x.F) == [1] * x.n)),
        step("part 1, 3", "sum_j F_ij^2 <= 1", on(cases, lambda x: all(dot(row, row) <= 1 for row in x.F))),
        step("part 1, reason", "which follows from F_ij <= F_ij^2", (reversed_reason(x) for x in cases)),
        step("part 1, repaired reason", "F_ij^2 <= F_ij", on(cases, lambda x: all(e * e <= e for e in entries(x)))),
        step("part 1, 4", "||F||_F^2 <= n", on(cases, lambda x: norm_sq(x.F) <= x.n)),
        step(
            "part 2, 2",
            "||F - f||_F <= ||F||_F + ||f||_F",
            on(cases, lambda x: root_at_most_sum(norm_sq(x.c), norm_sq(x.F), norm_sq(x.f))),
        ),
        step("part 2, 3", "||c||_F <= 2 sqrt(n)", on(cases, lambda x: norm_sq(x.c) <= 4 * x.n)),
        step("part 3", "||c o F||_F <= ||c||_F", on(cases, lambda x: norm_sq(x.p1) <= norm_sq(x.c))),
        step("part 5", "|W_ij| <= ||W||_F <= R", on(cases, lambda x: largest(x.W) ** 2 <= R_sq(x))),
        step("part 6", "|X_ij| <= ||X||_F <= R", on(cases, lambda x: largest(x.X) ** 2 <= R_sq(x))),
        step(
            "parts 8 and 9",
            "|F W X X| and |F <F_i, W X X_{*,j}>| <= R^3",
            on(cases, lambda x: all(a <= b for a, b in products(x))),
        ),
        step(
            "part 10, 2",
            "||(c o F) 1||_2 <= ||1||_2 ||c o F||_F",
            on(cases, lambda x: diagonal(x) <= x.n * norm_sq(x.p1)),
        ),
        step("part 10, 3", "||1||_2 ||c o F||_F = sqrt(n) 2 sqrt(n)", (equality(x) for x in cases)),
        step("part 10, repaired", "||1||_2 ||c o F||_F <= 2 n", on(cases, lambda x: x.n * norm_sq(x.p1) <= 4 * x.n**2)),
    ]
