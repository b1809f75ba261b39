"""lem:grad_loss_func: dL = sum (B_1 + B_2) + B_3."""

from fractions import Fraction

from proofs_check.steps.instance import StepInstance, instances
from proofs_check.steps.record import Step, step

LABEL = "lem:grad_loss_func"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    cases = [(x, i1, j1) for x in instances() for i1, j1 in x.entries]

    def summed(x: StepInstance, i1: int, j1: int) -> Fraction:
        return sum((x.B1(i, j, i1, j1) + x.B2(i, j, i1, j1) for i, j in x.positions), Fraction(0))

    def regulariser(x: StepInstance, i1: int, j1: int) -> bool:
        """(lam/2)((m + h)^2 - m^2) = h lam m + lam h^2 / 2."""
        m, h = x.M[i1][j1], Fraction(1, 997)
        return x.lam / 2 * ((m + h) ** 2 - m**2) == h * x.lam * m + x.lam * h * h / 2

    return [
        step(
            "2", "d(L_attn + L_reg) = dL_attn + dL_reg, dL_reg = lam M", ((str(x[0]), regulariser(*x)) for x in cases)
        ),
        step("3", "dL_attn = sum (B_1 + B_2)", ((str(x[0]), x[0].dL(*x[1:]) == summed(*x)) for x in cases)),
    ]
