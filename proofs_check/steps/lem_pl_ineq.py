"""lem:PL_ineq. Three of its inequalities between squared norms lack the square of their constant.

With the squares all steps hold. Instances have X X^T >= beta I and min F >= delta > 0.

The first one, X = I/2, W = (1/10)[[1, -1], [-1, 1]], M = 0, is one of the paper: F = 1/2 exactly, and for
u = exp(X W X^T), as for the u shown, c is a multiple of [[-1, 1], [1, -1]]. Both sides of the failing steps are
quadratic in c, so the comparison is the same.
"""

from dataclasses import replace
from fractions import Fraction

from proofs_check.steps.exact import (
    Matrix,
    Q,
    hadamard,
    identity,
    largest,
    minus,
    norm_sq,
    plus,
    root_at_most_sum,
    row_sums,
    scaled,
    semidefinite,
    smallest,
    times,
    transpose,
)
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:PL_ineq"
FAILING = ("second display, 3", "second display, 4", "second display, 5", "second display, conclusion")


def cases() -> list[tuple[StepInstance, Fraction, Fraction]]:
    """The instance, beta, delta."""
    found = []
    for x in instances(full_only=True):
        if x.n <= x.d and smallest(x.W) > 0:
            beta = Q(1)
            while not semidefinite(minus(times(x.X, transpose(x.X)), scaled(beta, identity(x.n)))) and beta > Q(
                1, 10**6
            ):
                beta /= 2
            if beta > Q(1, 10**6):
                boxed = replace(x, M=[[abs(entry) / 2 for entry in row] for row in x.M])
                found.append((boxed, beta, smallest(x.F)))
    half, ones = scaled(Q(1, 2), identity(2)), [[Q(1)] * 2] * 2
    plain = StepInstance(
        99, 2, 2, half, scaled(Q(1, 10), [[Q(1), Q(-1)], [Q(-1), Q(1)]]), [[Q(0)] * 2] * 2, ones,
        [[Q(2), Q(1)], [Q(1), Q(2)]], ones, Q(0),
    )  # fmt: skip
    return [(plain, Q(1, 4), Q(1, 2)), *found]


def steps() -> list[Step]:
    every = cases()

    def Y(x: StepInstance) -> Matrix:
        return times(transpose(x.X), x.p, x.X)

    def G(x: StepInstance) -> Matrix:
        return hadamard(x.W, Y(x))

    def grad_sq(x: StepInstance) -> Fraction:
        return norm_sq(plus(G(x), scaled(x.lam, x.M)))

    def cap(x: StepInstance) -> Fraction:
        """(max|W| ||X||_F^2)^2."""
        return (largest(x.W) * norm_sq(x.X)) ** 2

    def cross(x: StepInstance) -> bool:
        """||G + lam M||^2 >= ||G||^2 + lam^2 ||M||^2 - alpha_1, alpha_1 = 6 sqrt(n) max|W| ||X||_F^2 lam d."""
        short = norm_sq(G(x)) + x.lam**2 * norm_sq(x.M) - grad_sq(x)
        return short <= 0 or short**2 <= 36 * x.n * cap(x) * (x.lam * x.d) ** 2

    def below(name: str, left: Fraction, right: Fraction, x: StepInstance) -> tuple[str, bool]:
        return f"{x}: {name}: {left} < {right}", left >= right

    def third(power: int) -> list[tuple[str, bool]]:
        return [below("||W o Y||^2", norm_sq(G(x)), smallest(x.W) ** power * norm_sq(Y(x)), x) for x, _, _ in every]

    def fourth(power: int) -> list[tuple[str, bool]]:
        return [below("||X^T p X||^2", norm_sq(Y(x)), beta**power * norm_sq(x.p), x) for x, beta, _ in every]

    def fifth(power: int) -> list[tuple[str, bool]]:
        return [below("||p||^2", norm_sq(x.p), delta**power * norm_sq(x.c), x) for x, _, delta in every]

    def whole(power: int) -> list[tuple[str, bool]]:
        """The inequality without the slack alpha_1 at lam = 0, as in the plain instance."""
        return [
            below("||grad L||^2", grad_sq(x), (smallest(x.W) * beta * delta) ** power * norm_sq(x.c), x)
            for x, beta, delta in every
            if x.lam == 0
        ]

    X = [x for x, _, _ in every]
    return [
        step("0", "c 1 = 0", on(X, lambda x: not any(row_sums(x.c)))),
        step(
            "first display, 1",
            "||W o Y|| <= max|W| ||Y||",
            on(X, lambda x: norm_sq(G(x)) <= largest(x.W) ** 2 * norm_sq(Y(x))),
        ),
        step(
            "first display, 2",
            "||X^T p X|| <= ||X||_F^2 ||p||",
            on(X, lambda x: norm_sq(Y(x)) <= norm_sq(x.X) ** 2 * norm_sq(x.p)),
        ),
        step(
            "first display, 3",
            "||p|| <= ||p_1|| + ||p_2||",
            on(X, lambda x: root_at_most_sum(norm_sq(x.p), norm_sq(x.p1), norm_sq(x.p2))),
        ),
        step("first display, 4", "||c o F|| <= ||c||", on(X, lambda x: norm_sq(x.p1) <= norm_sq(x.c))),
        step(
            "first display, 5",
            "||c|| <= 2 sqrt(n), ||p_2|| <= sqrt(n)",
            on(X, lambda x: norm_sq(x.c) <= 4 * x.n and norm_sq(x.p2) <= x.n),
        ),
        step("second display, 2", "||G + lam M||^2 >= ||G||^2 + lam^2 ||M||^2 - alpha_1", on(X, cross)),
        step("second display, 3", "||W o Y||^2 >= min|W| ||Y||^2", third(1)),
        step("second display, 4", "||X^T p X||^2 >= beta ||p||^2", fourth(1)),
        step("second display, 5", "||p||^2 >= delta ||c||^2", fifth(1)),
        step("second display, conclusion", "||grad L||^2 >= (min|W| beta delta) ||c||^2 at lambda = 0", whole(1)),
        step("second display, 3, repaired", "||W o Y||^2 >= min|W|^2 ||Y||^2", third(2)),
        step("second display, 4, repaired", "||X^T p X||^2 >= beta^2 ||p||^2", fourth(2)),
        step("second display, 5, repaired", "||p||^2 >= delta^2 ||c||^2", fifth(2)),
        step("conclusion, repaired", "||grad L||^2 >= (min|W| beta delta)^2 ||c||^2 at lambda = 0", whole(2)),
        step("last step", "xi = 2 alpha_1 / mu", ((n, 12 * n == 2 * 6 * n) for n in range(1, 4))),
    ]
