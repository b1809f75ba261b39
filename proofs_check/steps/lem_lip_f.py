"""lem:lip_f: F is 2 d n R^3-Lipschitz.

The first step takes the derivative at M alone, where the mean value theorem needs its supremum.
"""

from flint import arb, ctx

from proofs_check.steps.record import Step, step

LABEL = "lem:lip_f"
FAILING = ("1",)


def logistic(t: arb) -> arb:
    return 1 / (1 + (-t).exp())


def steps() -> list[Step]:
    """n = 2, d = 1, X = (1, 0)^T, W = 1: F(M) = [[s(M), 1 - s(M)], [1/2, 1/2]] with s logistic,
    so ||F'(M)||_F = sqrt(2) s(M)(1 - s(M)).
    """
    before, ctx.prec = ctx.prec, 128
    try:
        pairs = [(arb(M), arb(N)) for M in (0, 1, 5, 10) for N in (-10, -1, 0, 2) if M != N]
        local, sharp = [], []
        for M, N in pairs:
            left = arb(2).sqrt() * abs(logistic(M) - logistic(N))
            slope = arb(2).sqrt() * logistic(M) * (1 - logistic(M))
            local.append(
                (
                    f"M = {M.str(3)}, M~ = {N.str(3)}: {left.str(8)} > {(slope * abs(M - N)).str(8)}",
                    bool(left <= slope * abs(M - N)),
                )
            )
            sharp.append((f"M = {M.str(3)}, M~ = {N.str(3)}", bool(left <= 2 * 1 * 2 * abs(M - N))))
    finally:
        ctx.prec = before
    return [
        step("1", "||F(M) - F(M~)||_F <= ||F'(M)||_F ||M - M~||_F, with F' at M", local),
        step("2", "<= 2 d n R^3 ||M - M~||_F (R -> 1), which bounds ||F'|| everywhere", sharp),
    ]
