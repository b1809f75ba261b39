"""lem:lip_c: c is 2 d n R^3-Lipschitz, as c(M) - c(M~) = F(M) - F(M~). Its first step has lem:lip_f's gap."""

from proofs_check.steps import lem_lip_f
from proofs_check.steps.exact import minus
from proofs_check.steps.instance import instance
from proofs_check.steps.record import Step, on, step

LABEL = "lem:lip_c"
FAILING = ("1",)


def steps() -> list[Step]:
    local, everywhere = lem_lip_f.steps()
    return [
        Step("1", "||c(M) - c(M~)||_F <= ||c'(M)||_F ||M - M~||_F, with c' at M", local.status, local.witness),
        step(
            "2",
            "c' = F': c and F differ by a constant",
            on(
                [(instance(s, 3, 2), instance(s + 50, 3, 2)) for s in range(6)],
                lambda p: minus(minus(p[0].F, p[0].f), minus(p[1].F, p[0].f)) == minus(p[0].F, p[1].F),
            ),
        ),
        Step("3", "<= 2 d n R^3 ||M - M~||_F", everywhere.status, everywhere.witness),
    ]
