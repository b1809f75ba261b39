"""Certificates for new:certified_mask_gap: a mask found by exchanges, and the point whose tangent bounds the others.

The point is searched in floats, by Frank and Wolfe's steps towards the least mask of the tangent, each to the best
place on its segment; its entries are then rounded to 1/4096, and everything is evaluated again in Arb.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, table, word

BITS = 128  # bits; chosen: the checker's first precision
STEPS = 400  # of Frank and Wolfe; chosen: any point proves a bound, a better one a larger bound
UNIT = 4096  # chosen: entries of the point are rounded to multiples of 1/4096, short fractions in the file


@dataclass(frozen=True)
class MaskGapCase:
    X: list[list[int]]
    """In eighths."""
    W: list[list[int]]
    """In sixteenths."""
    ones: int
    mask: str = "causal"
    given: tuple[tuple[int, ...], ...] = ()

    @property
    def allowed(self) -> b.Mask:
        if self.given:
            return [[entry == 1 for entry in row] for row in self.given]
        return b.causal(len(self.X)) if self.mask == "causal" else b.full(len(self.X))


FOUR = [[-8, 6, 12, -10], [-4, -9, 3, 12], [2, 3, 8, 0], [-6, -9, 3, -12], [5, 7, -2, 4], [9, -3, 1, 6]]
WEIGHTS = [[7, -12, 5, -10], [-6, -1, -11, -7], [-7, -9, -8, 9], [-6, -11, -8, 1]]


def cases() -> Iterator[tuple[str, MaskGapCase]]:
    """Name of the file and its case."""
    yield "four-features", MaskGapCase(FOUR, WEIGHTS, 6, "full")
    yield "four-features-causal", MaskGapCase(FOUR, WEIGHTS, 5)
    yield (
        "four-features-given-mask",
        MaskGapCase(FOUR[:4], WEIGHTS, 4, "given", ((1, 1, 0, 0), (1, 1, 1, 0), (0, 1, 1, 1), (1, 0, 1, 1))),
    )


class MaskDivergence:
    """The sum of the rows' divergences in floats, and its gradient, the mask as one list of entries."""

    def __init__(self, case: MaskGapCase) -> None:
        self.X = [[entry / 8 for entry in x] for x in case.X]
        self.W = [entry / 16 for row in case.W for entry in row]
        self.d, self.allowed = len(case.W), case.allowed
        self.dense = self.logits([1.0] * len(self.W))
        self.f = [_softmax(z) for z in self.dense]

    def logits(self, mask: list[float]) -> list[list[float]]:
        """Return the logits of the allowed positions, row by row."""
        d, V = self.d, [m * w for m, w in zip(mask, self.W, strict=True)]
        rows = []
        for x, allowed in zip(self.X, self.allowed, strict=True):
            query = [sum(x[p] * V[p * d + q] for p in range(d)) for q in range(d)]
            rows.append([_dot(query, y) for y, keep in zip(self.X, allowed, strict=True) if keep])
        return rows

    def value(self, mask: list[float]) -> float:
        total = 0.0
        for f, z, y in zip(self.f, self.logits(mask), self.dense, strict=True):
            D = [p - q for p, q in zip(z, y, strict=True)]
            total += math.log(sum(w * math.exp(e) for w, e in zip(f, D, strict=True))) - _dot(f, D)
        return total

    def gradient(self, mask: list[float]) -> list[float]:
        d, slope = self.d, [0.0] * len(self.W)
        for x, allowed, f, z in zip(self.X, self.allowed, self.f, self.logits(mask), strict=True):
            tokens = [y for y, keep in zip(self.X, allowed, strict=True) if keep]
            c = [p - q for p, q in zip(_softmax(z), f, strict=True)]
            pull = [sum(e * y[q] for e, y in zip(c, tokens, strict=True)) for q in range(d)]
            slope = [s + x[k // d] * pull[k % d] for k, s in enumerate(slope)]
        return [s * w for s, w in zip(slope, self.W, strict=True)]

    def relaxed(self, ones: int) -> list[float]:
        mask = [ones / len(self.W)] * len(self.W)
        for _ in range(STEPS):
            g = self.gradient(mask)
            least = sorted(range(len(g)), key=g.__getitem__)[:ones]
            step = [(1.0 if k in least else 0.0) - m for k, m in enumerate(mask)]
            low, high = 0.0, 1.0
            for _ in range(40):  # the slope along the segment changes its sign once
                middle = (low + high) / 2
                here = [m + middle * s for m, s in zip(mask, step, strict=True)]
                low, high = (middle, high) if _dot(self.gradient(here), step) < 0 else (low, middle)
            mask = [m + low * s for m, s in zip(mask, step, strict=True)]
        return mask

    def mask(self, start: list[float], ones: int) -> list[int]:
        """Improve the mask of the largest entries by the best exchange of two entries while one helps."""
        order = sorted(range(len(start)), key=lambda k: -start[k])
        best = [int(k in order[:ones]) for k in range(len(start))]
        value = self.value([float(m) for m in best])
        while True:
            found = None
            for kept in (k for k, m in enumerate(best) if m):
                for pruned in (k for k, m in enumerate(best) if not m):
                    other = [1 - m if k in (kept, pruned) else m for k, m in enumerate(best)]
                    divergence = self.value([float(m) for m in other])
                    if divergence < value * (1 - 1e-9):
                        found, value = other, divergence
            if found is None:
                return best
            best = found


def _dot(one: list[float], other: list[float]) -> float:
    return sum(p * q for p, q in zip(one, other, strict=True))


def _softmax(z: list[float]) -> list[float]:
    grown = [math.exp(entry) for entry in z]
    return [entry / sum(grown) for entry in grown]


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        for name, case in cases():
            yield f"mask_gap-{name}", _document(case)


def _divergence(f: b.Balls, X: b.Balls, change: b.Balls, allowed: b.Mask) -> arb:
    D = b.product(b.product(X, change), b.transpose(X))
    total = arb(0)
    for weights, row, keep in zip(f, D, allowed, strict=True):
        pairs = [(w, e) for w, e, seen in zip(weights, row, keep, strict=True) if seen]
        total += sum((w * e.exp() for w, e in pairs), arb(0)).log() - sum((w * e for w, e in pairs), arb(0))
    return total


def _document(case: MaskGapCase) -> Document:
    problem, d = MaskDivergence(case), len(case.W)
    point = problem.relaxed(case.ones)
    mask = problem.mask(point, case.ones)
    Y = [[Fraction(round(point[a * d + c] * UNIT), UNIT) for c in range(d)] for a in range(d)]
    M = [mask[a * d : (a + 1) * d] for a in range(d)]
    X, W = [[Q(e, 8) for e in row] for row in case.X], [[Q(e, 16) for e in row] for row in case.W]
    own, floor = _sides(case, X, W, M, Y)
    share = Fraction(math.floor(100 * float(floor / own)), 100)
    if not Fraction(1, 10) <= share <= 1 or not ball(share) * own < floor:
        raise ArithmeticError("the tangent proves too little")
    return certificate(
        "new:certified_mask_gap",
        "confirmation",
        {"mask": case.mask},
        {
            "n": len(case.X),
            "d": d,
            "X": table(X),
            "W": table(W),
            "mask": [[str(entry) for entry in row] for row in case.given] if case.given
            else None if case.mask == "full" else case.mask,
            "ones": case.ones,
            "M": table(M),
            "Y": table(Y),
            "share": word(share),
        },
        {},
        {"lhs": enclosure(ball(share) * own), "rhs": enclosure(floor)},
        "lhs<rhs",
        BITS,
    )  # fmt: skip


def _sides(
    case: MaskGapCase, X: list[list[Fraction]], W: list[list[Fraction]], M: list[list[int]], Y: list[list[Fraction]]
) -> tuple[arb, arb]:
    """KL(M), and the least value of the tangent at Y over the masks."""
    x, w, at = balls(X), balls(W), balls(Y)
    f = b.attention(x, w, case.allowed)
    changes = [b.hadamard([[e - 1 for e in row] for row in E], w) for E in (balls([list(map(Q, r)) for r in M]), at)]
    own, here = (_divergence(f, x, change, case.allowed) for change in changes)
    c = b.residual(b.attention(x, b.hadamard(at, w), case.allowed), f)
    G = b.attention_gradient(x, w, c)
    flat = sorted((g for row in G for g in row), key=lambda g: float(g.mid()))
    along = sum((b.dot(gs, ys) for gs, ys in zip(G, at, strict=True)), arb(0))
    return own, here - along + sum(flat[: case.ones], arb(0))
