"""thm:lip_grad_l: grad L is (lam + 30 d n^3.5 R^6)-Lipschitz. "= R^3" should be "<= R^3"."""

from collections.abc import Callable
from fractions import Fraction

from proofs_check.steps.exact import (
    Matrix,
    diag,
    hadamard,
    minus,
    norm_sq,
    plus,
    root_at_most_sum,
    row_sums,
    scaled,
    times,
    transpose,
)
from proofs_check.steps.instance import StepInstance, instance
from proofs_check.steps.record import Step, step

Pair = tuple[StepInstance, StepInstance, Matrix, Matrix, Matrix, Matrix]

LABEL = "thm:lip_grad_l"
FAILING = ("first term, 4",)


def steps() -> list[Step]:
    cases = []
    for seed, (n, d) in enumerate(((2, 2), (3, 2), (2, 3), (4, 3), (1, 1))):
        x, y = instance(seed, n, d), instance(seed + 30, n, d)
        e = minus(y.F, x.f)
        a, b = x.p1, hadamard(e, y.F)
        A, B = times(diag(row_sums(a)), x.F), times(diag(row_sums(b)), y.F)
        cases.append((x, y, a, b, A, B))

    def view(x: StepInstance, p: Matrix) -> Matrix:
        return hadamard(x.W, times(transpose(x.X), p, x.X))

    def gap(case: Pair) -> Matrix:
        x, _, a, b, A, B = case
        return minus(minus(a, A), minus(b, B))

    def rearranged(case: Pair) -> bool:
        x, y, a, b, A, B = case
        left = minus(plus(view(x, minus(a, A)), scaled(x.lam, x.M)), plus(view(x, minus(b, B)), scaled(x.lam, y.M)))
        return left == plus(view(x, gap(case)), scaled(x.lam, minus(x.M, y.M)))

    def triangle(case: Pair) -> bool:
        x, y, *_ = case
        parts = view(x, gap(case)), scaled(x.lam, minus(x.M, y.M))
        return root_at_most_sum(norm_sq(plus(*parts)), norm_sq(parts[0]), norm_sq(parts[1]))

    def sandwich(x: StepInstance, p: Matrix) -> Matrix:
        return times(transpose(x.X), p, x.X)

    def equality(case: Pair) -> tuple[str, bool]:
        """||W||_F ||X||_F^2 against R^3, with an R the assumption allows."""
        x = case[0]
        left, R = norm_sq(x.W) * norm_sq(x.X) ** 2, 1 + max(norm_sq(x.W), norm_sq(x.X))
        return f"{x}, R = {R}: (||W||_F ||X||_F^2)^2 = {left}, R^6 = {R**6}", left == R**6

    def below(case: Pair) -> bool:
        x = case[0]
        return norm_sq(x.W) * norm_sq(x.X) ** 2 <= (1 + max(norm_sq(x.W), norm_sq(x.X), Fraction(0))) ** 6

    def names(test: Callable[[Pair], bool]) -> list[tuple[str, bool]]:
        return [(str(case[0]), test(case)) for case in cases]

    return [
        step("eq:lip_l_0, 1", "grad L(M) - grad L(M~) = W o (X^T (p - p~) X) + lam (M - M~)", names(rearranged)),
        step("eq:lip_l_0, 2", "triangle inequality", names(triangle)),
        step(
            "first term, 1",
            "||W o Y||_F <= ||W||_F ||Y||_F",
            names(lambda c: norm_sq(view(c[0], gap(c))) <= norm_sq(c[0].W) * norm_sq(sandwich(c[0], gap(c)))),
        ),
        step(
            "first term, 2",
            "||X^T p X||_F <= ||X||_F^2 ||p||_F",
            names(lambda c: norm_sq(sandwich(c[0], gap(c))) <= norm_sq(c[0].X) ** 2 * norm_sq(gap(c))),
        ),
        step(
            "first term, 3",
            "||p - p~||_F <= ||p_1 - p_1~||_F + ||p_2 - p_2~||_F",
            names(lambda c: root_at_most_sum(norm_sq(gap(c)), norm_sq(minus(c[2], c[3])), norm_sq(minus(c[4], c[5])))),
        ),
        step("first term, 4", "||W||_F ||X||_F^2 (...) = R^3 (...)", [equality(case) for case in cases]),
        step("first term, 4, repaired", "||W||_F ||X||_F^2 <= R^3", names(below)),
        step("eq:lip_l_1, 2", "24 n^3.5 + 6 n^1.5 <= 30 n^3.5", ((n, 6 * n**2 <= 6 * n**4) for n in range(1, 9))),
        step(
            "eq:lip_l_2",
            "||lam (M - M~)||_F = lam ||M - M~||_F",
            names(
                lambda c: (
                    norm_sq(scaled(c[0].lam, minus(c[0].M, c[1].M))) == c[0].lam ** 2 * norm_sq(minus(c[0].M, c[1].M))
                )
            ),
        ),
    ]
