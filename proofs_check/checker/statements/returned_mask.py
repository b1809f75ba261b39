"""new:descent_mask_far_from_best: the mask M that alg:mask_gd returns has more than seven times the L_attn of N,
another 0/1 mask with as many zeros.

The descent is computed: from M_0 = 1, t >= 100 steps M <- M - eta grad L(M) with L = L_attn + (lambda/2) ||M||^2, then
the floor(rho d^2) smallest entries of M_t become 0, the others 1: `gap`, the smallest entry that is kept minus the
largest that is pruned, is above 10^-12, so that M is decided, no tie is broken, and no rounding decides. Hess L <=
lambda + C_+ K^2 with K = ||Pi A|| and C_+ = (39 + 55 sqrt 33)/1152 < 3082/10^4 (new:row_hessian), 9/10 map_sq <= K^2 <
map_sq; eta is below the reciprocal of lambda + C_+ map_sq, so that descent has its guarantee, and at least half of it,
so that it moves. lhs = 7 L_attn(N) > 0, rhs = L_attn(M).

The walk is at exact points, each the middle of what the one before gives. Two points a step maps at most
1 + eta (C_- map_sq - lambda)_+ times as far apart, as -C_- K^2 <= Hess L - lambda with C_- = (55 sqrt 33 - 39)/1152 <
2405/10^4 (new:row_hessian_lower), and d times the largest distance of an entry from its middle is added: `drift` bounds
the distance from the descent, and so that of every entry.
"""

from fractions import Fraction
from math import floor
from typing import Any

from proofs_check.checker import blocks as b
from proofs_check.checker import fields
from proofs_check.checker.attention import attention_loss, exact_logits, hadamard, relative
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, Undecided, bounds
from proofs_check.checker.questions import Question, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import short_matrix
from proofs_check.checker.statements.stationary_point import map_is_below, negated

TIMES = 7  # seven, as the statement has it
LEAST_GAP = Fraction(1, 10**12)
C_PLUS, C_MINUS = Fraction(3082, 10**4), Fraction(2405, 10**4)
_KEYS = ("n", "d", "X", "W", "lambda", "rho", "map_sq", "eta", "t", "M", "N")


def check(certificate: Document) -> str:
    require_claim(certificate, "confirmation", "lhs<rhs")
    named = require_reading(certificate, {"mask": ("full", "causal"), "start": ("ones",)})["mask"]
    inputs = fields.closed(certificate["inputs"], _KEYS, "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 2, 8), fields.integer(inputs["d"], "inputs.d", 2, 4)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, M, N = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M", "N"))
    lam, rho, K_sq, eta = (
        fields.rational(inputs[key], f"inputs.{key}", 20) for key in ("lambda", "rho", "map_sq", "eta")
    )
    t = fields.integer(inputs["t"], "inputs.t", 100, 1000)
    b.require_affordable(t, n, d)
    if not (0 < lam <= 1 and 0 < rho < 1 and K_sq > 0):
        raise Reject("inputs.lambda must lie in (0, 1], inputs.rho in (0, 1), inputs.map_sq must be > 0")
    if not Fraction(1, 2) <= eta * (lam + C_PLUS * K_sq) < 1:
        raise Reject("inputs.eta must be below the reciprocal of lambda + C_+ map_sq, and at least half of it")
    zeros = floor(rho * d * d)
    if not zeros or any(_zeros(mask) != zeros for mask in (M, N)):
        raise Reject("inputs.M and inputs.N must be 0/1 masks with floor(rho d^2) > 0 zeros")
    no_hypotheses(certificate)
    claimed = enclosures(certificate, ("gap", "lhs", "rhs"))
    data = b.Blocks([1] * d, X, W, lam, Fraction(0), Fraction(0), named)
    z_dense = relative(exact_logits(X, W), data.allowed)
    map_at = X, W, data.allowed
    growth = 1 + eta * max(C_MINUS * K_sq - lam, Fraction(0))

    def loss(mask: fields.Matrix, bits: int) -> Number:
        return attention_loss(X, relative(exact_logits(X, hadamard(mask, W)), data.allowed), z_dense, bits).c_sq / 2

    def ask(bits: int) -> list[Question]:
        point, drift = _walk(data, eta, growth, t, bits)
        between = min(_where(M, point, 1)) - max(_where(M, point, 0))
        gap = between - 2 * drift, between + 2 * drift
        best, own = bounds(TIMES * loss(N, bits)), bounds(loss(M, bits))
        return [
            ("||Pi A||^2 < map_sq", map_is_below(*map_at, K_sq, bits)),
            ("||Pi A||^2 is at least nine tenths of map_sq", negated(map_is_below(*map_at, K_sq * 9 / 10, bits))),
            ("gap encloses the distance of what is kept from what is pruned", contains(claimed["gap"], gap)),
            ("M is what the descent returns: gap > 10^-12", less(exact(LEAST_GAP), gap)),
            ("lhs encloses seven times L_attn(N)", contains(claimed["lhs"], best)),
            ("rhs encloses L_attn(M)", contains(claimed["rhs"], own)),
            ("N prunes something that moves attention", less(exact(0), best)),
            ("lhs<rhs", less(best, own)),
        ]

    decide(precisions(claimed.values(), 300 * t * n * n, 4 * t * n * n), ask)
    return f"instance: the mask after {t} steps has more than {TIMES} times the loss of another with {zeros} zeros"


def _zeros(mask: fields.Matrix) -> int:
    """Return the number of zeros, or -1 for what is no 0/1 mask."""
    entries = [entry for row in mask for entry in row]
    return entries.count(Fraction(0)) if set(entries) <= {0, 1} else -1


def _walk(data: b.Blocks, eta: Fraction, growth: Fraction, t: int, bits: int) -> tuple[fields.Matrix, Fraction]:
    """A point close to M_t, and how far from it M_t is at most."""
    unit = 1 << bits
    point: Any = data.ones()
    drift = Fraction(0)
    for _ in range(t):
        ends = [[bounds(entry) for entry in row] for row in b.descend(point, b.state(data, point, bits).gradient, eta)]
        point = [[Fraction(floor((low + high) / 2 * unit), unit) for low, high in row] for row in ends]
        pairs = zip(ends, point, strict=True)
        away = max(max(high - p, p - low) for row, ps in pairs for (low, high), p in zip(row, ps, strict=True))
        drift = Fraction(floor((growth * drift + data.d * away) * unit) + 1, unit)
        if drift > 1:
            raise Undecided("the walk drifts too far from the descent")
    return point, drift


def _where(mask: fields.Matrix, point: fields.Matrix, keep: int) -> list[Fraction]:
    pairs = zip(mask, point, strict=True)
    return [entry for marks, row in pairs for mark, entry in zip(marks, row, strict=True) if mark == keep]
