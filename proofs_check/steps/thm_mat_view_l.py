"""thm:mat_view_l: dL/dM = W o (X^T p X) + lam M."""

from proofs_check.steps.exact import Matrix, hadamard, minus, plus, scaled, times, total, transpose
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.lem_mat_view_b1 import C1
from proofs_check.steps.lem_mat_view_b2 import C2
from proofs_check.steps.record import Step, on, step

LABEL = "thm:mat_view_l"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    def derivative(x: StepInstance) -> Matrix:
        return [[x.dL(a, b) + x.lam * x.M[a][b] for b in range(x.d)] for a in range(x.d)]

    def by_terms(x: StepInstance) -> Matrix:
        return plus(total([plus(C1(x, i, j), C2(x, i, j)) for i, j in x.positions]), scaled(x.lam, x.M))

    def view(x: StepInstance, p: Matrix) -> Matrix:
        return hadamard(x.W, times(transpose(x.X), p, x.X))

    def split(x: StepInstance) -> Matrix:
        return plus(minus(view(x, x.p1), view(x, x.p2)), scaled(x.lam, x.M))

    def joined(x: StepInstance) -> Matrix:
        return plus(view(x, x.p), scaled(x.lam, x.M))

    return [
        step("1", "dL = sum (C_1 + C_2) + C_3", on(instances(), lambda x: derivative(x) == by_terms(x))),
        step("2", "= W o (X^T p_1 X) - W o (X^T p_2 X) + lam M", on(instances(), lambda x: by_terms(x) == split(x))),
        step("4", "= W o (X^T p X) + lam M", on(instances(), lambda x: split(x) == joined(x))),
    ]
