"""exp:mask_stays_in_box refuted: gradient descent from M_0 = 1 leaves [0, 1]^(d x d), though eta < 1/K;
||M_t||_F <= d all along.

The theorem applies a PL lemma stated for M in [0, 1]^(d x d) to iterates that need not lie there. K = lam + (5/4)
max|W|^2 ||X||_2^4. lhs encloses the smallest entry of M_t, rhs = 0.
"""

from fractions import Fraction

from proofs_check.checker import blocks as b
from proofs_check.checker import fields
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, hull
from proofs_check.checker.questions import Question, at_least, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading

LAST_STEP = 2000  # chosen: the committed certificate leaves the box at step 149


def check(certificate: Document) -> str:
    require_claim(certificate, "refutation", "lhs<rhs")
    require_reading(certificate, {"mask": ("full",), "start": ("ones",)})
    inputs = fields.closed(certificate["inputs"], ("n", "d", "X", "W", "lambda", "eta", "t"), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 4), fields.integer(inputs["d"], "inputs.d", 1, 4)
    X, W = fields.matrix(inputs["X"], n, d, "inputs.X"), fields.matrix(inputs["W"], d, d, "inputs.W")
    if any(max(abs(e.numerator), e.denominator) > 10**30 for A in (X, W) for row in A for e in row):
        raise Reject("entries of X and W have at most 30 digits here")
    lam, eta = (fields.rational(inputs[key], f"inputs.{key}", 60) for key in ("lambda", "eta"))
    t = fields.integer(inputs["t"], "inputs.t", 1, LAST_STEP)
    b.require_affordable(t, n, d)
    data = b.Blocks([1] * d, X, W, lam, Fraction(0), Fraction(0))
    K = lam + Fraction(5, 4) * data.largest_weight() ** 2 * data.spectral_bound() ** 2
    if not (0 < lam <= 1 and 0 < eta * K < 1):
        raise Reject("inputs.lambda must lie in (0, 1] and inputs.eta in (0, 1/K)")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("norm_sq", "lhs", "rhs"))

    def ask(bits: int) -> list[Question]:
        M: list[list[Number]] = [[Fraction(1)] * d for _ in range(d)]
        inside: list[Question] = []
        for _ in range(t):
            M = b.as_intervals(b.descend(M, b.state(data, M, bits).gradient, eta), bits)
            inside.append(("||M_s||_F <= d for every s <= t", at_least(exact(d * d), bounds(data.norm_sq(M)))))
        least = hull((entry for row in M for entry in row), largest=False)
        return [
            ("norm_sq encloses ||M_t||_F^2", contains(claimed["norm_sq"], bounds(data.norm_sq(M)))),
            ("lhs encloses the smallest entry of M_t", contains(claimed["lhs"], least)),
            ("rhs is 0", claimed["rhs"] == exact(0)),
            ("lhs<rhs", less(least, exact(0))),
            *inside,
        ]

    decide(precisions(claimed.values(), 300 * t * n * n, 4 * t * n * n), ask)
    return f"refutation: an entry of M_{t} is negative, and ||M_s||_F <= d for every s <= {t}"
