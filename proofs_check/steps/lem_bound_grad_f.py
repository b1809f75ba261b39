"""lem:bound_grad_f: ||d vec F / d vec M||_F <= 2 d n R^3. The displayed norm lacks the square."""

from fractions import Fraction

from proofs_check.steps.exact import dot, norm_sq
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, on, step

LABEL = "lem:bound_grad_f"
FAILING = ("second display, 1",)


def steps() -> list[Step]:
    cases = list(instances())

    def derivatives(x: StepInstance) -> list[Fraction]:
        return [entry for i in range(x.n) for i1, j1 in x.entries for entry in x.dF(i, i1, j1)]

    def R_sq(x: StepInstance) -> Fraction:
        return max(norm_sq(x.X), norm_sq(x.W), Fraction(2))

    def split(x: StepInstance) -> bool:
        for i in range(x.n):
            for i1, j1 in x.entries:
                k, F = x.k(i, i1, j1), x.F[i]
                if any(abs(D) > abs(f * s) + abs(f * dot(F, k)) for D, f, s in zip(x.dF(i, i1, j1), F, k, strict=True)):
                    return False
        return True

    def without_square(x: StepInstance) -> tuple[str, bool]:
        left, right = sum(e * e for e in derivatives(x)), sum(abs(e) for e in derivatives(x))
        return f"{x}: ||.||_F^2 = {left}, the displayed radicand {right}", left == right

    return [
        step("first display, 2", "|dF| <= |F k_{j0}| + |F <F_{i0}, k>|", on(cases, split)),
        step(
            "first display, 3", "<= 2 R^3", on(cases, lambda x: all(e * e <= 4 * R_sq(x) ** 3 for e in derivatives(x)))
        ),
        step("second display, 1", "||.||_F = sqrt(sum |dF|), without the square", (without_square(x) for x in cases)),
        step(
            "second display, 2",
            "||d vec F / d vec M||_F <= 2 n d R^3",
            on(cases, lambda x: sum(e * e for e in derivatives(x)) <= 4 * x.n**2 * x.d**2 * R_sq(x) ** 3),
        ),
    ]
