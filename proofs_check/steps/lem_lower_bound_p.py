"""lem:lower_bound_p: ||B o F - diag((B o F) 1) F||_F >= delta ||B||_F."""

from proofs_check.steps.exact import Matrix, dot, norm_sq, row_sums, smallest
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:lower_bound_p"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    cases = list(instances(full_only=True))

    def centred_rows(x: StepInstance) -> Matrix:
        return [[(b - dot(c, f)) * w for b, w in zip(c, f, strict=True)] for c, f in zip(x.c, x.F, strict=True)]

    return [
        step(
            "0",
            "B 1 = 0, F 1 = 1, min F >= delta > 0",
            on(cases, lambda x: not any(row_sums(x.c)) and row_sums(x.F) == [1] * x.n and smallest(x.F) > 0),
        ),
        step(
            "row",
            "||(B_i - <B_i, F_i> 1) o F_i|| >= delta ||B_i||",
            on(
                cases,
                lambda x: all(
                    dot(r, r) >= smallest(x.F) ** 2 * dot(b, b) for r, b in zip(centred_rows(x), x.c, strict=True)
                ),
            ),
        ),
        step(
            "1",
            "||B o F - diag((B o F) 1) F||^2 = sum of the rows' squares",
            on(cases, lambda x: x.p == centred_rows(x)),
        ),
        step("2 and 3", ">= delta^2 ||B||_F^2", on(cases, lambda x: norm_sq(x.p) >= smallest(x.F) ** 2 * norm_sq(x.c))),
    ]
