"""lem:lip_f_circ_c: F o c is 6 d n^1.5 R^3-Lipschitz."""

from collections.abc import Iterator

from proofs_check.steps.exact import Matrix, hadamard, minus, norm_sq, root_at_most_sum
from proofs_check.steps.instance import instance
from proofs_check.steps.record import Step, step

LABEL = "lem:lip_f_circ_c"
FAILING: tuple[str, ...] = ()


def pairs() -> Iterator[tuple[int, Matrix, Matrix, Matrix, Matrix]]:
    """n, F(M), c(M), F(M~), c(M~) with one f."""
    for seed, n in enumerate((1, 2, 3, 4, 5, 3)):
        here, there = instance(seed, n, 2, "any" if seed == 5 else "full"), instance(seed + 70, n, 2, "full")
        yield n, here.F, minus(here.F, here.f), there.F, minus(there.F, here.f)


def steps() -> list[Step]:
    cases = [(f"case {index}, n = {case[0]}", *case) for index, case in enumerate(pairs())]

    def triangle(F: Matrix, c: Matrix, G: Matrix, e: Matrix) -> bool:
        parts = minus(hadamard(F, c), hadamard(F, e)), minus(hadamard(F, e), hadamard(G, e))
        return root_at_most_sum(norm_sq(minus(hadamard(F, c), hadamard(G, e))), norm_sq(parts[0]), norm_sq(parts[1]))

    def products(F: Matrix, c: Matrix, G: Matrix, e: Matrix) -> bool:
        first = norm_sq(minus(hadamard(F, c), hadamard(F, e))) <= norm_sq(F) * norm_sq(minus(c, e))
        return first and norm_sq(minus(hadamard(F, e), hadamard(G, e))) <= norm_sq(e) * norm_sq(minus(F, G))

    return [
        step("1", "triangle inequality", ((name, triangle(*rest)) for name, _, *rest in cases)),
        step(
            "2",
            "<= ||F||_F ||c - c~||_F + ||c~||_F ||F - F~||_F",
            ((name, products(*rest)) for name, _, *rest in cases),
        ),
        step(
            "3",
            "||F||_F <= sqrt(n), ||c||_F <= 2 sqrt(n)",
            ((name, norm_sq(F) <= n and norm_sq(e) <= 4 * n) for name, n, F, _, _, e in cases),
        ),
        step(
            "4",
            "sqrt(n) 2 d n R^3 + 2 sqrt(n) 2 d n R^3 = 6 d n^1.5 R^3",
            ((d, 2 * d * n + 2 * 2 * d * n == 6 * d * n) for d in range(1, 4) for n in range(1, 4)),
        ),
    ]
