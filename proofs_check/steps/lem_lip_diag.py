"""lem:lip_diag: diag((F o c) 1) is 6 d n^2 R^3-Lipschitz."""

from fractions import Fraction

from proofs_check.steps.exact import Vector, diag, dot, hadamard, minus, norm_sq, row_sums
from proofs_check.steps.lem_lip_f_circ_c import pairs
from proofs_check.steps.record import Step, step

LABEL = "lem:lip_diag"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    cases = []
    for index, (n, F, c, G, e) in enumerate(pairs()):
        left, right = hadamard(F, c), hadamard(G, e)
        cases.append((f"case {index}, n = {n}", n, left, right, minus(left, right)))

    def squares(v: Vector) -> Fraction:
        return dot(v, v)

    return [
        step(
            "eq:lip_diag_1, 1",
            "||diag(u) - diag(v)||_F = ||u - v||_2",
            (
                (
                    name,
                    norm_sq(minus(diag(row_sums(a)), diag(row_sums(b))))
                    == squares([p - q for p, q in zip(row_sums(a), row_sums(b), strict=True)]),
                )
                for name, _, a, b, _ in cases
            ),
        ),
        step(
            "eq:lip_diag_1, 2",
            "= ||(A - B) 1||_2",
            (
                (name, [p - q for p, q in zip(row_sums(a), row_sums(b), strict=True)] == row_sums(gap))
                for name, _, a, b, gap in cases
            ),
        ),
        step(
            "eq:lip_diag_1 and 2",
            "||(A - B) 1||_2 <= sqrt(n) ||A - B||_F",
            ((name, squares(row_sums(gap)) <= n * norm_sq(gap)) for name, n, _, _, gap in cases),
        ),
        step(
            "end",
            "sqrt(n) 6 d n^1.5 R^3 = 6 d n^2 R^3",
            ((n, n * (6 * n) ** 2 * n == (6 * n**2) ** 2) for n in range(1, 6)),
        ),
    ]
