"""new:best_mask on one instance: of all 0/1 masks with `zeros` zeros none has an L_attn below share times that of M.

The masks are covered by leaves (`checker/leaves.py`), each mask by exactly one. Over the masks B of a leaf
z_ik - z_ij is linear in B, so that its extremes are sums of the smallest and of the largest open coefficients. From
    F_ij = 1 / (1 + sum over the other allowed k of exp(z_ik - z_ij))
F_ij lies between l_ij (all differences at their largest) and u_ij (all at their least), and |F_ij - f_ij| is at least
the distance of f_ij from [l_ij, u_ij]: L_attn(B) >= 1/2 sum_ij dist(f_ij, [l_ij, u_ij])^2 for every B of the leaf.
lhs = share L_attn(M); rhs is the least of these bounds over the leaves, that of M alone aside. With share = 1 M is
the best mask, the only one. share is at least 1/10, and L_attn(M) > 0: a bound of 0 says nothing.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.attention import attention_loss, exact_logits, hadamard, relative
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Interval, Number, bounds, enclose, hull, square, total
from proofs_check.checker.leaves import Differences, Leaf, differences, read_leaves
from proofs_check.checker.questions import Question, contains, decide, exact, less, precisions
from proofs_check.checker.reject import GaveUp, Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import short_matrix
from proofs_check.checker.statements.pl_inequality import require_named_mask

MOST_LEAVES = 2_000  # chosen: the committed certificates have at most 617
MOST_EXPONENTIALS = 40_000  # of all leaves together


def check(certificate: Document) -> str:
    require_claim(certificate, "confirmation", "lhs<rhs")
    named = require_reading(certificate, {"mask": ("full", "causal", "given")})["mask"]
    keys = ("n", "d", "X", "W", "mask", "zeros", "M", "share", "leaves")
    inputs = fields.closed(certificate["inputs"], keys, "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 6), fields.integer(inputs["d"], "inputs.d", 2, 6)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, M = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M"))
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, isinstance(inputs["mask"], list))
    zeros = fields.integer(inputs["zeros"], "inputs.zeros", 1, d * d - 1)
    share = fields.rational(inputs["share"], "inputs.share", 20)
    if not Fraction(1, 10) <= share <= 1:
        raise Reject("inputs.share must lie in [1/10, 1]")
    kept = [index for index, entry in enumerate(entry for row in M for entry in row) if entry == 1]
    if d * d - len(kept) != zeros or any(entry not in (0, 1) for row in M for entry in row):
        raise Reject("inputs.M must be a 0/1 mask with exactly inputs.zeros zeros")
    leaves = read_leaves(inputs["leaves"], d * d, zeros, MOST_LEAVES)
    rows = differences(X, W, mask)
    exponentials = 4 * sum(map(len, rows)) * len(leaves)
    if exponentials > MOST_EXPONENTIALS:
        raise GaveUp(f"more work than is allowed: {MOST_EXPONENTIALS} exponentials in all leaves")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    z, z_dense = (relative(exact_logits(X, E), mask) for E in (hadamard(M, W), W))
    others = [leaf for leaf in leaves if leaf.open or sorted(leaf.kept) != kept]

    def ask(bits: int) -> list[Question]:
        own = bounds(share * attention_loss(X, z, z_dense, bits).c_sq / 2)
        f = _dense(rows, d * d, bits)
        rest = hull((_bound(rows, f, leaf, bits) for leaf in others), largest=False)
        return [
            ("lhs encloses share L_attn(M)", contains(claimed["lhs"], own)),
            ("rhs encloses the least of the leaves' bounds", contains(claimed["rhs"], rest)),
            ("M prunes something that moves attention", less(exact(0), own)),
            ("lhs<rhs", less(own, rest)),
        ]

    decide(precisions(claimed.values(), 4 * exponentials, exponentials), ask)
    best = "is the best" if share == 1 else f"has at most {1 / share} times the least loss"
    return f"instance: M {best} of all {comb(d * d, zeros)} masks with {zeros} zeros, {len(leaves)} leaves"


def _floor(grown: Sequence[Number]) -> Number:
    """1 / (1 + sum of exponentials)."""
    return 1 / (Fraction(1) + total(grown))


def _entries(
    pairs: dict[tuple[int, int], Any], leaf: Leaf, bits: int, wanted: Sequence[bool]
) -> list[dict[int, Number]]:
    """F_ij of one row by j, all differences at their largest (True) or their least (False)."""
    grown: list[dict[int, list[Number]]] = [{} for _ in wanted]
    for (j, k), difference in pairs.items():
        low, high = difference.extremes(leaf)
        for largest, found in zip(wanted, grown, strict=True):
            found.setdefault(j, []).append(exponential(high if largest else low, bits))
            found.setdefault(k, []).append(exponential(-low if largest else -high, bits))
    return [{j: _floor(values) for j, values in found.items()} for found in grown]


def _dense(rows: Differences, size: int, bits: int) -> list[dict[int, Number]]:
    everything = Leaf(list(range(size)), [], 0)
    return [_entries(pairs, everything, bits, (True,))[0] for pairs in rows]


def _bound(rows: Differences, f: list[dict[int, Number]], leaf: Leaf, bits: int) -> Number:
    """1/2 sum_ij dist(f_ij, [l_ij, u_ij])^2."""
    result: Number = Fraction(0)
    for pairs, dense in zip(rows, f, strict=True):
        low, high = _entries(pairs, leaf, bits, (True, False))
        for j, entry in dense.items():
            gap = _larger(_interval(low[j] - entry, bits), _interval(entry - high[j], bits))
            result = result + square(gap)
    return result / 2


def _interval(number: Number, bits: int) -> Interval:
    return number if isinstance(number, Interval) else enclose(number, bits)


def _larger(one: Interval, other: Interval) -> Interval:
    """The larger of two numbers and 0."""
    return Interval(max(one.lo, other.lo, 0), max(one.hi, other.hi, 0), one.bits)
