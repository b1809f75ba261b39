"""lem:lower_bound_hadamard: max|W| ||B||_F >= ||W o B||_F >= min|W| ||B||_F."""

from proofs_check.steps.exact import hadamard, largest, matrices, norm_sq, smallest
from proofs_check.steps.record import Step, step

LABEL = "lem:lower_bound_hadamard"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    cases = list(zip(matrices(3, 3), matrices(3, 3, seed=8), strict=True))
    return [
        step(
            "upper",
            "||W o B||^2 <= max|W|^2 ||B||^2",
            (((W, B), norm_sq(hadamard(W, B)) <= largest(W) ** 2 * norm_sq(B)) for W, B in cases),
        ),
        step(
            "lower",
            "||W o B||^2 >= min|W|^2 ||B||^2",
            (((W, B), norm_sq(hadamard(W, B)) >= smallest(W) ** 2 * norm_sq(B)) for W, B in cases),
        ),
    ]
