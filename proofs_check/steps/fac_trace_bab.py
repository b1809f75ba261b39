"""fac:trace_BAB: A >= beta I gives tr[B^T A B] >= beta tr[B^T B] (A symmetric)."""

from proofs_check.steps.exact import Q, identity, matrices, minus, plus, scaled, semidefinite, times, trace, transpose
from proofs_check.steps.record import Step, step

LABEL = "fac:trace_BAB"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    cases = []
    for k, (Y, B) in enumerate(zip(matrices(3, 4), matrices(3, 2, seed=9), strict=True)):
        beta = Q(k - 4, 5)
        A = plus(times(Y, transpose(Y)), scaled(beta, identity(3)))
        cases.append((A, B, beta, minus(A, scaled(beta, identity(3)))))
    return [
        step("0", "A - beta I >= 0", (("", semidefinite(rest)) for *_, rest in cases)),
        step(
            "1",
            "B^T (A - beta I) B >= 0",
            (("", semidefinite(times(transpose(B), rest, B))) for _, B, _, rest in cases),
        ),
        step("2", "its trace is >= 0", (("", trace(times(transpose(B), rest, B)) >= 0) for _, B, _, rest in cases)),
        step(
            "3",
            "tr[B^T A B - beta B^T B] = tr[B^T A B] - beta tr[B^T B]",
            (
                (
                    "",
                    trace(times(transpose(B), rest, B))
                    == trace(times(transpose(B), A, B)) - beta * trace(times(transpose(B), B)),
                )
                for A, B, beta, rest in cases
            ),
        ),
    ]
