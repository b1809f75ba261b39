"""fac:mean_value: ||g(Y) - g(X)||_F <= R ||Y - X||_F when ||g'||_F <= R,
checked on polynomial maps where everything is exact.
"""

from fractions import Fraction

from proofs_check.steps.exact import Matrix, Q, Vector, apply, dot, matrices, norm_sq, transpose
from proofs_check.steps.record import Step, step

LABEL = "fac:mean_value"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    """h(x) = A (x_i^2)_i, so h'(x)^T = 2 A diag(x) and G(c) = (h(y) - h(x))^T h(c) is a quadratic: its mean point
    is the middle.
    """
    cases = []
    for A, points in zip(matrices(3, 2), matrices(2, 2, seed=5), strict=True):
        x, y = points
        hx, hy = (apply(A, [e * e for e in point]) for point in (x, y))
        gap, step_ = [b - a for a, b in zip(hx, hy, strict=True)], [b - a for a, b in zip(x, y, strict=True)]
        middle = [(a + b) / 2 for a, b in zip(x, y, strict=True)]
        jacobian = [[2 * entry * m for entry, m in zip(row, middle, strict=True)] for row in A]
        cases.append((A, x, y, gap, step_, jacobian, dot(gap, hy) - dot(gap, hx)))

    def chain(jacobian: Matrix, gap: Vector, step_: Vector) -> Fraction:
        return dot(apply(transpose(jacobian), gap), step_)

    triples = [(Q(a), Q(b), Q(R)) for a in range(4) for b in range(4) for R in range(1, 4)]
    return [
        step("2nd display, 1", "||g(Y) - g(X)||_F^2 = G(y) - G(x)", ((c[:3], dot(c[3], c[3]) == c[6]) for c in cases)),
        step(
            "2nd display, 2 and 3",
            "= (h'(x + t(y - x)) (h(y) - h(x)))^T (y - x) for some t",
            ((c[:3], c[6] == chain(c[5], c[3], c[4])) for c in cases),
        ),
        step(
            "2nd display, 4",
            "<= ||h'||_F ||h(y) - h(x)||_2 ||y - x||_2",
            ((c[:3], c[6] ** 2 <= norm_sq(c[5]) * dot(c[3], c[3]) * dot(c[4], c[4])) for c in cases),
        ),
        step(
            "end",
            "a^2 <= R a b gives a <= R b, also at a = 0",
            ((abR, abR[0] <= abR[2] * abR[1]) for abR in triples if abR[0] ** 2 <= abR[2] * abR[0] * abR[1]),
        ),
    ]
