"""new:certified_stationary_point on one instance: L = L_attn + (lambda/2) ||M||_F^2 has exactly one stationary point
within R of the centre, at most 2 sqrt(N/m) away, and gradient descent contracts towards it.

Space. Whole: M itself. Range: M = sum_k y_k D_k, D_k the matrices of the differences z_ij - z_i,first as functions of
M; they span the range of (Pi A)^*, off which L is (lambda/2) ||M||^2. Lengths are those of M: <y, P y>, P = D D^T.
Let g and H be gradient and Hessian of L at the centre on that space, m > 0 with H >= m P, N = <g, H^-1 g>,
K >= ||Pi A|| and k >= ||(Pi A)_i|| for every row, s the largest ||c_i|| of a row at the centre, and
    a = (51/200) k^2 K^2,  b = (3/5 + (51/100) s) k K^2,  R = m/(b + sqrt(b^2 + 2 a m)).
The proof (PROOFS.md, new:row_third_bound and new:certified_stationary_point). The third derivative of
1/2 ||softmax - f||^2 is at most 3/5 + (51/100) ||softmax - f|| along a direction of length 1, and ||c_i|| grows by at
most k r/2 over a distance r, so that within R the Hessian moves by at most (b + a R) R = m/2 and stays above H/2. On
the sphere ||x|| = R, <grad, x> >= |x|_H (|x|_H/2 - sqrt N), with |x|_H^2 = <x, H x> >= m R^2: positive where
4 N < m R^2. So the minimiser over the ball is inside it, stationary, alone, and |x|_H <= 2 sqrt N there. With
L = lambda + C_+ K^2, C_+ = (39 + 55 sqrt 33)/1152 (new:row_hessian), m/2 <= Hess <= L, and eta = 2/(m/2 + L) gives the
factor (L - m/2)/(L + m/2). lhs = 4 N, rhs = m R^2; m is the lower end of `modulus`, K^2 and k^2 the upper ends of
`map_sq` and `row_sq`.

Refused as saying nothing: lambda <= 0 (M = 1 is stationary for lambda = 0), an m of which attention's share
(m - lambda)/m is below a tenth, and lambda >= C_- K^2, C_- = (55 sqrt 33 - 39)/1152, where L is convex everywhere.
"""

from dataclasses import dataclass
from fractions import Fraction

from proofs_check.checker import fields
from proofs_check.checker.attention import Mask
from proofs_check.checker.definite import Symmetric, definite, gram, inverse_form, opposite, shifted
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, enclose, hull, square_root, total, upper
from proofs_check.checker.jets import Jet, row_jet
from proofs_check.checker.questions import Answer, Question, contains, decide, exact, less
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import short_matrix
from proofs_check.checker.statements.pl_inequality import require_named_mask

MOST_COORDINATES = 10  # chosen: the committed certificates have at most 9; LDL^T of intervals loses digits with each
QUANTITIES = ("modulus", "map_sq", "row_sq", "radius", "distance", "eta", "factor", "lhs", "rhs")


@dataclass(frozen=True)
class Space:
    """Logits as functions of the coordinates: z_ij = <slopes[i][j], y>; `dense` are those of M = 1."""

    mask: Mask
    slopes: list[list[list[Fraction]]]
    dense: list[list[Fraction]]
    basis: list[list[Fraction]]
    """D_k, entry by entry."""

    def metric(self, bits: int) -> list[list[Number]]:
        """P."""
        return gram(list(zip(*self.basis, strict=True)), bits)

    def rows(self, bits: int) -> list[list[list[Number]]]:
        """(Pi A)_i^* (Pi A)_i of every row."""
        return [gram(_centred(row, allowed), bits) for row, allowed in zip(self.slopes, self.mask, strict=True)]


