"""Prose claims, misprints and one proof line that a few exact numbers refute. One function per statement gives both
sides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.attention import attention_loss, exact_logits, gradient, hadamard, norm_sq, relative
from proofs_check.checker.interval import Number, bounds, square_root
from proofs_check.checker.questions import Question, contains, decide, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import compare, enclosures, no_hypotheses, require_claim, require_reading

Sides = Callable[[dict[str, Any], int], tuple[Number, Number]]


@dataclass(frozen=True)
class Comparison:
    """What a statement's certificate holds: the keys of its inputs, its reading, its relation, and its two sides."""

    keys: tuple[str, ...]
    reading: dict[str, tuple[str, ...]]
    relation: str
    sides: Sides
    says: str


def check(certificate: dict[str, Any]) -> str:
    comparison = COMPARISONS[certificate["statement"]]
    require_claim(certificate, "refutation", comparison.relation)
    require_reading(certificate, comparison.reading)
    inputs = fields.closed(certificate["inputs"], comparison.keys, "inputs")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("lhs", "rhs"))

    def ask(bits: int) -> list[Question]:
        left, right = (bounds(side) for side in comparison.sides(inputs, bits))
        return [
            ("lhs", contains(claimed["lhs"], left)),
            ("rhs", contains(claimed["rhs"], right)),
            (comparison.relation, compare(comparison.relation, left, right)),
        ]

    decide(precisions(claimed.values(), 500), ask)
    return f"refutation: {comparison.says}"


def _positive(inputs: dict[str, Any], *keys: str) -> list[Fraction]:
    values = [fields.rational(inputs[key], f"inputs.{key}", 60) for key in keys]
    if min(values) <= 0:
        raise Reject(f"inputs {', '.join(keys)} must be > 0")
    return values


def _sizes(inputs: dict[str, Any], *keys: str) -> list[int]:
    return [fields.integer(inputs[key], f"inputs.{key}", 1, 10**6) for key in keys]


def _lipschitz(n: int, d: int, R: Fraction, lam: Fraction, bits: int) -> Number:
    """lam + 30 d n^3.5 R^6."""
    return lam + 30 * d * n**3 * R**6 * square_root(Fraction(n), bits)


