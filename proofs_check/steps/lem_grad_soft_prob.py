"""lem:grad_soft_prob: dF_{i0,j0}/dM = F_{i0,j0} W X X_{j0,j1} - F_{i0,j0} <F_{i0}, W X X_{*,j1}>,
from du~ = u~ o k by exact rationals.
"""

from collections.abc import Iterator
from fractions import Fraction

from proofs_check.steps.exact import dot
from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, step

LABEL = "lem:grad_soft_prob"
FAILING: tuple[str, ...] = ()

Place = tuple[StepInstance, int, int, int, int]


def places() -> Iterator[Place]:
    for x in instances():
        for i0, j0 in x.positions:
            for i1, j1 in x.entries:
                yield x, i0, j0, i1, j1


def first_term(place: Place) -> Fraction:
    """(d alpha^-1) (u~ o M_c)_{i0,j0}, with d alpha = sum of du~."""
    x, i0, j0, i1, j1 = place
    kept = [a * b for a, b in zip(x.u_tilde[i0], x.Mc[i0], strict=True)]
    return -kept[j0] * dot(kept, x.k(i0, i1, j1)) / x.alpha[i0] ** 2


def second_term(place: Place) -> Fraction:
    """d(u~ o M_c)_{i0,j0} alpha^-1."""
    x, i0, j0, i1, j1 = place
    return x.u_tilde[i0][j0] * x.k(i0, i1, j1)[j0] * x.Mc[i0][j0] / x.alpha[i0]


def steps() -> list[Step]:
    def derivative(p: Place) -> Fraction:
        return p[0].dF(p[1], p[3], p[4])[p[2]]

    def share(p: Place) -> Fraction:
        return p[0].F[p[1]][p[2]]

    def k(p: Place) -> list[Fraction]:
        return p[0].k(p[1], p[3], p[4])

    def named(p: Place) -> str:
        return f"{p[0]}, (i0, j0, i1, j1) = {p[1:]}"

    return [
        step(
            "eq:grad_prob",
            "dF = (d alpha^-1) u + alpha^-1 du",
            ((named(p), derivative(p) == first_term(p) + second_term(p)) for p in places()),
        ),
        step(
            "eq:grad_proB_1(M)",
            "(d alpha^-1) u = -F <F_{i0}, W X X_{*,j1}>",
            ((named(p), first_term(p) == -share(p) * dot(p[0].F[p[1]], k(p))) for p in places()),
        ),
        step(
            "eq:grad_proB_2(M)",
            "alpha^-1 du = F W X X_{j0,j1}",
            ((named(p), second_term(p) == share(p) * k(p)[p[2]]) for p in places()),
        ),
        step(
            "final",
            "dF = F k_{j0} - F <F_{i0}, k>",
            ((named(p), derivative(p) == share(p) * (k(p)[p[2]] - dot(p[0].F[p[1]], k(p)))) for p in places()),
        ),
    ]
