"""new:spurious_minima: n > d, lambda = 0, and a strict local minimum of L_attn with L_attn > 0 = L_attn(1),
so no PL constant mu > 0 exists.

The proof on one instance. Let m be the centre and B the box of entries m_ab +- radius. If Hess L_attn >= curvature
I on B and ||grad L_attn(m)||_F < curvature radius / 2, then on the sphere ||M - m||_F = radius, which lies in B,
    L_attn(M) >= L_attn(m) - ||grad L_attn(m)|| radius + (curvature / 2) radius^2 > L_attn(m),
so the ball holds a minimiser M* in its interior: a stationary point, strict because L_attn is strictly convex
there. lhs encloses L_attn(M*). At M*, ||grad L_attn||^2 = 0 < (mu/2) ||c||^2 for every mu > 0.
"""

from fractions import Fraction
from math import lcm
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Interval, Number, bounds, enclose, lower, square_root, total, upper
from proofs_check.checker.interval import square as squared
from proofs_check.checker.jets import attention_jet, certainly_above
from proofs_check.checker.pivots import ldl_pivots
from proofs_check.checker.questions import Question, contains, decide, exact, less
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.pl_inequality import require_named_mask


def check(certificate: Document) -> str:
    reading = fields.closed(certificate["reading"], ("mask", "domain"), "reading")
    named = fields.choice(reading["mask"], ("full", "causal", "given"), "reading.mask")
    domain = fields.choice(reading["domain"], ("ball", "box"), "reading.domain")
    claim = fields.closed(certificate["claim"], ("relation",), "claim")
    if certificate["kind"] != "confirmation" or claim["relation"] != "lhs>rhs":
        raise Reject("this statement has the kind 'confirmation' and the relation 'lhs>rhs'")
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "W", "mask", "M", "radius"), "inputs")
    n = fields.integer(inputs["n"], "inputs.n", 2, 12)
    d = fields.integer(inputs["d"], "inputs.d", 1, 3)
    X, W = fields.matrix(inputs["X"], n, d, "inputs.X"), fields.matrix(inputs["W"], d, d, "inputs.W")
    M = fields.matrix(inputs["M"], d, d, "inputs.M")
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, isinstance(inputs["mask"], list))
    radius = fields.rational(inputs["radius"], "inputs.radius", 60)
    if n <= d or any(entry == 0 for row in W for entry in row):
        raise Reject("this statement needs n > d and no zero in W")
    if any(max(abs(e.numerator), e.denominator) > 10**60 for A in (X, W, M) for row in A for e in row):
        raise Reject("entries of X, W and M have at most 60 digits here")
    if not 0 < radius <= 1:
        raise Reject("inputs.radius must lie in (0, 1]")
    hypotheses = fields.closed(certificate["hypotheses"], ("gram_pivots",), "hypotheses")
    _require_full_rank(X, hypotheses["gram_pivots"])
    _require_domain(M, radius, domain, d)
    quantities = fields.closed(certificate["quantities"], ("curvature", "gradient_norm", "lhs", "rhs"), "quantities")
    claimed = {name: fields.enclosure(quantities[name], f"quantities.{name}") for name in quantities}
    curvature = claimed["curvature"][0]
    if claimed["rhs"] != exact(0):
        raise Reject("rhs is L_attn(1) = 0")

    def ask(bits: int) -> list[Question]:
        centre = attention_jet(X, W, M, mask, bits)
        norm = square_root(total(squared(slope) for slope in centre.first), bits)
        around = attention_jet(X, W, _box(M, radius, bits), mask, bits)
        least, most = lower(centre.value) - upper(norm) * radius, upper(centre.value)  # by convexity on the ball
        convex = certainly_above(around.second, d * d, curvature) and curvature > 0
        smallest = min(upper(centre.second[s, s]) for s in range(d * d))  # a diagonal entry is above the least one
        return [
            ("Hess L_attn >= curvature I on the box", True if convex else None),
            (
                "the upper end of curvature is above the least eigenvalue",
                True if claimed["curvature"][1] >= smallest else None,
            ),
            ("||grad L_attn(m)|| < curvature radius / 2", less(bounds(norm), exact(curvature * radius / 2))),
            ("gradient_norm", contains(claimed["gradient_norm"], bounds(norm))),
            ("lhs encloses L_attn(M*)", contains(claimed["lhs"], (least, most))),
            ("lhs>rhs", True if least > 0 else None),
        ]

    decide((128, 256, 512, 1024), ask)
    return f"instance: a spurious strict local minimum in the {domain}, n = {n} > d = {d}, {named} mask"


def _box(M: fields.Matrix, radius: Fraction, bits: int) -> list[list[Number]]:
    return [[_around(entry, radius, bits) for entry in row] for row in M]


def _around(entry: Fraction, radius: Fraction, bits: int) -> Interval:
    return Interval(enclose(entry - radius, bits).lo, enclose(entry + radius, bits).hi, bits)


def _require_full_rank(X: fields.Matrix, listed: Any) -> None:
    """X^T X > 0: only n > d, not a degenerate X, stands between this instance and the PL lemma."""
    d = len(X[0])
    gram = [[sum((x[a] * x[b] for x in X), Fraction(0)) for b in range(d)] for a in range(d)]
    scale = lcm(*(entry.denominator for row in gram for entry in row))
    pivots = [pivot / scale for pivot in ldl_pivots([[int(entry * scale) for entry in row] for row in gram])]
    if pivots != fields.rationals(listed, "hypotheses.gram_pivots", d, fields.RESULT_DIGITS):
        raise Reject("gram_pivots are not the pivots of LDL^T of X^T X")
    if min(pivots) <= 0:
        raise Reject("X^T X is not positive definite")


def _require_domain(M: fields.Matrix, radius: Fraction, domain: str, d: int) -> None:
    if domain == "box":
        if not all(radius < entry < 1 - radius for row in M for entry in row):
            raise Reject("the ball around M must lie inside the open box (0, 1)^(d x d)")
    elif sum((entry**2 for row in M for entry in row), Fraction(0)) >= (d - radius) ** 2:
        raise Reject("the ball around M must lie inside ||M||_F < d")
