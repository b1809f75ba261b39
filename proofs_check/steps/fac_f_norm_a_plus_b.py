"""fac:F_norm_A_plus_B: ||A + B||_F^2 = ||A||_F^2 + ||B||_F^2 + 2 <A, B>."""

from fractions import Fraction

from proofs_check.steps.exact import Matrix, inner, matrices, norm_sq, plus, times, trace, transpose
from proofs_check.steps.record import Step, step

LABEL = "fac:F_norm_A_plus_B"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    pairs = [(A, B) for n, m in ((2, 3), (3, 2)) for A, B in zip(matrices(n, m), matrices(n, m, seed=1), strict=True)]

    def gram(A: Matrix, B: Matrix) -> Fraction:
        return trace(times(transpose(A), B))

    return [
        step(
            "1",
            "||A+B||^2 = tr[(A+B)^T (A+B)]",
            (((A, B), norm_sq(plus(A, B)) == gram(plus(A, B), plus(A, B))) for A, B in pairs),
        ),
        step(
            "2",
            "= tr[A^T A + A^T B + B^T A + B^T B]",
            (
                ((A, B), gram(plus(A, B), plus(A, B)) == gram(A, A) + gram(A, B) + gram(B, A) + gram(B, B))
                for A, B in pairs
            ),
        ),
        step("3", "tr[B^T A] = tr[A^T B]", (((A, B), gram(B, A) == gram(A, B)) for A, B in pairs)),
        step("4", "tr[A^T A] = ||A||_F^2", ((A, gram(A, A) == norm_sq(A)) for A, _ in pairs)),
        step("5", "tr[A^T B] = <A, B>", (((A, B), gram(A, B) == inner(A, B)) for A, B in pairs)),
    ]
