"""Misprints and one proof line."""

from fractions import Fraction

from proofs_check.checker import fields
from proofs_check.checker.attention import norm_sq
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.comparison import Comparison, Inputs, Sides, positive, sizes


def _printed_regulariser(inputs: Inputs, bits: int) -> Sides:
    """(1/2)(||M_Q||^2 + ||M_K||^2) as printed against lambda/2 of the same."""
    d, m = (fields.integer(inputs[key], f"inputs.{key}", 1, 16) for key in ("d", "m"))
    (lam,) = positive(inputs, "lambda")
    norms = norm_sq(fields.matrix(inputs["M_Q"], d, m, "inputs.M_Q")) + norm_sq(
        fields.matrix(inputs["M_K"], d, m, "inputs.M_K")
    )
    return lam / 2 * norms, norms / 2


def _dropped_sum(inputs: Inputs, bits: int) -> Sides:
    """lem:grad_rec's line without its double sum: rhs = sum over (i_0, j_0) of the term, lhs = its largest or
    smallest single term.

    F and f are free positive rows summing to 1; X = I and W_ij = log f_ij + k, M_ij = (log F_ij + k/2) / W_ij
    realise them in the box for large k.
    """
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 6), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X = fields.matrix(inputs["X"], n, d, "inputs.X")
    F, f = (fields.matrix(inputs[key], n, n, f"inputs.{key}") for key in ("F", "f"))
    if any(sum(row) != 1 or min(row) <= 0 for row in F + f):
        raise Reject("rows of F and f must be positive and sum to 1")
    w = fields.rational(inputs["W_entry"], "inputs.W_entry")
    a, b = (fields.integer(inputs[key], f"inputs.{key}", 0, d - 1) for key in ("i_1", "j_1"))
    terms = []
    for i in range(n):
        mean = sum((F[i][k] * X[k][b] for k in range(n)), Fraction(0))
        terms += [(F[i][j] - f[i][j]) * F[i][j] * w * X[i][a] * (X[j][b] - mean) for j in range(n)]
    total = sum(terms, Fraction(0))
    extreme = max(terms) if total > max(terms) else min(terms)
    if min(terms) <= total <= max(terms):
        raise Reject("the sum lies between the single terms here: take another instance")
    return (extreme, total) if total > extreme else (total, extreme)


def _not_conformable(inputs: Inputs, bits: int) -> Sides:
    """fac:calculus part 3, fourth line: Z X^T with Z (m x d) and X (n x m) needs d = m; here d < m."""
    m, d = sizes(inputs, "m", "d")
    return Fraction(d), Fraction(m)


PROOF_LINE = "a line of the proof"

COMPARISONS = {
    "eq:new_loss": (
        Comparison(
            "literal", ("d", "m", "M_Q", "M_K", "lambda"), _printed_regulariser, "the printed regulariser lacks lambda"
        ),
    ),
    "lem:grad_rec": (
        Comparison(
            PROOF_LINE,
            ("n", "d", "X", "F", "f", "W_entry", "i_1", "j_1"),
            _dropped_sum,
            "the proof's third line drops the double sum",
        ),
    ),
    "fac:calculus": (Comparison("part 3, line 4", ("m", "d"), _not_conformable, "Z X^T is not conformable"),),
}
