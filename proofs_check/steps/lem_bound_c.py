"""lem:bound_c: ||c||_F <= 2 sqrt(n)."""

from proofs_check.steps.exact import dot, norm_sq, root_at_most_sum
from proofs_check.steps.instance import instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:bound_c"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    return [
        step(
            "1",
            "||c||_F <= ||F||_F + ||f||_F",
            on(instances(), lambda x: root_at_most_sum(norm_sq(x.c), norm_sq(x.F), norm_sq(x.f))),
        ),
        step(
            "2, reason",
            "sum x_i^2 <= (sum x_i)^2 for x_i >= 0",
            on(instances(), lambda x: all(dot(r, r) <= sum(r) ** 2 for r in x.F + x.f)),
        ),
        step(
            "2", "||F||_F, ||f||_F <= sqrt(n)", on(instances(), lambda x: norm_sq(x.F) <= x.n and norm_sq(x.f) <= x.n)
        ),
    ]
