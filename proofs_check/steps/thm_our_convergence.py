"""thm:our_convergence: its proof combines the (false) PL lemma with thm:convergence;
the bookkeeping of T and xi is right.
"""

from fractions import Fraction
from pathlib import Path

from proofs_check.checker import judge_file
from proofs_check.steps.exact import norm_sq
from proofs_check.steps.instance import instances
from proofs_check.steps.record import Step, on, step

LABEL = "thm:our_convergence"
FAILING = ("proxy PL inequality", "iterates in the box", "conclusion")
_CERTIFICATES = Path(__file__).resolve().parents[1] / "certificates"


def _unless_refuted(*names: str) -> list[tuple[str, bool]]:
    """A step fails when the checker accepts a certificate against it."""
    return [(f"certificates/{name}.json", not judge_file(_CERTIFICATES / f"{name}.json").accepted) for name in names]


def steps() -> list[Step]:
    numbers = [(n, Fraction(k, 7), Fraction(j, 5)) for n in (1, 2, 3) for k in (1, 3) for j in (1, 4)]

    def iterations(n: int, mu: Fraction, epsilon: Fraction) -> bool:
        """T = 2 eta^-1 (mu eps' / 2)^(-2/alpha) L(M_0) with alpha = 2 and eps' = n^2 eps, at eta = L(M_0) = 1."""
        return 2 / (mu * n**2 * epsilon / 2) == 4 / (mu * epsilon * n**2)

    return [
        step("non-negative", "L >= 0", on(instances(), lambda x: norm_sq(x.c) / 2 + x.lam / 2 * norm_sq(x.M) >= 0)),
        step(
            "proxy PL inequality",
            "L satisfies the (g, n^2 xi, 2, mu)-proxy PL inequality",
            _unless_refuted("PL_ineq-refutation-interior-mask", "PL_ineq-refutation-lambda-0"),
        ),
        step(
            "iterates in the box",
            "the lemma's M in [0,1]^(d x d) holds along gradient descent",
            _unless_refuted("mask_stays_in_box-refutation"),
        ),
        step(
            "T",
            "2/(eta mu n^2 eps / 2) L(M_0) = 4 L(M_0)/(eta mu eps n^2)",
            ((case, iterations(*case)) for case in numbers),
        ),
        step(
            "xi", "n^2 12 n^-1.5 = 12 sqrt(n), squared", ((n, (n**2 * 12) ** 2 == 144 * n * n**3) for n in range(1, 6))
        ),
        step(
            "scaling",
            "2 L_attn + (2 lam^2/mu) ||M||^2 <= n^2 (xi + eps), divided by 2 n^2, is the guarantee",
            ((case, Fraction(2, 2 * case[0] ** 2) == Fraction(1, case[0] ** 2)) for case in numbers),
        ),
        step(
            "conclusion",
            "the guarantee holds",
            _unless_refuted("our_convergence-refutation-from-zeros", "our_convergence-refutation-from-ones"),
        ),
    ]
