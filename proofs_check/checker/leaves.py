"""0/1 masks by patterns: d^2 characters, 0 and 1 for a fixed entry and * for one that is left open, row by row.

A leaf holds the masks with the wanted number of zeros that agree with its pattern. Leaves whose patterns differ
pairwise in an entry that both fix are disjoint; if they then hold as many masks as there are, every mask lies in
exactly one of them.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import comb, lcm
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.attention import Mask
from proofs_check.checker.reject import Reject


@dataclass(frozen=True)
class Leaf:
    """The entries that are kept for certain, those left open, and how many of these are kept."""

    kept: list[int]
    open: list[int]
    more: int


def read_leaves(value: Any, size: int, zeros: int, most: int) -> list[Leaf]:
    """The leaves, after it is certain that every mask with that many zeros lies in exactly one of them."""
    if not isinstance(value, list) or not 2 <= len(value) <= most:
        raise Reject(f"inputs.leaves must list 2 to {most} patterns")
    leaves, patterns, held = [], [], 0
    for pattern in value:
        if not isinstance(pattern, str) or len(pattern) != size or set(pattern) - set("01*"):
            raise Reject(f"a leaf must be a string of {size} characters 0, 1 and *")
        kept, pruned, free = (
            [index for index, character in enumerate(pattern) if character == wanted] for wanted in "10*"
        )
        left = zeros - len(pruned)
        masks = comb(len(free), left) if left >= 0 else 0
        if not masks:
            raise Reject("a leaf holds no mask with that many zeros")
        held += masks
        patterns.append((sum(1 << index for index in kept), sum(1 << index for index in pruned)))
        more = len(free) - left
        leaves.append(Leaf(kept + free, [], 0) if more == len(free) else Leaf(kept, free if more else [], more))
    for i, (kept_bits, pruned_bits) in enumerate(patterns):
        if not all(kept_bits & other[1] or pruned_bits & other[0] for other in patterns[:i]):
            raise Reject("two leaves hold the same mask")
    if held != comb(size, zeros):
        raise Reject(f"the leaves hold {held} of {comb(size, zeros)} masks")
    return leaves


@dataclass(frozen=True)
class Difference:
    """z_ik - z_ij = sum_ab v_ab B_ab / scale, v = W o x_i (x_k - x_j)^T over one denominator, and v's order."""

    v: list[int]
    scale: int
    order: list[int]

    def extremes(self, leaf: Leaf) -> tuple[Fraction, Fraction]:
        """The least and the largest value over the masks of a leaf: the smallest and the largest open coefficients."""
        v = self.v
        known = sum(v[index] for index in leaf.kept)
        if not leaf.more:
            return Fraction(known, self.scale), Fraction(known, self.scale)
        left = set(leaf.open)
        ranked = [v[index] for index in self.order if index in left]
        low, high = sum(ranked[: leaf.more]), sum(ranked[-leaf.more :])
        return Fraction(known + low, self.scale), Fraction(known + high, self.scale)


Differences = list[dict[tuple[int, int], Difference]]


def differences(X: fields.Matrix, W: fields.Matrix, mask: Mask) -> Differences:
    """Differences of logits by row with a choice, for allowed j < k."""
    result = []
    for x, allowed in zip(X, mask, strict=True):
        columns = [j for j, keep in enumerate(allowed) if keep]
        pairs = {(j, k): _difference(x, X[j], X[k], W) for j in columns for k in columns if j < k}
        if pairs:
            result.append(pairs)
    return result


def _difference(x: list[Fraction], y: list[Fraction], other: list[Fraction], W: fields.Matrix) -> Difference:
    exact = [w * p * (r - q) for p, ws in zip(x, W, strict=True) for w, q, r in zip(ws, y, other, strict=True)]
    scale = lcm(*(entry.denominator for entry in exact))
    v = [int(entry * scale) for entry in exact]
    return Difference(v, scale, sorted(range(len(v)), key=v.__getitem__))
