"""lem:lower_bound_B_plus_M. Part 2 takes the square root of a number that may be negative."""

from fractions import Fraction

from proofs_check.steps.exact import Matrix, Q, inner, matrices, norm_sq, plus, root_at_most_sum, scaled
from proofs_check.steps.record import Step, step

LABEL = "lem:lower_bound_B_plus_M"
FAILING = ("part 2, 1",)


def steps() -> list[Step]:
    d = 3
    boxes = [[[abs(entry) / 2 for entry in row] for row in A] for A in matrices(d, d, seed=3)]
    cases = [
        (B, M, Q(k % 11, 10), _root_above(norm_sq(B)))
        for k, (B, M) in enumerate(zip(matrices(d, d), boxes, strict=True))
    ]
    zero = [[Q(0)] * d] * d
    cases.append((zero, zero, Q(1), Q(1)))  # ||B||_F <= R = 1, lam = 1: the radicand is -2 R lam d = -6

    def radicand(B: Matrix, M: Matrix, lam: Fraction, R: Fraction) -> Fraction:
        return norm_sq(B) + lam**2 * norm_sq(M) - 2 * R * lam * d

    def left(B: Matrix, M: Matrix, lam: Fraction, _: Fraction) -> Fraction:
        return norm_sq(plus(B, scaled(lam, M)))

    def second(B: Matrix, M: Matrix, lam: Fraction, R: Fraction) -> bool:
        """sqrt(S) <= sqrt(S - c) + sqrt(c), where S - c >= 0."""
        S, c = norm_sq(B) + lam**2 * norm_sq(M), 2 * R * lam * d
        return S < c or root_at_most_sum(S, S - c, c)

    return [
        step(
            "eq:convergence:add_squre, 1",
            "||B + lam M||^2 = ||B||^2 + lam^2 ||M||^2 + 2 <B, lam M>",
            (("", left(*c) == norm_sq(c[0]) + c[2] ** 2 * norm_sq(c[1]) + 2 * c[2] * inner(c[0], c[1])) for c in cases),
        ),
        step(
            "eq:convergence:add_squre, 2",
            "<B, lam M> >= -||B|| ||lam M||",
            (("", inner(c[0], c[1]) ** 2 <= norm_sq(c[0]) * norm_sq(c[1])) for c in cases),
        ),
        step(
            "eq:convergence:add_squre, 3",
            "||B|| <= R and ||M|| <= d",
            (("", norm_sq(c[0]) <= c[3] ** 2 and norm_sq(c[1]) <= d * d) for c in cases),
        ),
        step(
            "part 1",
            "||B + lam M||^2 >= ||B||^2 + lam^2 ||M||^2 - 2 R lam d",
            (("", left(*c) >= radicand(*c)) for c in cases),
        ),
        step(
            "part 2, 1",
            "the square root of the right side exists",
            (
                (
                    f"||B||^2 = {norm_sq(c[0])}, lam = {c[2]}, R = {c[3]}, d = {d}: radicand {radicand(*c)}",
                    radicand(*c) >= 0,
                )
                for c in reversed(cases)
            ),
        ),
        step("part 2, 2", "sqrt(S - c) >= sqrt(S) - sqrt(c) where S >= c", (("", second(*c)) for c in cases)),
        step(
            "part 2, 3",
            "sqrt(||B||^2 + lam^2 ||M||^2) >= (||B|| + lam ||M||)/sqrt 2",
            (
                (
                    "",
                    (norm_sq(c[0]) - c[2] ** 2 * norm_sq(c[1])) ** 2 >= 0
                    and _mean(norm_sq(c[0]), c[2] ** 2 * norm_sq(c[1])),
                )
                for c in cases
            ),
        ),
    ]


def _mean(p: Fraction, q: Fraction) -> bool:
    """(sqrt p + sqrt q)^2 <= 2 (p + q): 2 sqrt(p q) <= p + q."""
    return 4 * p * q <= (p + q) ** 2


def _root_above(square: Fraction) -> Fraction:
    root = Q(1)
    while root * root < square:
        root += 1
    return root
