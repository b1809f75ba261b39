"""lem:lower_bound_XBX: ||X^T B X||_F >= beta ||B||_F.

The fourth step needs beta >= 0 (for beta < 0 the lemma is trivial).
"""

from fractions import Fraction

from proofs_check.steps.exact import (
    Matrix,
    Q,
    identity,
    matrices,
    minus,
    norm_sq,
    scaled,
    semidefinite,
    shown,
    times,
    trace,
    transpose,
)
from proofs_check.steps.record import Step, step

LABEL = "lem:lower_bound_XBX"
FAILING = ("4",)


def steps() -> list[Step]:
    cases = []
    for k, (X, B) in enumerate(zip(matrices(2, 4), matrices(2, 2, seed=4), strict=True)):
        beta = Q(-1) if k == 0 else _beta_below(X)
        cases.append((X, B, beta))

    def parts(X: Matrix, B: Matrix) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        G, Bt, Xt = times(X, transpose(X)), transpose(B), transpose(X)
        return trace(times(Xt, B, G, Bt, X)), trace(times(Xt, B, Bt, X)), trace(times(Bt, G, B)), trace(times(Bt, B))

    def witness(X: Matrix, B: Matrix, beta: Fraction) -> str:
        _, _, third, fourth = parts(X, B)
        sides = f"beta tr[B^T X X^T B] = {beta * third} < {beta**2 * fourth} = beta^2 tr[B^T B]"
        return f"X = {shown(X)}, B = {shown(B)}, beta = {beta}: {sides}"

    return [
        step(
            "0",
            "X X^T >= beta I",
            (("", semidefinite(minus(times(X, transpose(X)), scaled(beta, identity(2))))) for X, _, beta in cases),
        ),
        step(
            "1",
            "||X^T B X||_F^2 = tr[X^T B X X^T B^T X]",
            (("", norm_sq(times(transpose(X), B, X)) == parts(X, B)[0]) for X, B, _ in cases),
        ),
        step("2", ">= beta tr[X^T B B^T X]", (("", parts(X, B)[0] >= beta * parts(X, B)[1]) for X, B, beta in cases)),
        step("3", "tr[X^T B B^T X] = tr[B^T X X^T B]", (("", parts(X, B)[1] == parts(X, B)[2]) for X, B, _ in cases)),
        step(
            "4",
            "beta tr[B^T X X^T B] >= beta^2 tr[B^T B], for every beta",
            ((witness(*case), case[2] * parts(*case[:2])[2] >= case[2] ** 2 * parts(*case[:2])[3]) for case in cases),
        ),
        step(
            "4, beta >= 0",
            "the same with beta >= 0",
            (
                (witness(*case), case[2] * parts(*case[:2])[2] >= case[2] ** 2 * parts(*case[:2])[3])
                for case in cases
                if case[2] >= 0
            ),
        ),
        step("5", "tr[B^T B] = ||B||_F^2", (("", parts(X, B)[3] == norm_sq(B)) for X, B, _ in cases)),
    ]


def _beta_below(X: Matrix) -> Fraction:
    beta = Q(1)
    while not semidefinite(minus(times(X, transpose(X)), scaled(beta, identity(len(X))))):
        beta /= 2
    return beta
