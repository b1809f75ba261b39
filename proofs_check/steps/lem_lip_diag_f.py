"""lem:lip_diag_f: diag((F o c) 1) F is 24 d n^3.5 R^3-Lipschitz, by fac:lip_product."""

from proofs_check.steps.exact import Matrix, diag, hadamard, minus, norm_sq, root_at_most_sum, row_sums, times
from proofs_check.steps.lem_lip_f_circ_c import pairs
from proofs_check.steps.record import Step, step

LABEL = "lem:lip_diag_f"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    def product_rule(F: Matrix, c: Matrix, G: Matrix, e: Matrix) -> bool:
        """||A F - B G|| <= ||A|| ||F - G|| + ||A - B|| ||G||, which is below 2 max Lip R_1 R_2 as R_1, R_2 >= 1."""
        A, B = diag(row_sums(hadamard(F, c))), diag(row_sums(hadamard(G, e)))
        return root_at_most_sum(
            norm_sq(minus(times(A, F), times(B, G))),
            norm_sq(A) * norm_sq(minus(F, G)),
            norm_sq(minus(A, B)) * norm_sq(G),
        )

    return [
        step(
            "1",
            "product rule of fac:lip_product for two factors",
            ((f"case {i}", product_rule(*rest)) for i, (_, *rest) in enumerate(pairs())),
        ),
        step(
            "1, constants",
            "6 d n^1.5 R^3, listed for F, is above its constant 2 d n R^3; both bounds are >= 1",
            ((n, 36 * n**3 >= 4 * n**2 and n >= 1 and 2 * n >= 1) for n in range(1, 8)),
        ),
        step(
            "2",
            "2 6 d n^2 R^3 sqrt(n) 2 n = 24 d n^3.5 R^3",
            ((n, (2 * 6 * n**2 * 2 * n) ** 2 * n == 24**2 * n**7) for n in range(1, 8)),
        ),
    ]
