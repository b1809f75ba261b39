"""Certificates for new:certified_stationary_point: Newton's method in Arb, eigenvalues by bisection with LDL^T."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, arb_mat

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, exact_ends, table, word, words

BITS = 256  # bits; chosen: twice the checkers' first precision


@dataclass(frozen=True)
class StationaryCase:
    X: list[list[Fraction]]
    W: list[list[Fraction]]
    lam: Fraction
    mask: str = "full"
    space: str = "whole"
    given: tuple[tuple[int, ...], ...] = ()
    start: tuple[float, ...] = ()
    """Where Newton's method begins; by default at M = 1."""
    digits: int = 12
    """Decimals of the centre that is kept."""

    @property
    def allowed(self) -> b.Mask:
        if self.given:
            return [[entry == 1 for entry in row] for row in self.given]
        return b.causal(len(self.X)) if self.mask == "causal" else b.full(len(self.X))


def cases() -> Iterator[tuple[str, StationaryCase]]:
    """Name of the file and its case: more tokens than features, where the space is all M; fewer, where it is not."""
    five = ((1, 1, 0, 0, 1), (1, 1, 1, 0, 0), (0, 1, 1, 1, 0), (1, 0, 1, 1, 1), (1, 1, 1, 1, 1))
    near, far = Q(1, 100), (0.1159488534, 0.2368410716, -0.3210097236, 0.2168730488)
    yield "four-tokens", StationaryCase(over([[4, 5], [-7, 0], [8, 7], [4, 1]], 4), over([[6, -3], [3, -5]], 8), near)
    yield (
        "six-tokens-causal",
        StationaryCase(
            over([[-4, -6], [0, -5], [7, 6], [7, 4], [-2, -5], [7, -8]], 4),
            over([[7, -8], [4, -6]], 8),
            near,
            "causal",
        ),
    )
    yield (
        "seven-tokens",
        StationaryCase(
            over([[4, 5, -7], [0, 8, 7], [4, 1, 7], [3, -2, 8], [-4, 1, -4], [-5, 0, -4], [1, -5, -6]], 4),
            over([[8, -6, 6], [-8, 5, -1], [-7, -8, 4]], 8),
            Q(1, 1000),
        ),
    )
    yield (
        "five-tokens-given-mask",
        StationaryCase(
            over([[-1, -4], [3, 7], [-6, -8], [7, 0], [-1, -2]], 4),
            over([[8, 3], [-3, 1]], 8),
            Q(1, 1000),
            "given",
            given=five,
        ),
    )
    spurious = StationaryCase(
        over([[-2, -1], [1, 3], [-2, -2], [2, 0]], 1), over([[-3, 3], [2, -3]], 1), Q(1, 1000), start=far
    )
    yield "four-tokens-far-from-ones", spurious
    two = StationaryCase(over([[-4, -6], [0, -5]], 4), over([[8, 7], [-2, 1]], 8), near, space="range", digits=3)
    yield "two-tokens-range", two
    yield (
        "three-tokens-causal-range",
        StationaryCase(
            over([[4, 5, -7, 0], [8, 7, 4, 1], [7, 3, -2, 8]], 4),
            over([[-5, -2, 3, 2], [-6, 2, 7, 4], [8, 1, -2, 1], [6, -6, -4, -4]], 8),
            near,
            "causal",
            "range",
        ),
    )


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        for name, case in cases():
            yield f"stationary_point-{name}", document(case)


def over(rows: list[list[int]], unit: int) -> list[list[Fraction]]:
    return [[Q(entry, unit) for entry in row] for row in rows]


class Coordinates:
    """L in coordinates y of the space, M = sum_k y_k D_k, from closed forms in the centred logits."""

    def __init__(self, case: StationaryCase) -> None:
        d = len(case.W)
        self.lam = ball(case.lam)
        slopes = [
            [
                [x[a] * case.W[a][q] * y[q] for a in range(d) for q in range(d)]
                for y, keep in zip(case.X, allowed, strict=True)
                if keep
            ]
            for x, allowed in zip(case.X, case.allowed, strict=True)
        ]
        if case.space == "whole":
            basis = b.identity(d * d)
        else:
            basis = [[p - q for p, q in zip(slope, row[0], strict=True)] for row in slopes for slope in row[1:]]
        self.basis = balls(basis)
        self.metric = b.product(self.basis, b.transpose(self.basis))
        self.rows = [b.product(balls(row), b.transpose(self.basis)) for row in slopes]
        self.dense = [[ball(sum(slope, Q(0))) for slope in row] for row in slopes]
        self.forms = [b.product(b.transpose(centred), centred) for centred in map(_centred, self.rows)]

    def at(self, y: list[Fraction]) -> tuple[arb, b.Balls, list[arb]]:
        """The largest ||c_i||, Hessian and gradient."""
        point = [[ball(entry)] for entry in y]
        pull = [entry[0] * self.lam for entry in b.product(self.metric, point)]
        bend = [[self.lam * entry for entry in row] for row in self.metric]
        residual = arb(0)
        for row, dense in zip(self.rows, self.dense, strict=True):
            F, f = (_softmax(z) for z in ([entry[0] for entry in b.product(row, point)], dense))
            c = [p - q for p, q in zip(F, f, strict=True)]
            residual = residual.max(b.dot(c, c))
            mean = b.dot(c, F)
            g = [p * (q - mean) for p, q in zip(F, c, strict=True)]
            J = [[p * (int(j == k) - q) for k, q in enumerate(F)] for j, p in enumerate(F)]
            H = [
                [entry + int(j == k) * g[j] - F[j] * g[k] - g[j] * F[k] for k, entry in enumerate(line)]
                for j, line in enumerate(b.product(J, J))
            ]
            part = b.product(b.product(b.transpose(row), H), row)
            bend = [[p + q for p, q in zip(ps, qs, strict=True)] for ps, qs in zip(bend, part, strict=True)]
            pull = [p + q[0] for p, q in zip(pull, b.product(b.transpose(row), [[e] for e in g]), strict=True)]
        return residual.sqrt(), bend, pull

    def start(self) -> list[Fraction]:
        """The coordinates of the part of M = 1 that lies in the space."""
        ones = [[sum(row, arb(0))] for row in self.basis]
        return _rounded(arb_mat(self.metric).solve(arb_mat(ones)).entries())