def check(certificate: Document) -> str:
    require_claim(certificate, "confirmation", "lhs<rhs")
    reading = require_reading(certificate, {"mask": ("full", "causal", "given"), "space": ("whole", "range")})
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "W", "mask", "lambda", "centre"), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 12), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X, W = short_matrix(inputs["X"], n, d, "inputs.X"), short_matrix(inputs["W"], d, d, "inputs.W")
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(reading["mask"], mask, isinstance(inputs["mask"], list))
    lam = fields.rational(inputs["lambda"], "inputs.lambda", 20)
    if lam <= 0:
        raise Reject("inputs.lambda must be > 0: for 0 M = 1 is stationary")
    space = _space(X, W, mask, reading["space"])
    centre = fields.rationals(inputs["centre"], "inputs.centre", len(space.basis), 60)
    no_hypotheses(certificate)
    claimed = enclosures(certificate, QUANTITIES)
    for name in QUANTITIES[:3]:  # their ends are inputs, too
        fields.rationals(certificate["quantities"][name], f"quantities.{name}", 2, 60)
    m = claimed["modulus"][0]
    if m <= 0 or 10 * (m - lam) < m:
        raise Reject("attention's share of the modulus must be at least a tenth")
    if min(claimed["map_sq"]) <= 0 or min(claimed["row_sq"]) <= 0:
        raise Reject("map_sq and row_sq must be > 0")

    def ask(bits: int) -> list[Question]:
        return _questions(space, centre, lam, claimed, bits)

    decide((128, 256, 512, 1024), ask)
    where = "the whole space" if reading["space"] == "whole" else "the range of Pi A"
    return f"instance: one stationary point near the centre in {where}, n = {n}, d = {d}, {reading['mask']} mask"


def _space(X: fields.Matrix, W: fields.Matrix, mask: Mask, named: str) -> Space:
    d = len(W)
    slopes = [[[x[a] * W[a][b] * y[b] for a in range(d) for b in range(d)] for y in X] for x in X]
    dense = [[sum(slope, Fraction(0)) for slope in row] for row in slopes]
    if named == "whole":
        basis = [[Fraction(int(k == ab)) for ab in range(d * d)] for k in range(d * d)]
        _require_affordable(len(basis))
        return Space(mask, slopes, dense, basis)
    basis = []
    for row, allowed in zip(slopes, mask, strict=True):
        first, *rest = [slope for slope, keep in zip(row, allowed, strict=True) if keep]
        basis += [[p - q for p, q in zip(slope, first, strict=True)] for slope in rest]
    _require_affordable(len(basis))
    along = [[[_dot(slope, direction) for direction in basis] for slope in row] for row in slopes]
    return Space(mask, along, dense, basis)


def _require_affordable(coordinates: int) -> None:
    if not 1 <= coordinates <= MOST_COORDINATES:
        raise Reject(f"the space must have 1 to {MOST_COORDINATES} coordinates")


def _dot(one: list[Fraction], other: list[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(one, other, strict=True) if p and q), Fraction(0))


def _centred(row: list[list[Fraction]], allowed: list[bool]) -> list[list[Fraction]]:
    kept = [slope for slope, keep in zip(row, allowed, strict=True) if keep]
    means = [sum(column, Fraction(0)) / len(kept) for column in zip(*kept, strict=True)]
    return [[p - mean for p, mean in zip(slope, means, strict=True)] for slope in kept]


def map_is_below(X: fields.Matrix, W: fields.Matrix, mask: Mask, K_sq: Fraction, bits: int) -> Answer:
    """Report whether ||Pi A||^2 < K_sq."""
    slopes = [[[x[a] * w * y[b] for a, ws in enumerate(W) for b, w in enumerate(ws)] for y in X] for x in X]
    forms = [gram(_centred(row, allowed), bits) for row, allowed in zip(slopes, mask, strict=True)]
    size = range(len(W) ** 2)
    return _above(_sum(forms), [[Fraction(int(p == q)) for q in size] for p in size], K_sq)


def _sum(matrices: list[list[list[Number]]]) -> list[list[Number]]:
    size = range(len(matrices[0]))
    return [[total(matrix[p][q] for matrix in matrices) for q in size] for p in size]


def negated(answer: Answer) -> Answer:
    return None if answer is None else not answer


def _above(squares: Symmetric, P: Symmetric, t: Fraction) -> Answer:
    """Report whether t is above every eigenvalue of a form relative to P."""
    return definite(opposite(shifted(squares, P, t)))


