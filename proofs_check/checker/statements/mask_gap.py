"""new:certified_mask_gap on one instance: no 0/1 mask with `ones` ones has a divergence below share times that of M.

KL(M) = sum_i KL(f_i || F_i(M)), f = F(1), is convex in the logits, which are linear in M. With c = F(Y) - f and
G = W o (X^T c X) its tangent at Y gives for every mask B
    KL(B) >= KL(Y) + <G, B - Y> >= KL(Y) - <G, Y> + (the sum of the `ones` smallest entries of G) = rhs.
With D_ij the change of the logits a row's divergence is ln sum_j f_ij exp D_ij - sum_j f_ij D_ij, and 0 exactly where
all D_ij of its allowed positions are equal. lhs = share KL(M) > 0; share is at least 1/10.
"""

from collections.abc import Sequence
from fractions import Fraction

from proofs_check.checker import fields
from proofs_check.checker.attention import Mask, exact_logits, hadamard, relative, softmax_row
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, lower, total, upper
from proofs_check.checker.logarithm import logarithm
from proofs_check.checker.questions import Question, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import short_matrix
from proofs_check.checker.statements.pl_inequality import require_named_mask

MOST = 8
"""Tokens and features."""


def check(certificate: Document) -> str:
    require_claim(certificate, "confirmation", "lhs<rhs")
    named = require_reading(certificate, {"mask": ("full", "causal", "given")})["mask"]
    keys = ("n", "d", "X", "W", "mask", "ones", "M", "Y", "share")
    inputs = fields.closed(certificate["inputs"], keys, "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 2, MOST), fields.integer(inputs["d"], "inputs.d", 2, MOST)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, M, Y = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M", "Y"))
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, isinstance(inputs["mask"], list))
    ones = fields.integer(inputs["ones"], "inputs.ones", 1, d * d - 1)
    share = fields.rational(inputs["share"], "inputs.share", 20)
    if not Fraction(1, 10) <= share <= 1:
        raise Reject("inputs.share must lie in [1/10, 1]")
    entries = [entry for row in M for entry in row]
    if any(entry not in (0, 1) for entry in entries) or sum(entries) != ones:
        raise Reject("inputs.M must be a 0/1 mask with exactly inputs.ones ones")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    dense = exact_logits(X, W)
    changed, tangent = (exact_logits(X, hadamard(E, W)) for E in (M, Y))

    def ask(bits: int) -> list[Question]:
        f = [softmax_row(row, bits) for row in relative(dense, mask)]
        own = bounds(share * total(_divergences(f, dense, changed, mask, bits)))
        F = [softmax_row(row, bits) for row in relative(tangent, mask)]
        c = [[a - b for a, b in zip(one, other, strict=True)] for one, other in zip(F, f, strict=True)]
        G = _gradient(X, W, c)
        at = total(_divergences(f, dense, tangent, mask, bits)) - total(
            g * y for gs, ys in zip(G, Y, strict=True) for g, y in zip(gs, ys, strict=True)
        )
        flat = [g for gs in G for g in gs]
        floor = (
            lower(at) + sum(sorted(map(lower, flat))[:ones], Fraction(0)),
            upper(at) + sum(sorted(map(upper, flat))[:ones], Fraction(0)),
        )
        return [
            ("lhs encloses share KL(M)", contains(claimed["lhs"], own)),
            ("rhs encloses the least value of the tangent at Y", contains(claimed["rhs"], floor)),
            ("M prunes something that moves attention", less(exact(0), own)),
            ("lhs<rhs", less(own, floor)),
        ]

    decide(precisions(claimed.values(), 20 * n * n * d * d, 4 * n * n), ask)
    return f"instance: no mask with {ones} of {d * d} ones has less than {share} times the divergence of M"


def _divergences(
    f: Sequence[Sequence[Number]], dense: fields.Matrix, changed: fields.Matrix, mask: Mask, bits: int
) -> list[Number]:
    """KL(f_i || F_i) row by row."""
    found: list[Number] = []
    for weights, before, after, allowed in zip(f, dense, changed, mask, strict=True):
        D = [z - y for y, z, keep in zip(before, after, allowed, strict=True) if keep]
        kept = [weight for weight, keep in zip(weights, allowed, strict=True) if keep]
        top = max(D)
        if min(D) == top:
            continue
        mass = total(weight * exponential(change - top, bits) for weight, change in zip(kept, D, strict=True))
        along = total(weight * (change - top) for weight, change in zip(kept, D, strict=True))
        found.append(logarithm(mass, bits) - along)
    return found


def _gradient(X: fields.Matrix, W: fields.Matrix, c: Sequence[Sequence[Number]]) -> list[list[Number]]:
    """W o (X^T c X)."""
    d = len(W)
    pulled = [[total(e * x[b] for e, x in zip(row, X, strict=True) if x[b]) for b in range(d)] for row in c]
    return [
        [W[a][b] * total(x[a] * row[b] for x, row in zip(X, pulled, strict=True) if x[a]) for b in range(d)]
        for a in range(d)
    ]
