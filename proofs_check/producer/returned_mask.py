"""Certificates for new:descent_mask_far_from_best: the descent in Arb, and a better mask with as many zeros."""

from collections.abc import Iterator
from fractions import Fraction

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, table, word
from proofs_check.producer.setting import Setting, point, start
from proofs_check.producer.stationary_point import over

BITS = 1024  # a step makes the balls several times as wide
STEPS, ETA, RHO = 100, Q(1, 23), Q(1, 2)
MAP_SQ = Q(7028, 100)
TIMES = 7  # seven, as the statement has it
X = [[-14, -11, -11, -3], [-19, -2, -8, 7], [8, 11, 6, 0], [7, 12, -5, 5], [0, 12, -7, -2], [3, 2, -13, 3]]
W = [[-1, -2, -1, 2], [-15, 12, -7, -18], [-1, 12, -4, 12], [12, -7, -20, -10]]
BEST = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1]]


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        for power in range(4):
            yield f"returned_mask-lambda-1e-{power}", _document(Q(1, 10**power))


def _document(lam: Fraction) -> Document:
    setting = Setting("ones", [1] * 4, over(X, 8), over(W, 16), lam, Q(0), Q(0), Q(1), Q(1), "causal")
    M = start(setting)
    for _ in range(STEPS):
        slope = point(setting, M).gradient
        M = [[m - ball(ETA) * g for m, g in zip(ms, gs, strict=True)] for ms, gs in zip(M, slope, strict=True)]
    entries = [entry for row in M for entry in row]
    order = sorted(range(16), key=lambda index: float(entries[index].mid()))
    zeros = int(RHO * 16)
    gap = entries[order[zeros]] - entries[order[zeros - 1]]
    found = [[int(4 * a + q in order[zeros:]) for q in range(4)] for a in range(4)]
    left, right = TIMES * _loss(setting, BEST), _loss(setting, found)
    if not (gap > 0 and left < right):
        raise ArithmeticError("the descent's mask is not decided, or not so far from the best")
    return certificate(
        "new:descent_mask_far_from_best",
        "confirmation",
        {"mask": "causal", "start": "ones"},
        {
            "n": len(X), "d": 4, "X": table(setting.B), "W": table(setting.W), "lambda": word(lam), "rho": word(RHO),
            "map_sq": word(MAP_SQ), "eta": word(ETA), "t": STEPS, "M": table(found), "N": table(BEST),
        },
        {},
        {"gap": enclosure(gap, 6), "lhs": enclosure(left), "rhs": enclosure(right)},
        "lhs<rhs",
        BITS,
    )  # fmt: skip


def _loss(setting: Setting, mask: list[list[int]]) -> arb:
    features, weights = balls(setting.B), balls(setting.W)
    F = b.attention(features, b.hadamard(balls(mask), weights), setting.allowed)
    return b.norm_sq(b.residual(F, b.attention(features, weights, setting.allowed))) / 2
