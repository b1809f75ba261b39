"""lem:lower_bound_p_row: ||(b - <b, f> 1) o f||_2 >= delta ||b||_2 for b orthogonal to 1."""

from collections.abc import Iterator
from fractions import Fraction

from proofs_check.steps.exact import Q, Vector, dot
from proofs_check.steps.instance import instance
from proofs_check.steps.record import Step, step

LABEL = "lem:lower_bound_p_row"
FAILING: tuple[str, ...] = ()


def rows() -> Iterator[tuple[Vector, Vector, Fraction]]:
    """b, f, delta = min f; uniform f among them."""
    for seed, n in enumerate((1, 2, 3, 4, 5, 6)):
        x = instance(seed, n, 1)
        for i in range(n):
            yield x.c[i], x.F[i], min(x.F[i])
        yield x.c[0], [Q(1, n)] * n, Q(1, n)


def steps() -> list[Step]:
    cases = list(rows())

    def centred(b: Vector, f: Vector) -> Vector:
        return [entry - dot(b, f) for entry in b]

    def squares(v: Vector) -> Fraction:
        return dot(v, v)

    return [
        step("0", "<b, 1> = 0", (((b, f), sum(b) == 0) for b, f, _ in cases)),
        step(
            "1",
            "||(b - <b,f> 1) o f|| >= delta ||b - <b,f> 1||",
            (
                (
                    (b, f),
                    squares([x * y for x, y in zip(centred(b, f), f, strict=True)])
                    >= delta**2 * squares(centred(b, f)),
                )
                for b, f, delta in cases
            ),
        ),
        step(
            "2",
            "||b - <b,f> 1||^2 = ||b||^2 + ||<b,f> 1||^2",
            (((b, f), squares(centred(b, f)) == squares(b) + len(b) * dot(b, f) ** 2) for b, f, _ in cases),
        ),
        step("3", ">= ||b||^2", (((b, f), squares(b) + len(b) * dot(b, f) ** 2 >= squares(b)) for b, f, _ in cases)),
    ]
