"""Numbers reported with the experiments, against what they would have to satisfy."""

from fractions import Fraction

from proofs_check.checker import fields
from proofs_check.checker.attention import exact_logits
from proofs_check.checker.exponential import exponential
from proofs_check.checker.interval import square_root
from proofs_check.checker.statements.comparison import (
    Comparison,
    Inputs,
    Sides,
    positive,
    require_movable,
    short_matrix,
    sizes,
)

LARGEST_DOUBLE = Fraction(2**1024 - 2**971)


def _reported_delta(inputs: Inputs, bits: int) -> Sides:
    """A row of F sums to 1, so its least entry is at most 1/n."""
    (n,) = sizes(inputs, "n")
    (delta,) = positive(inputs, "delta")
    return Fraction(1, n), delta


def _lambda_range(inputs: Inputs, bits: int) -> Sides:
    """lambda = lambda~ / n is what the experiments set, so the lambda~ of the definition is n lambda;
    the lemma needs it in [0, 1].
    """
    (n,) = sizes(inputs, "n")
    (lam,) = positive(inputs, "lambda")
    return Fraction(1), n * lam


def _contraction(inputs: Inputs, bits: int) -> Sides:
    """With eta = (1/10)/lambda and lambda~ = n lambda a step multiplies the regulariser's part of M by 1 - eta n
    lambda.
    """
    (n,) = sizes(inputs, "n")
    (lam, eta) = positive(inputs, "lambda", "eta")
    return Fraction(1), abs(1 - eta * n * lam)


def _vacuous(inputs: Inputs, bits: int) -> Sides:
    """xi/2 >= 3 lam d / (sqrt(n) delta), as max|W| >= min|W| and ||X||_F^2 >= n beta; while L_attn / n^2 <= 1/n
    always.
    """
    n, d = sizes(inputs, "n", "d")
    lam, delta = positive(inputs, "lambda", "delta")
    return Fraction(1, n), 3 * lam * d / delta / square_root(Fraction(n), bits)


def _overflow(inputs: Inputs, bits: int) -> Sides:
    """The largest double against exp of the largest logit, which the pseudocode computes without a shift."""
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 8), fields.integer(inputs["d"], "inputs.d", 1, 8)
    X, W = short_matrix(inputs["X"], n, d, "inputs.X"), short_matrix(inputs["W"], d, d, "inputs.W")
    require_movable(X, W)
    top = max(entry for row in exact_logits(X, W) for entry in row)
    return LARGEST_DOUBLE, exponential(top, bits)


def _batch(inputs: Inputs, bits: int) -> Sides:
    """lambda / k, the strength Algorithm 1's update gives the regulariser beside a mean loss, at the larger and the
    smaller k.
    """
    few, many = sizes(inputs, "k_small", "k_large")
    (lam,) = positive(inputs, "lambda")
    return lam / many, lam / few


def _columns(inputs: Inputs, bits: int) -> Sides:
    """Columns of W_K and of W_Q: (M_Q o W_Q)(M_K o W_K)^T needs them equal."""
    key_heads, query_heads, width = sizes(inputs, "key_heads", "query_heads", "head_width")
    return Fraction(key_heads * width), Fraction(query_heads * width)


def _pruned_share(inputs: Inputs, bits: int) -> Sides:
    """Half of every MLP and half of the last layer's W_Q and W_K over all parameters (tied embeddings), against
    1/2.
    """
    d, key, inner, layers, words = sizes(inputs, "d", "key_columns", "inner", "layers", "vocabulary")
    mlp = 3 * d * inner * layers
    total = mlp + (2 * d * d + 2 * d * key) * layers + words * d
    return Fraction(mlp + d * d + d * key, 2 * total), Fraction(1, 2)


_RHO_SWEEP = {"n": ("512",), "delta": ("1/400",)}
_SYNTHETIC = {"n": ("128",), "lambda": ("1/25",)}
_LLAMA = {"key_heads": ("8",), "query_heads": ("32",), "head_width": ("64",)}
_LLAMA_SIZES = {
    "d": ("2048",), "key_columns": ("512",), "inner": ("8192",), "layers": ("16",), "vocabulary": ("128256",),
}  # fmt: skip

COMPARISONS = {
    "exp:reported_delta": (
        Comparison("rho sweep", ("n", "delta"), _reported_delta, "the reported delta exceeds 1/n", _RHO_SWEEP),
    ),
    "exp:lam_in_unit_interval": (
        Comparison("synthetic", ("n", "lambda"), _lambda_range, "the lambda of the definition exceeds 1", _SYNTHETIC),
        Comparison(
            "step with it",
            ("n", "lambda", "eta"),
            _contraction,
            "|1 - eta lambda| > 1: a step expands what it should shrink",
            _SYNTHETIC | {"eta": ("5/2",)},
        ),
    ),
    "exp:supports_theory": (
        Comparison(
            "size of the bound",
            ("n", "d", "lambda", "delta"),
            _vacuous,
            "xi/2 exceeds the largest possible L_attn/n^2",
            {"n": ("128", "256", "400", "512"), "d": ("2048",), "lambda": ("1/20",), "delta": ("1/400",)},
        ),
    ),
    "exp:exp_is_computable": (
        Comparison("one instance", ("n", "d", "X", "W"), _overflow, "exp of a logit exceeds the largest double"),
    ),
    "exp:batch_regulariser": (
        Comparison(
            "two batches",
            ("lambda", "k_small", "k_large"),
            _batch,
            "equal lambda regularises larger batches less",
            {"lambda": ("1/25",)},
        ),
    ),
    "exp:square_weights": (
        Comparison(
            "Llama-3.2-1B",
            tuple(_LLAMA),
            _columns,
            "W_Q and W_K have different numbers of columns",
            _LLAMA,
        ),
    ),
    "exp:whole_model_ratio": (
        Comparison(
            "Llama-3.2-1B",
            tuple(_LLAMA_SIZES),
            _pruned_share,
            "under half of the model is pruned",
            _LLAMA_SIZES,
        ),
    ),
}
