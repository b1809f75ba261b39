"""Prose around the main theorem: its running time, its step size, bounded gradients, momentum."""

from fractions import Fraction

from proofs_check.checker import blocks as b
from proofs_check.checker import fields
from proofs_check.checker.attention import (
    attention_loss,
    exact_logits,
    frobenius_sq,
    gradient,
    hadamard,
    norm_sq,
    relative,
)
from proofs_check.checker.interval import Number
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.comparison import (
    Comparison,
    Inputs,
    Sides,
    paper_lipschitz,
    positive,
    require_movable,
    short_matrix,
    sizes,
)


def _require_constant(R: Fraction) -> None:
    """The paper's R, "some fixed constant that satisfies R > 1"."""
    if R <= 1:
        raise Reject("inputs.R must be > 1")


def _running_time(inputs: Inputs, bits: int) -> Sides:
    """T at M_0 = 1 and eta -> 1/L: 2 lam d^2 L / (mu eps n^2), for a smaller and a larger lambda."""
    n, d = sizes(inputs, "n", "d")
    R, mu, epsilon, small, large = positive(inputs, "R", "mu", "epsilon", "lambda_small", "lambda_large")
    _require_constant(R)
    if not small < large <= 1:
        raise Reject("lambda_small must be below lambda_large, at most 1")
    times = [2 * lam * d**2 / (mu * epsilon * n**2) * paper_lipschitz(n, d, R, lam, bits) for lam in (small, large)]
    return times[0], times[1]


def _step_size(inputs: Inputs, bits: int) -> Sides:
    """L(lambda_large) / L(lambda_small) against lambda_large / lambda_small:
    equal if eta = const/lambda followed from eta = const/L.
    """
    n, d = sizes(inputs, "n", "d")
    R, small, large = positive(inputs, "R", "lambda_small", "lambda_large")
    _require_constant(R)
    return paper_lipschitz(n, d, R, large, bits) / paper_lipschitz(n, d, R, small, bits), large / small


def _unbounded_gradient(inputs: Inputs, bits: int) -> Sides:
    """||grad L(M)||_F^2 against a bound that does not depend on M: the square of the paper's L."""
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 4), fields.integer(inputs["d"], "inputs.d", 1, 4)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, M = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", "M"))
    require_movable(X, W)
    lam, R = positive(inputs, "lambda", "R")
    _require_constant(R)
    if lam > 1:
        raise Reject("inputs.lambda must be at most 1")
    if max(frobenius_sq(X), frobenius_sq(W)) > R**2:
        raise Reject("inputs.R must bound ||X||_F and ||W||_F")
    allowed = [[True] * n for _ in range(n)]
    z, z_dense = (relative(exact_logits(X, E), allowed) for E in (hadamard(M, W), W))
    loss = attention_loss(X, z, z_dense, bits)
    L = paper_lipschitz(n, d, R, lam, bits)
    return L * L, norm_sq(gradient(loss.slope, W, M, lam))


def _momentum(inputs: Inputs, bits: int) -> Sides:
    """L(M_t) and L(M_{t+1}) under M_{t+1} = M_t - eta grad L(M_t) + momentum (M_t - M_{t-1}), M_0 = 1,
    although eta < 1/K.

    K = lam + (5/4) max|W|^2 ||X||_2^4 bounds the Lipschitz constant of grad L: without momentum the loss never rises.
    """
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 4), fields.integer(inputs["d"], "inputs.d", 1, 4)
    X, W = short_matrix(inputs["X"], n, d, "inputs.X"), short_matrix(inputs["W"], d, d, "inputs.W")
    require_movable(X, W)
    lam, eta, momentum = positive(inputs, "lambda", "eta", "momentum")
    t = fields.integer(inputs["t"], "inputs.t", 0, 50)
    data = b.Blocks([1] * d, X, W, lam, Fraction(0), Fraction(0))
    K = lam + Fraction(5, 4) * data.largest_weight() ** 2 * data.spectral_bound() ** 2
    if not (eta * K < 1 and lam <= 1 and momentum < 1):
        raise Reject("eta must be below 1/K, lambda at most 1, momentum below 1")
    before = M = data.ones()
    losses: list[Number] = []
    for _ in range(t + 2):
        now = b.state(data, M, bits)
        losses.append(now.c_sq / 2 + lam / 2 * norm_sq(M))
        pushed = b.descend(
            b.descend(M, now.gradient, eta),
            [[q - p for p, q in zip(r, s, strict=True)] for r, s in zip(M, before, strict=True)],
            momentum,
        )
        before, M = M, b.as_intervals(pushed, bits)
    return losses[t], losses[t + 1]


_SYNTHETIC = {"n": ("128",), "d": ("64",), "lambda_small": ("1/1000",), "lambda_large": ("1/10",)}

COMPARISONS = {
    "exp:smaller_lam_takes_longer": (
        Comparison(
            "T at two lambdas",
            ("n", "d", "R", "mu", "epsilon", "lambda_small", "lambda_large"),
            _running_time,
            "T increases with lambda: a small lambda does not make the run longer",
            _SYNTHETIC,
        ),
    ),
    "exp:step_size": (
        Comparison(
            "1/L against 1/lambda",
            ("n", "d", "R", "lambda_small", "lambda_large"),
            _step_size,
            "1/L is not inversely proportional to lambda",
            _SYNTHETIC,
        ),
    ),
    "exp:gradient_bounded": (
        Comparison(
            "one M",
            ("n", "d", "X", "W", "M", "lambda", "R"),
            _unbounded_gradient,
            "||grad L(M)|| exceeds the Lipschitz constant: it is not bounded",
        ),
    ),
    "exp:momentum": (
        Comparison(
            "heavy ball",
            ("n", "d", "X", "W", "lambda", "eta", "momentum", "t"),
            _momentum,
            "with momentum the loss rises although eta < 1/K",
            {"momentum": ("9/10",)},
        ),
    ),
}