def _questions(
    space: Space, centre: list[Fraction], lam: Fraction, claimed: dict[str, fields.Bounds], bits: int
) -> list[Question]:
    P, forms = space.metric(bits), space.rows(bits)
    whole = _sum(forms)
    (m, m_top), (K_low, K_sq), (k_low, k_sq) = (claimed[name] for name in ("modulus", "map_sq", "row_sq"))
    answers = [_above(form, P, k_sq) for form in forms]
    no_row_is_longer = False if False in answers else None if None in answers else True
    below = [negated(_above(form, P, k_low)) for form in forms]
    a_row_is_as_long = True if True in below else None if None in below else False
    C_plus, C_minus = ((55 * square_root(Fraction(33), bits) + sign * 39) / 1152 for sign in (1, -1))
    facts: list[Question] = [
        ("K^2 is below the upper end of map_sq", _above(whole, P, K_sq)),
        ("K^2 is not below the lower end of map_sq", negated(_above(whole, P, K_low))),
        ("k^2 is below the upper end of row_sq", no_row_is_longer),
        ("k^2 is not below the lower end of row_sq", a_row_is_as_long),
        ("L need not be convex: lambda < C_- K^2", less(exact(lam), bounds(C_minus * K_low))),
    ]
    rows = [
        row_jet([_dot(slope, centre) for slope in row], row, dense, allowed, bits)
        for row, dense, allowed in zip(space.slopes, space.dense, space.mask, strict=True)
    ]
    H, g = _derivatives(rows, P, centre, lam)
    facts += [
        ("H >= m on the space", definite(shifted(H, P, m))),
        ("the upper end of modulus is above the least eigenvalue", negated(definite(shifted(H, P, m_top)))),
    ]
    s_sq = hull((row.value for row in rows), largest=True)
    s = square_root(enclose(max(s_sq[0], Fraction(0)), bits), bits), square_root(enclose(s_sq[1], bits), bits)
    s_ends = bounds(s[0])[0], upper(s[1])
    k = square_root(k_sq, bits)
    a = Fraction(51, 200) * k_sq * K_sq
    radii = []
    for end in s_ends:  # R falls with s
        b = (Fraction(3, 5) + Fraction(51, 100) * end) * (k * K_sq)
        radii.append(bounds(m / (b + square_root(b * b + 2 * a * m, bits))))
    R = radii[1][0], radii[0][1]
    N = bounds(inverse_form(H, g))
    L = lam + C_plus * K_sq
    lhs, rhs = (4 * N[0], 4 * N[1]), (m * R[0] ** 2, m * R[1] ** 2)
    away = [bounds(2 * square_root(end / m, bits)) for end in N]
    return [
        *facts,
        ("radius encloses R", contains(claimed["radius"], R)),
        ("distance encloses 2 sqrt(N/m)", contains(claimed["distance"], (away[0][0], away[1][1]))),
        ("eta encloses 2/(m/2 + L)", contains(claimed["eta"], bounds(2 / (L + m / 2)))),
        ("factor", contains(claimed["factor"], bounds((L - m / 2) / (L + m / 2)))),
        ("lhs encloses 4 N", contains(claimed["lhs"], lhs)),
        ("rhs encloses m R^2", contains(claimed["rhs"], rhs)),
        ("lhs<rhs", less(lhs, rhs)),
    ]


def _derivatives(
    rows: list[Jet], P: list[list[Number]], centre: list[Fraction], lam: Fraction
) -> tuple[list[list[Number]], list[Number]]:
    """Hessian and gradient of L in the coordinates; the rows hold ||c_i||^2."""
    size = range(len(centre))
    half = Fraction(1, 2)
    H = [[total(half * row.second[min(p, q), max(p, q)] for row in rows) + lam * P[p][q] for q in size] for p in size]
    pull = [total(y * p for y, p in zip(centre, row, strict=True)) for row in P]
    return H, [total(half * row.first[p] for row in rows) + lam * pull[p] for p in size]
