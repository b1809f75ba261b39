"""lem:M_bounds (unlabelled): ||M||_F <= d for M in the box, ||M_c||_F <= n."""

from proofs_check.steps.exact import Q, matrices, norm_sq
from proofs_check.steps.instance import instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:M_bounds"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    boxed = [[[abs(entry) / 2 for entry in row] for row in A] for A in matrices(3, 3)] + [[[Q(1)] * 3] * 3]
    return [
        step(
            "entries",
            "entries of M and M_c are at most 1",
            on(boxed, lambda M: all(0 <= e <= 1 for row in M for e in row)),
        ),
        step("M", "||M||_F^2 <= d^2", on(boxed, lambda M: norm_sq(M) <= 9)),
        step("M_c", "||M_c||_F^2 <= n^2", on(instances(), lambda x: norm_sq(x.Mc) <= x.n**2)),
    ]