def _rounded(numbers: list[arb], digits: int = 30) -> list[Fraction]:
    return [Q(round(exact_ends(number.mid())[0] * 10**digits), 10**digits) for number in numbers]


def _softmax(z: list[arb]) -> list[arb]:
    top = max(float(entry.mid()) for entry in z)
    weights = [(entry - top).exp() for entry in z]
    mass = sum(weights, arb(0))
    return [weight / mass for weight in weights]


def _centred(row: b.Balls) -> b.Balls:
    means = [sum(column, arb(0)) / len(row) for column in b.transpose(row)]
    return [[p - mean for p, mean in zip(slope, means, strict=True)] for slope in row]


def _definite(a: b.Balls) -> bool:
    """Return True where all pivots of LDL^T are positive."""
    a = [list(row) for row in a]
    for k in range(len(a)):
        if not a[k][k] > 0:
            return False
        for i in range(k + 1, len(a)):
            share = a[i][k] / a[k][k]
            for j in range(k + 1, len(a)):
                a[i][j] -= share * a[k][j]
    return True


def least(a: b.Balls, metric: b.Balls, digits: int = 9) -> list[Fraction]:
    """The least t with A - t P singular, enclosed by bisection from below and above."""

    def below(t: Fraction) -> bool:
        return _definite(
            [[x - ball(t) * p for x, p in zip(xs, ps, strict=True)] for xs, ps in zip(a, metric, strict=True)]
        )

    high = Q(1)
    while below(high):
        high *= 2
    low = high / 2
    while not below(low):
        low = low / 2 if low > 0 else 2 * low
        if 0 < low < Q(1, 10**9):
            low = -high
    while high - low > abs(high) / 10**digits:
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    unit = Q(10) ** (len(str(int(1 / abs(high)))) + digits)
    return [Q(low * unit // 1) / unit, -Q(-high * unit // 1) / unit]


def largest(a: b.Balls, metric: b.Balls) -> list[Fraction]:
    low, high = least([[-x for x in row] for row in a], metric)
    return [-high, -low]


def _newton(space: Coordinates, start: list[Fraction], digits: int) -> list[Fraction]:
    y = start
    for _ in range(14):
        _, H, g = space.at(y)
        step = arb_mat(H).solve(arb_mat([[entry] for entry in g])).entries()
        y = _rounded([ball(old) - new for old, new in zip(y, step, strict=True)])
    return [Q(round(entry * 10**digits), 10**digits) for entry in y]


def document(case: StationaryCase) -> Document:
    space = Coordinates(case)
    y = _newton(space, [Q(str(entry)) for entry in case.start] if case.start else space.start(), case.digits)
    s, H, g = space.at(y)
    whole = space.forms[0]
    for form in space.forms[1:]:
        whole = [[p + q for p, q in zip(ps, qs, strict=True)] for ps, qs in zip(whole, form, strict=True)]
    modulus, map_sq = least(H, space.metric), largest(whole, space.metric)
    row_sq = max((largest(form, space.metric) for form in space.forms if _moves(form)), key=lambda ends: ends[1])
    m, K_sq, k_sq = ball(modulus[0]), ball(map_sq[1]), ball(row_sq[1])
    bend = ball(Q(51, 200)) * k_sq * K_sq
    slope = (ball(Q(3, 5)) + ball(Q(51, 100)) * s) * k_sq.sqrt() * K_sq
    R = m / (slope + (slope * slope + 2 * bend * m).sqrt())
    N = b.dot(g, arb_mat(H).solve(arb_mat([[entry] for entry in g])).entries())
    N = arb(0).max(N)
    top = ball(case.lam) + (39 + 55 * arb(33).sqrt()) / 1152 * K_sq
    if not (4 * N < m * R * R and ball(case.lam) < (55 * arb(33).sqrt() - 39) / 1152 * ball(map_sq[0])):
        raise ArithmeticError("no stationary point is proved, or the loss is convex everywhere")
    return certificate(
        "new:certified_stationary_point",
        "confirmation",
        {"mask": case.mask, "space": case.space},
        {
            "n": len(case.X),
            "d": len(case.W),
            "X": table(case.X),
            "W": table(case.W),
            "mask": [[str(entry) for entry in row] for row in case.given] if case.given
            else None if case.mask == "full" else case.mask,
            "lambda": word(case.lam),
            "centre": words(y),
        },
        {},
        {
            "modulus": words(modulus),
            "map_sq": words(map_sq),
            "row_sq": words(row_sq),
            "radius": enclosure(R),
            "distance": enclosure(2 * (N / m).sqrt()),
            "eta": enclosure(2 / (m / 2 + top)),
            "factor": enclosure((top - m / 2) / (top + m / 2)),
            "lhs": enclosure(4 * N),
            "rhs": enclosure(m * R * R),
        },
        "lhs<rhs",
        BITS,
    )  # fmt: skip


def _moves(form: b.Balls) -> bool:
    return any(entry > 0 for entry in (form[k][k] for k in range(len(form))))
