"""lem:mat_view_b3: C_3 = lam M, entry by entry."""

from proofs_check.steps.exact import scaled
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:mat_view_b3"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    def entries(x: StepInstance) -> bool:
        return [[x.lam * x.M[a][b] for b in range(x.d)] for a in range(x.d)] == scaled(x.lam, x.M)

    return [step("1", "C_3(i1, j1) = lam M_{i1,j1}, so C_3 = lam M", on(instances(), entries))]
