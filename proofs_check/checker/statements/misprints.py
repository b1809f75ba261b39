"""Misprints, an ill-posed definition and one proof line."""

from fractions import Fraction
from math import floor

from proofs_check.checker import fields
from proofs_check.checker.attention import attention_loss, exact_logits, hadamard, norm_sq, relative
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import bounds, total
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import (
    Comparison,
    Inputs,
    Sides,
    positive,
    require_movable,
    short_matrix,
    sizes,
)


def _printed_regulariser(inputs: Inputs, bits: int) -> Sides:
    """(1/2)(||M_Q||^2 + ||M_K||^2) as printed against lambda/2 of the same."""
    d, m = (fields.integer(inputs[key], f"inputs.{key}", 1, 16) for key in ("d", "m"))
    (lam,) = positive(inputs, "lambda")
    norms = norm_sq(short_matrix(inputs["M_Q"], d, m, "inputs.M_Q")) + norm_sq(
        short_matrix(inputs["M_K"], d, m, "inputs.M_K")
    )
    return lam / 2 * norms, norms / 2


def _dropped_sum(inputs: Inputs, bits: int) -> Sides:
    """lem:grad_rec's line without its double sum: rhs = sum over (i_0, j_0) of the term,
    lhs = its largest or smallest single term.

    F and f are free positive rows summing to 1. With X invertible and v = X^-1 1 free of zeros they are those of
    W = X^-1 (log f + k) X^-T and M o W = X^-1 (log F + k/2) X^-T, with M near 1/2 for a large constant k. All terms
    are proportional to W_{i1,j1}, so its value `W_entry` does not matter.
    """
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 6), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    F, f = (short_matrix(inputs[key], n, n, f"inputs.{key}") for key in ("F", "f"))
    if any(sum(row) != 1 or min(row) <= 0 for row in F + f):
        raise Reject("rows of F and f must be positive and sum to 1")
    if n != d or 0 in solution_for_ones(X):
        raise Reject("X must be square and invertible, and X v = 1 must have a solution without zeros")
    (w,) = positive(inputs, "W_entry")
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


def solution_for_ones(X: fields.Matrix) -> list[Fraction]:
    """The v with X v = 1; Reject if X is singular."""
    rows = [[*row, Fraction(1)] for row in X]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            raise Reject("X is singular")
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [p - rows[i][k] * q for p, q in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def _not_conformable(inputs: Inputs, bits: int) -> Sides:
    """fac:calculus part 3, fourth line: Z X^T with Z (m x d) and X (n x m) needs d = m; here d < m."""
    m, d = sizes(inputs, "m", "d")
    return Fraction(d), Fraction(m)


def _nothing_pruned(inputs: Inputs, bits: int) -> Sides:
    """Zeros of M = 1, where L_attn is exactly 0 and so least over the box, against the floor(rho d^2) zeros wanted."""
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 6), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X, W = short_matrix(inputs["X"], n, d, "inputs.X"), short_matrix(inputs["W"], d, d, "inputs.W")
    require_movable(X, W)
    rho = fields.rational(inputs["rho"], "inputs.rho", 20)
    if not 0 < floor(rho * d * d) < d * d:
        raise Reject("inputs.rho must prune something and keep something: 0 < floor(rho d^2) < d^2")
    ones = [[Fraction(1)] * d for _ in range(d)]
    mask = [[True] * n for _ in range(n)]
    z, z_dense = (relative(exact_logits(X, E), mask) for E in (hadamard(ones, W), W))
    if attention_loss(X, z, z_dense, bits).c_sq != 0:
        raise Reject("L_attn(1) is not exactly 0")
    return Fraction(sum(entry == 0 for row in ones for entry in row)), Fraction(floor(rho * d * d))


PROOF_LINE = "a line of the proof"


def check_regulariser(certificate: Document) -> str:
    """fix:new_loss. (lambda/2)(||M_Q||^2 + ||M_K||^2) = L_reg(M_Q) + L_reg(M_K), L_reg(M) = (1/2) lambda ||M||^2 as in
    def:reg_term.
    """
    require_claim(certificate, "confirmation", "lhs==rhs")
    require_reading(certificate, {"of": ("the regulariser",)})
    inputs = fields.closed(certificate["inputs"], ("d", "m", "M_Q", "M_K", "lambda"), "inputs")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    repaired, _ = _printed_regulariser(inputs, 0)
    d, m = (fields.integer(inputs[key], f"inputs.{key}", 1, 16) for key in ("d", "m"))
    (lam,) = positive(inputs, "lambda")
    masks = [short_matrix(inputs[key], d, m, f"inputs.{key}") for key in ("M_Q", "M_K")]
    if lam >= 1 or not all(any(map(any, mask)) for mask in masks):
        raise Reject("inputs.lambda must be below 1, where the misprint shows, and M_Q and M_K must not be 0")
    each = [lam * norm_sq(mask) / 2 for mask in masks]
    if repaired != total(each) or any(bounds(repaired) != claimed[side] for side in ("lhs", "rhs")):
        raise Reject("lhs and rhs must both be the exact value (lambda/2)(||M_Q||^2 + ||M_K||^2)")
    return "instance: with lambda the regulariser is def:reg_term's, once for each mask"


COMPARISONS = {
    "def:attn_prun": (
        Comparison(
            "minimum over the box",
            ("n", "d", "X", "W", "rho"),
            _nothing_pruned,
            "without a sparsity constraint M = 1, which prunes nothing, is optimal at lambda = 0",
        ),
    ),
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
