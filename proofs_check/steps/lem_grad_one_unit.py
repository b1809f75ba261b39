"""lem:grad_one_unit: dc_{i0,j0} = dF_{i0,j0}: f does not depend on M."""

from proofs_check.steps.exact import dot
from proofs_check.steps.instance import StepInstance
from proofs_check.steps.lem_grad_soft_prob import places
from proofs_check.steps.record import Step, step

LABEL = "lem:grad_one_unit"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    def same_change(x: StepInstance, i0: int, j0: int, i1: int, j1: int) -> bool:
        """f is constant, so c changes as F does when u~ moves along du~."""
        kept = [a * b for a, b in zip(x.u_tilde[i0], x.Mc[i0], strict=True)]
        moved = [a * (1 + k / 10**6) for a, k in zip(kept, x.k(i0, i1, j1), strict=True)]
        there = moved[j0] / sum(moved)
        return (there - x.f[i0][j0]) - x.c[i0][j0] == there - x.F[i0][j0]

    return [
        step("2", "d(F - f) = dF", ((f"{p[0]}, {p[1:]}", same_change(*p)) for p in places())),
        step(
            "3",
            "= F k_{j0} - F <F_{i0}, k>",
            (
                (
                    f"{p[0]}, {p[1:]}",
                    p[0].dF(p[1], p[3], p[4])[p[2]]
                    == p[0].F[p[1]][p[2]]
                    * (p[0].k(p[1], p[3], p[4])[p[2]] - dot(p[0].F[p[1]], p[0].k(p[1], p[3], p[4]))),
                )
                for p in places()
            ),
        ),
    ]