def _running_time(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """T at M_0 = 1 and eta -> 1/L: 2 lam d^2 L / (mu eps n^2), for a smaller and a larger lambda."""
    n, d = _sizes(inputs, "n", "d")
    R, mu, epsilon, small, large = _positive(inputs, "R", "mu", "epsilon", "lambda_small", "lambda_large")
    if not small < large <= 1:
        raise Reject("lambda_small must be below lambda_large, at most 1")
    times = [2 * lam * d**2 / (mu * epsilon * n**2) * _lipschitz(n, d, R, lam, bits) for lam in (small, large)]
    return times[0], times[1]


def _step_size(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """L(lambda_large) / L(lambda_small) against lambda_large / lambda_small: equal if eta = const/lambda followed
    from eta = const/L.
    """
    n, d = _sizes(inputs, "n", "d")
    R, small, large = _positive(inputs, "R", "lambda_small", "lambda_large")
    return _lipschitz(n, d, R, large, bits) / _lipschitz(n, d, R, small, bits), large / small


def _reported_delta(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """A row of F sums to 1, so its least entry is at most 1/n."""
    (n,) = _sizes(inputs, "n")
    (delta,) = _positive(inputs, "delta")
    return Fraction(1, n), delta


def _lambda_range(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """lambda = lambda~ / n is what the experiments set, so the lambda~ of the definition is n lambda; the lemma
    needs it in [0, 1].
    """
    (n,) = _sizes(inputs, "n")
    (lam,) = _positive(inputs, "lambda")
    return Fraction(1), n * lam


def _contraction(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """With eta = (1/10)/lambda and lambda~ = n lambda a step multiplies the regulariser's part of M by 1 - eta n
    lambda.
    """
    (n,) = _sizes(inputs, "n")
    (lam, eta) = _positive(inputs, "lambda", "eta")
    return Fraction(1), abs(1 - eta * n * lam)


def _vacuous(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """xi/2 >= 3 lam d / (sqrt(n) delta), as max|W| >= min|W| and ||X||_F^2 >= n beta; while L_attn / n^2 <= 1/n
    always.
    """
    n, d = _sizes(inputs, "n", "d")
    lam, delta = _positive(inputs, "lambda", "delta")
    return Fraction(1, n), 3 * lam * d / delta / square_root(Fraction(n), bits)


def _unbounded_gradient(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """||grad L(M)||_F^2 against a bound that does not depend on M: the square of the paper's L."""
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 4), fields.integer(inputs["d"], "inputs.d", 1, 4)
    X = fields.matrix(inputs["X"], n, d, "inputs.X")
    W, M = (fields.matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M"))
    lam, R = _positive(inputs, "lambda", "R")
    if any(max(abs(e.numerator), e.denominator) > 10**20 for A in (X, W, M) for row in A for e in row):
        raise Reject("entries have at most 20 digits here")
    if max(norm_sq(X), norm_sq(W)) > R**2 or R <= 1:
        raise Reject("R must be > 1 and bound ||X||_F and ||W||_F")
    allowed = [[True] * n for _ in range(n)]
    z, z_dense = (relative(exact_logits(X, E), allowed) for E in (hadamard(M, W), W))
    loss = attention_loss(X, z, z_dense, bits)
    L = _lipschitz(n, d, R, lam, bits)
    return L * L, norm_sq(gradient(loss.slope, W, M, lam))


def _printed_regulariser(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """(1/2)(||M_Q||^2 + ||M_K||^2) as printed against lambda/2 of the same."""
    d, m = (fields.integer(inputs[key], f"inputs.{key}", 1, 16) for key in ("d", "m"))
    (lam,) = _positive(inputs, "lambda")
    norms = norm_sq(fields.matrix(inputs["M_Q"], d, m, "inputs.M_Q")) + norm_sq(
        fields.matrix(inputs["M_K"], d, m, "inputs.M_K")
    )
    return lam / 2 * norms, norms / 2


def _dropped_sum(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """lem:grad_rec's line without its double sum: rhs = sum over (i_0, j_0) of the term, lhs = its largest or
    smallest single term.

    F and f are free positive rows summing to 1; X = I and W_ij = log f_ij + k, M_ij = (log F_ij + k/2) / W_ij
    realise them in the box for large k.
    """
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 6), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X = fields.matrix(inputs["X"], n, d, "inputs.X")
    F, f = (fields.matrix(inputs[key], n, n, f"inputs.{key}") for key in ("F", "f"))
    if any(sum(row) != 1 or min(row) <= 0 for row in F + f):
        raise Reject("rows of F and f must be positive and sum to 1")
    w = fields.rational(inputs["W_entry"], "inputs.W_entry")
    a, b = (fields.integer(inputs[key], f"inputs.{key}", 0, d - 1) for key in ("i_1", "j_1"))
    terms = []
    for i in range(n):
        mean = sum((F[i][k] * X[k][b] for k in range(n)), Fraction(0))
        terms += [(F[i][j] - f[i][j]) * F[i][j] * w * X[i][a] * (X[j][b] - mean) for j in range(n)]
    total = sum(terms, Fraction(0))
    extreme = max(terms) if total > max(terms) else min(terms)
    if min(terms) <= total <= max(terms):
        raise Reject("the sum lies between the single terms here: take another instance")
    return (extreme, total) if total > extreme else (total, extreme)


def _not_conformable(inputs: dict[str, Any], bits: int) -> tuple[Number, Number]:
    """fac:calculus part 3, fourth line: Z X^T with Z (m x d) and X (n x m) needs d = m; here d < m."""
    m, d = _sizes(inputs, "m", "d")
    return Fraction(d), Fraction(m)


NONE: dict[str, tuple[str, ...]] = {}
_FAMILY = ("n", "d", "R")

COMPARISONS = {
    "exp:running-time": Comparison(
        (*_FAMILY, "mu", "epsilon", "lambda_small", "lambda_large"),
        NONE,
        "lhs<rhs",
        _running_time,
        "T increases with lambda, a small lambda does not make the run longer",
    ),
    "exp:step-size": Comparison(
        (*_FAMILY, "lambda_small", "lambda_large"),
        NONE,
        "lhs<rhs",
        _step_size,
        "1/L is not inversely proportional to lambda",
    ),
    "exp:reported-delta": Comparison(("n", "delta"), NONE, "lhs<rhs", _reported_delta, "delta exceeds 1/n"),
    "exp:lambda-range": Comparison(
        ("n", "lambda"), NONE, "lhs<rhs", _lambda_range, "the lambda of the definition exceeds 1"
    ),
    "exp:divergent-step": Comparison(
        ("n", "lambda", "eta"), NONE, "lhs<rhs", _contraction, "|1 - eta lambda| > 1: a step expands M"
    ),
    "exp:vacuous-guarantee": Comparison(
        ("n", "d", "lambda", "delta"), NONE, "lhs<rhs", _vacuous, "xi/2 exceeds the largest possible L_attn/n^2"
    ),
    "exp:gradient-bounded": Comparison(
        ("n", "d", "X", "W", "M", "lambda", "R"),
        NONE,
        "lhs<rhs",
        _unbounded_gradient,
        "a Lipschitz gradient need not be bounded",
    ),
    "eq:new_loss": Comparison(
        ("d", "m", "M_Q", "M_K", "lambda"),
        NONE,
        "lhs<rhs",
        _printed_regulariser,
        "the printed regulariser lacks lambda",
    ),
    "lem:grad_rec": Comparison(
        ("n", "d", "X", "F", "f", "W_entry", "i_1", "j_1"),
        {"step": ("third line",)},
        "lhs<rhs",
        _dropped_sum,
        "a proof line drops the double sum",
    ),
    "fac:calculus": Comparison(
        ("m", "d"), {"line": ("part 3, Z X^T",)}, "lhs<rhs", _not_conformable, "Z X^T is not conformable"
    ),
}
