"""Certificates for new:best_mask: a mask found by exchanges of two entries, then leaves that prove it the best one.

The search fixes entries in the order of their influence on the logits and closes a node whose bound is above the
target. Sums are in integers, exponentials in Arb.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, enclosure, table, word

BITS = 128  # bits; chosen: the checker's first precision
OPEN = 2  # the mark of an entry that is not decided, beside 0 and 1


@dataclass(frozen=True)
class BestMaskCase:
    X: list[list[int]]
    """In eighths."""
    W: list[list[int]]
    """In eighths."""
    zeros: int
    mask: str = "causal"
    given: tuple[tuple[int, ...], ...] = ()
    share: Fraction = Fraction(1)

    @property
    def allowed(self) -> b.Mask:
        if self.given:
            return [[entry == 1 for entry in row] for row in self.given]
        return b.causal(len(self.X)) if self.mask == "causal" else b.full(len(self.X))

    @property
    def size(self) -> int:
        return len(self.W) ** 2

    def rationals(self, rows: list[list[int]]) -> list[list[Fraction]]:
        return [[Q(entry, 8) for entry in row] for row in rows]


def cases() -> Iterator[tuple[str, BestMaskCase]]:
    """Name of the file and its case."""
    yield (
        "four-features",
        BestMaskCase(
            [[-8, 6, 12, -10], [-4, -9, 3, 12], [2, 3, 8, 0], [-6, -9, 3, -12]],
            [[7, -12, 5, -10], [-6, -1, -11, -7], [-7, -9, -8, 9], [-6, -11, -8, 1]],
            8,
            "full",
        ),
    )
    yield (
        "four-features-causal",
        BestMaskCase(
            [[-8, 6, 12, -10], [-4, -9, 3, 12], [2, 3, 8, 0], [-6, -9, 3, -12]],
            [[7, -12, 5, -10], [-6, -1, -11, -7], [-7, -9, -8, 9], [-6, -11, -8, 1]],
            8,
        ),
    )
    yield (
        "four-features-given-mask",
        BestMaskCase(
            [[-11, -10, -10, -1], [-7, 11, 9, -3], [-4, 7, -6, 7], [-11, 6, 9, -7]],
            [[11, 12, 9, 9], [1, -6, 6, 7], [-9, -4, -1, -6], [-3, 9, -8, 12]],
            6,
            "given",
            given=((1, 1, 0, 0), (1, 1, 1, 0), (0, 1, 1, 1), (1, 0, 1, 1)),
        ),
    )
    yield (
        "five-features-causal",
        BestMaskCase(
            [[-8, 6, 12, -10, -4], [-9, 3, 12, 2, 3], [8, 0, -6, -9, 3], [-12, 0, 1, 7, 12]],
            [[-12, 5, -10, -6, -1], [-11, -7, -7, -9, -8], [9, -6, -11, -8, 1], [9, -3, 2, 12, 9], [-5, 10, 9, 10, -8]],
            12,
        ),
    )
    yield (
        "five-features-half",
        BestMaskCase(
            [[7, -4, 11, -1, 10], [11, 8, 4, -12, 2], [12, -5, 8, -11, -7]],
            [[-6, 4, 9, -10, -1], [-7, 3, 3, -3, 3], [-1, -4, -3, -5, 4], [-3, -7, 1, 7, -3], [2, 5, -10, 2, 6]],
            12,
            "full",
            share=Q(1, 2),
        ),
    )
    yield (
        "six-features-causal",
        BestMaskCase(
            [[-5, 6, 5, -8, -1, 7], [3, 8, 6, -10, 7, -12], [3, -4, 5, -5, -6, 10], [3, 5, 5, 3, 0, 8]],
            [
                [-4, -9, 12, -11, -3, -5],
                [-5, 10, 12, 7, 3, 2],
                [-3, 4, 11, 11, 7, 10],
                [9, 10, -6, -5, -12, 9],
                [-12, -11, 5, -2, 11, 2],
                [2, 3, -5, 7, -1, -7],
            ],
            30,
        ),
    )


class RowCoefficients:
    """Coefficients of z_k - z_j in the mask's entries by row with a choice, in units of 1/8^3."""

    def __init__(self, case: BestMaskCase) -> None:
        self.size, self.ones = case.size, case.size - case.zeros
        self.rows: list[dict[tuple[int, int], list[int]]] = []
        influence = [0] * self.size
        for x, allowed in zip(case.X, case.allowed, strict=True):
            tokens = [token for token, keep in zip(case.X, allowed, strict=True) if keep]
            pairs = {}
            for j, y in enumerate(tokens):
                for k, other in enumerate(tokens):
                    v = [
                        w * p * (r - q)
                        for p, ws in zip(x, case.W, strict=True)
                        for w, q, r in zip(ws, y, other, strict=True)
                    ]
                    if j != k:
                        pairs[j, k] = v
                    influence = [total + e * e for total, e in zip(influence, v, strict=True)]
            if pairs:
                self.rows.append(pairs)
        self.order = sorted(range(self.size), key=lambda index: (-influence[index], index))
        self.f = [self.entries(pairs, [1] * self.size, self.size, 1)[0] for pairs in self.rows]

    def entries(
        self, pairs: dict[tuple[int, int], list[int]], pattern: list[int], ones: int, ends: int = 2
    ) -> list[dict[int, arb]]:
        """F_ij by j: all differences at their largest, at their least."""
        left = ones - pattern.count(1)
        masses: list[dict[int, arb]] = [{} for _ in range(ends)]
        for (j, _), v in pairs.items():
            known = sum(value for value, mark in zip(v, pattern, strict=True) if mark == 1)
            free = sorted(value for value, mark in zip(v, pattern, strict=True) if mark == OPEN)
            extremes = known + sum(free[len(free) - left :]), known + sum(free[:left])
            for found, extreme in zip(masses, extremes, strict=False):
                found[j] = found.get(j, arb(1)) + arb(fmpq(extreme, 512)).exp()
        return [{j: 1 / mass for j, mass in found.items()} for found in masses]

    def bound(self, pattern: list[int]) -> arb:
        """1/2 sum_ij dist(f_ij, [l_ij, u_ij])^2."""
        total = arb(0)
        for pairs, f in zip(self.rows, self.f, strict=True):
            low, high = self.entries(pairs, pattern, self.ones)
            for j, entry in f.items():
                gap = (low[j] - entry).max(entry - high[j]).max(arb(0))
                total += gap * gap
        return total / 2

    def completed(self, pattern: list[int]) -> list[int]:
        """Return the node with its open entries filled in, if only one way is left."""
        left, free = self.ones - pattern.count(1), pattern.count(OPEN)
        if left in (0, free):
            return [int(left > 0) if mark == OPEN else mark for mark in pattern]
        return pattern

    def mask(self) -> tuple[list[int], arb]:
        """Improve the mask of the most influential entries by the best exchange of two entries while one helps."""
        best = [0] * self.size
        for index in self.order[: self.ones]:
            best[index] = 1
        value = self.bound(best)
        while True:
            found = None
            for kept in (index for index in range(self.size) if best[index] == 1):
                for pruned in (index for index in range(self.size) if best[index] == 0):
                    other = list(best)
                    other[kept], other[pruned] = 0, 1
                    loss = self.bound(other)
                    if loss < value:
                        found, value = other, loss
            if found is None:
                return best, value
            best = found

    def leaves(self, share: Fraction) -> tuple[list[int], arb, list[tuple[list[int], arb]]]:
        """The best mask, its loss, and leaves with bounds above share times that. A better mask starts it again."""
        best, loss = self.mask()
        while True:
            found = list(self._leaves(ball(share) * loss, best))
            last, bound = found[-1]
            if bound > ball(share) * loss or last == best:
                return best, loss, found
            if not bound < loss:
                raise ArithmeticError("two masks are equally good")
            best, loss = last, bound

    def _leaves(self, target: arb, best: list[int]) -> Iterator[tuple[list[int], arb]]:
        """Ends after a mask that is not above the target."""
        stack = [[OPEN] * self.size]
        while stack:
            pattern = self.completed(stack.pop())
            bound = self.bound(pattern)
            if bound > target or pattern == best:
                yield pattern, bound
                continue
            if OPEN not in pattern:
                yield pattern, bound
                return
            index = next(index for index in self.order if pattern[index] == OPEN)
            stack += [[*pattern[:index], bit, *pattern[index + 1 :]] for bit in (1, 0)]


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        for name, case in cases():
            yield f"best_mask-{name}", _document(case)


def _document(case: BestMaskCase) -> Document:
    problem, d = RowCoefficients(case), len(case.W)
    best, loss, leaves = problem.leaves(case.share)
    target = ball(case.share) * loss
    least = b.least([bound for pattern, bound in leaves if pattern != best])
    if not target < least:
        raise ArithmeticError("the leaves prove less")
    return certificate(
        "new:best_mask",
        "confirmation",
        {"mask": case.mask},
        {
            "n": len(case.X),
            "d": d,
            "X": table(case.rationals(case.X)),
            "W": table(case.rationals(case.W)),
            "mask": [[str(entry) for entry in row] for row in case.given] if case.given
            else None if case.mask == "full" else case.mask,
            "zeros": case.zeros,
            "M": table([best[a * d : (a + 1) * d] for a in range(d)]),
            "share": word(case.share),
            "leaves": ["".join("01*"[mark] for mark in pattern) for pattern, _ in leaves],
        },
        {},
        {"lhs": enclosure(target), "rhs": enclosure(least)},
        "lhs<rhs",
        BITS,
    )  # fmt: skip
