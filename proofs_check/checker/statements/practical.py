"""rem:practical, the remark that both assumptions of the theorem are practical,
and thm:our_convergence:informal's running time.
"""

from fractions import Fraction

from proofs_check.checker import fields
from proofs_check.checker.attention import exact_logits, hadamard, relative, softmax
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import bounds, hull, square_root
from proofs_check.checker.questions import Question, at_least, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import require_movable

SMALLEST_DOUBLE = Fraction(1, 2**1074)
PRIME = 2**127 - 1  # chosen: a prime above 10^30, the largest denominator of an entry of X, so each has an inverse


def check_remark(certificate: Document) -> str:
    require_claim(certificate, "refutation", "lhs<rhs")
    no_hypotheses(certificate)
    reading = certificate["reading"]
    if isinstance(reading, dict) and reading.get("assumption") == "beta":
        return _no_beta(certificate)
    return _no_delta(certificate)


def _no_delta(certificate: Document) -> str:
    """lhs = min F(M) over all positions is below rhs = delta = 2^-1074, the smallest positive double: no useful
    lower bound. With a causal mask it is exactly 0. Of a larger delta, above 1/n at the latest, it would say nothing.
    """
    reading = require_reading(
        certificate, {"assumption": ("delta",), "mask": ("full", "causal"), "domain": ("box", "all M")}
    )
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "W", "M", "delta"), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 8), fields.integer(inputs["d"], "inputs.d", 1, 8)
    X = fields.matrix(inputs["X"], n, d, "inputs.X")
    W, M = (fields.matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M"))
    if any(max(abs(e.numerator), e.denominator) > 10**20 for A in (X, W, M) for row in A for e in row):
        raise Reject("entries have at most 20 digits here")
    delta = fields.rational(inputs["delta"], "inputs.delta")
    if delta != SMALLEST_DOUBLE:
        raise Reject("inputs.delta must be 2^-1074, the smallest positive double")
    if reading["domain"] == "box":
        fields.require_in(M, 0, 1, "inputs.M")
    require_movable(X, W)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    mask = fields.attention_mask(reading["mask"], n, "reading.mask")
    z = relative(exact_logits(X, hadamard(M, W)), mask)

    def ask(bits: int) -> list[Question]:
        least = hull((f for row in softmax(z, bits) for f in row), largest=False)
        return [
            ("lhs encloses min F(M)", contains(claimed["lhs"], least)),
            ("rhs is delta", claimed["rhs"] == exact(delta)),
            ("lhs<rhs", less(least, exact(delta))),
        ]

    decide(precisions(claimed.values(), 60 * n * n, n * n), ask)
    domain = "M in the box" if reading["domain"] == "box" else "any real M"
    return f"refutation: min F(M) is below delta = 2^-1074 ({reading['mask']} mask, {domain})"


def _no_beta(certificate: Document) -> str:
    """n > d: v != 0 with X^T v = 0, so v^T (X X^T - beta I) v = -beta |v|^2 < 0 for every beta > 0. lhs = |X^T
    v|^2, rhs = |v|^2.
    """
    require_reading(certificate, {"assumption": ("beta",)})
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "v"), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 64), fields.integer(inputs["d"], "inputs.d", 1, 63)
    X = fields.matrix(inputs["X"], n, d, "inputs.X")
    v = fields.rationals(inputs["v"], "inputs.v", n)
    claimed = enclosures(certificate, ("lhs", "rhs"))
    if n <= d:
        raise Reject("this reading needs n > d")
    if any(max(abs(e.numerator), e.denominator) > 10**30 for row in [*X, v] for e in row):
        raise Reject("entries of X and v have at most 30 digits here")
    image = sum((sum(p * x[b] for p, x in zip(v, X, strict=True)) ** 2 for b in range(d)), Fraction(0))
    norm = sum((p * p for p in v), Fraction(0))
    if rank_modulo(X) < d or len({tuple(row) for row in X}) < n:
        raise Reject("X must have rank d and n different tokens: with fewer X X^T fails for another reason than n > d")
    if image != 0 or norm == 0 or claimed["lhs"] != exact(0) or claimed["rhs"] != exact(norm):
        raise Reject("inputs.v must be a nonzero vector with X^T v = 0, lhs = 0 and rhs = |v|^2")
    return f"refutation: X X^T >= beta I fails for every beta > 0, as n = {n} > d = {d}"


def rank_modulo(X: fields.Matrix) -> int:
    """Return the rank of X modulo PRIME, at most the rank of X: a minor that is not 0 there is not 0."""
    rows = [[entry.numerator * pow(entry.denominator, -1, PRIME) % PRIME for entry in row] for row in X]
    rank = 0
    for column in range(len(X[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        inverse = pow(rows[rank][column], -1, PRIME)
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] * inverse
            rows[i] = [(p - factor * q) % PRIME for p, q in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def check_informal(certificate: Document) -> str:
    """The formal T is a quartic in d on a family with fixed n, epsilon, lambda, R, beta, so not O(d poly(n)/epsilon).

    Family, for every d >= 2: n = 2, X = [e_1; e_2], W_ij = 1/d, M_0 = 1. Then X X^T = I, ||X||_F^2 = 2, ||W||_F =
    1, L(M_0) = lam d^2/2, and z_i1 - z_i2 = (M_i1 - M_i2)/d is at most 1 on the box and sqrt(2) for ||M||_F <= d:
    delta = 1/(1 + e^sqrt(2)) at most. As eta < 1/L,
        T = 4 L(M_0) / (eta mu eps n^2) > lam/(delta eps n^2) d^3 (lam + 30 n^3.5 R^6 d) = cubic d^3 + quartic d^4.
    lhs = quartic, rhs = 0. (A step costs O(n d^2 + n^2 d) operations besides.)
    """
    require_claim(certificate, "refutation", "lhs>rhs")
    require_reading(certificate, {"start": ("ones",), "time": ("iterations",)})
    inputs = fields.closed(certificate["inputs"], ("n", "lambda", "epsilon", "delta", "R"), "inputs")
    n = fields.integer(inputs["n"], "inputs.n", 2, 2)
    lam, epsilon, delta, R = (
        fields.rational(inputs[key], f"inputs.{key}", 30) for key in ("lambda", "epsilon", "delta", "R")
    )
    if not 0 < lam <= 1 or epsilon <= 0 or delta <= 0 or R <= 0 or R * R < 2:
        raise Reject("lambda must lie in (0, 1], epsilon and delta must be > 0, R >= sqrt(2)")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("cubic", "lhs", "rhs"))

    def ask(bits: int) -> list[Question]:
        floor = bounds(1 / (1 + exponential(square_root(Fraction(2), bits), bits)))
        front = lam / (delta * epsilon * n**2)
        quartic = bounds(front * 30 * n**3 * R**6 * square_root(Fraction(n), bits))
        return [
            ("delta <= 1/(1 + e^sqrt(2))", at_least(floor, exact(delta))),
            ("cubic", contains(claimed["cubic"], exact(front * lam))),
            ("lhs encloses the quartic coefficient", contains(claimed["lhs"], quartic)),
            ("rhs is 0", claimed["rhs"] == exact(0)),
            ("lhs>rhs", less(exact(0), quartic)),
        ]

    decide(precisions(claimed.values(), 100), ask)
    return "refutation: T grows like d^4 on a family with everything else fixed"
