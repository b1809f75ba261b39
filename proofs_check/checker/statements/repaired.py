"""Two repaired statements on exact instances: a floor under the attention entries,
and pruning with a sparsity constraint.
"""

from fractions import Fraction
from itertools import combinations
from math import comb, floor

from proofs_check.checker import fields
from proofs_check.checker.attention import attention_loss, exact_logits, frobenius_sq, hadamard, relative, softmax
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, hull, square_root, total
from proofs_check.checker.questions import Question, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import short_matrix
from proofs_check.checker.statements.pl_inequality import require_named_mask

MOST_MASKS = 300  # chosen: the committed certificate compares 126, the halves of nine weights
_MASKS: dict[str, tuple[str, ...]] = {"mask": ("full", "causal", "given")}


def check_floor(certificate: Document) -> str:
    """fix:practical. F(M)_ij >= 1 / sum_k exp(d ||W o x_i (x_k - x_j)^T||_F) over allowed j, k, when ||M||_F <= d.

    Proof: F_ij = 1 / sum_k exp(z_ik - z_ij) and z_ik - z_ij = <W o x_i (x_k - x_j)^T, M>. lhs = min F(M), rhs = the
    least floor.
    """
    require_claim(certificate, "confirmation", "lhs>=rhs")
    named = require_reading(certificate, _MASKS)["mask"]
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "W", "M", "mask"), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 6), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, M = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M"))
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, isinstance(inputs["mask"], list))
    if frobenius_sq(M) > d * d:
        raise Reject("||M||_F must be at most d")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    z = relative(exact_logits(X, hadamard(M, W)), mask)
    pairs = [(i, j) for i in range(n) for j in range(n) if mask[i][j]]

    def reach(i: int, j: int, k: int, bits: int) -> Number:
        pull = ((w * X[i][a] * (X[k][q] - X[j][q])) ** 2 for a, row in enumerate(W) for q, w in enumerate(row))
        return d * square_root(sum(pull, Fraction(0)), bits)

    def ask(bits: int) -> list[Question]:
        F = softmax(z, bits)
        least = hull((F[i][j] for i, j in pairs), largest=False)
        masses = [total(exponential(reach(i, j, k, bits), bits) for k in range(n) if mask[i][k]) for i, j in pairs]
        lowest = hull((1 / mass for mass in masses), largest=False)
        return [
            ("lhs encloses min F(M)", contains(claimed["lhs"], least)),
            ("rhs encloses the floor", contains(claimed["rhs"], lowest)),
            ("the floor is positive", less(exact(0), lowest)),
            ("lhs>rhs: where both are equal no logit depends on M", less(lowest, least)),
        ]

    decide(precisions(claimed.values(), 0, 3 * n**3), ask)
    return f"instance: min F(M) is above the explicit floor ({named} mask)"


def check_best_mask(certificate: Document) -> str:
    """fix:attn_prun. Of all 0/1 masks with exactly floor(rho d^2) zeros, M has the least L_attn: lhs = L_attn(M) <
    rhs = the next best.
    """
    require_claim(certificate, "confirmation", "lhs<rhs")
    named = require_reading(certificate, _MASKS)["mask"]
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "W", "M", "mask", "rho"), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 6), fields.integer(inputs["d"], "inputs.d", 1, 4)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, M = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M"))
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, isinstance(inputs["mask"], list))
    rho = fields.rational(inputs["rho"], "inputs.rho", 20)
    if not 0 <= rho <= 1:
        raise Reject("inputs.rho must lie in [0, 1]")
    zeros = floor(rho * d * d)
    if not 2 <= comb(d * d, zeros) <= MOST_MASKS:
        raise Reject(f"2 to {MOST_MASKS} masks can be compared")
    pruned = tuple(index for index, entry in enumerate(entry for row in M for entry in row) if entry == 0)
    if len(pruned) != zeros or any(entry not in (0, 1) for row in M for entry in row):
        raise Reject("inputs.M must be a 0/1 mask with exactly floor(rho d^2) zeros")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    z_dense = relative(exact_logits(X, W), mask)

    def loss(chosen: tuple[int, ...], bits: int) -> Number:
        kept = [[Fraction(int(a * d + q not in chosen)) for q in range(d)] for a in range(d)]
        return attention_loss(X, relative(exact_logits(X, hadamard(kept, W)), mask), z_dense, bits).c_sq / 2

    def ask(bits: int) -> list[Question]:
        own = bounds(loss(pruned, bits))
        rest = hull(
            (loss(other, bits) for other in combinations(range(d * d), zeros) if other != pruned), largest=False
        )
        return [
            ("lhs encloses L_attn(M)", contains(claimed["lhs"], own)),
            ("rhs encloses the least L_attn of the other masks", contains(claimed["rhs"], rest)),
            ("M prunes something that moves attention", less(exact(0), own)),
            ("lhs<rhs", less(own, rest)),
        ]

    work = comb(d * d, zeros)
    decide(precisions(claimed.values(), work * (6 * n * n * d + 300), work * 3 * n * n), ask)
    return f"instance: the best of all {comb(d * d, zeros)} masks with {zeros} zeros"
