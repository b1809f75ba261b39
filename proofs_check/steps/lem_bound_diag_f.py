"""lem:bound_diag_f: ||diag((c o F) 1) F||_F <= sqrt(n)."""

from proofs_check.steps.exact import norm_sq, row_sums
from proofs_check.steps.instance import instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:bound_diag_f"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    return [
        step(
            "1",
            "||diag(u) F||_F <= max|u_i| ||F||_F",
            on(instances(), lambda x: norm_sq(x.p2) <= max(map(abs, row_sums(x.p1))) ** 2 * norm_sq(x.F)),
        ),
        step("2", "|<c_i, F_i>| <= 1", on(instances(), lambda x: all(abs(u) <= 1 for u in row_sums(x.p1)))),
        step("3", "||F||_F <= sqrt(n)", on(instances(), lambda x: norm_sq(x.F) <= x.n)),
    ]
