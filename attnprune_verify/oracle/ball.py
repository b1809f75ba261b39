"""Rigorous enclosures by ball arithmetic (python-flint): attention, loss, gradient, Hessian-vector product.

The inputs are taken as the exact numbers they are (floats, integers or `fractions.Fraction`), so an enclosure here
certainly contains the true value of the formula. The gradient is the closed form of thm:mat_view_l; that the closed
form is the derivative of the loss is confirmed independently by `attnprune_verify.oracle.ball_series`. The functions of
a fused weight or a pair and those of a layer (``layer_...``) are one computation on an `OracleInput`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.oracle.ball_forms import (
    attention_rows,
    attention_term,
    gradient_balls,
    product_balls,
    regular_term,
)
from attnprune_verify.oracle.ball_series import directional_derivative, second_directional_derivative, slope_along
from attnprune_verify.oracle.comparison import GradientClaim, OracleVerdict, against
from attnprune_verify.oracle.enclosure import Enclosure, as_ball, as_balls, enclose, refined, working_precision
from attnprune_verify.oracle.inputs import LayerLike, OracleInput, fused, layered, pair

__all__ = [
    "Enclosure", "attention", "contains_zero", "cost", "directional_derivative", "enclosed_gradient", "enclosed_loss",
    "enclosed_product", "factored_gradient", "factored_loss", "gradient", "hessian_vector_product", "judge",
    "layer_attention", "layer_gradient", "layer_loss", "loss", "second_directional_derivative",
]  # fmt: skip


def attention(X: ArrayLike, W: ArrayLike, mask: MaskLike = None, *, prec: int = 128) -> Enclosure:
    """Enclose F = softmax(X W X^T), row by row over the allowed positions (def:attn_matrix, def:mask).

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    mask : None, "causal" or (n, n) of 0 and 1
    prec : int
        Working precision in bits.

    Returns
    -------
    Enclosure
        Of shape (n, n) or (k, n, n).

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> attention(np.zeros((2, 1)), [[1.0]]).contains([[0.5, 0.5], [0.5, 0.5]])
    True
    """
    return _attention(fused(np.ones(np.shape(W)), X, W, 0.0, mask), np.shape(X)[:-1], prec)


def layer_attention(layer: LayerLike, X: ArrayLike, *, prec: int = 128) -> Enclosure:
    """Enclose F^h of every head; (heads, n, n) or (k, heads, n, n)."""
    return _attention(layered(layer, None, None, X), (*np.shape(X)[:-2], layer.heads, np.shape(X)[-2]), prec)


def loss(
    M: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose L(M) = 1/2 ||F(M) - F(1)||_F^2 + lam/2 ||M||_F^2, the first term averaged over a batch (def:loss_func).

    With a `target` the precision is doubled until the relative radius is at most `target`.

    Examples
    --------
    >>> import numpy as np
    >>> loss(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5).contains(1.0)
    True
    """
    return enclosed_loss(fused(M, X, W, lam, mask), prec, target)


def gradient(
    M: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose the gradient W * (X^T p X) + lam M with p = c*F - diag((c*F)1)F, c = F(M) - F(1) (thm:mat_view_l).

    With a `target` the precision is doubled until ||radius|| <= target * ||midpoint||.

    Examples
    --------
    >>> import numpy as np
    >>> gradient(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5).contains(np.full((2, 2), 0.5))
    True
    """
    at = fused(M, X, W, lam, mask)
    return _parted(at, enclosed_gradient(at, prec, target))[0]


def hessian_vector_product(
    M: ArrayLike,
    V: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose the derivative of the gradient in the direction V: W * (X^T dp X) + lam V.

    With dz = X(V*W)X^T, dF = F*(dz - (F*dz)1), r = (c*F)1, s = (dF*F + c*dF)1:
    dp = dF*F + c*dF - diag(s)F - diag(r)dF.

    Examples
    --------
    >>> import numpy as np
    >>> V = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> hessian_vector_product(np.ones((2, 2)), V, np.eye(2), np.zeros((2, 2)), lam=0.5).contains(V / 2)
    True
    """
    at = fused(M, X, W, lam, mask)
    return _parted(at, enclosed_product(at, at.directions(V), prec, target))[0]


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> Enclosure:
    """Enclose the loss with logits X (M_Q*W_Q)(M_K*W_K)^T X^T and lam/2 (||M_Q||^2 + ||M_K||^2) (eq:new_loss).

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> factored_loss(ones, ones, np.eye(2), ones, ones, lam=0.5).contains(1.0)
    True
    """
    return enclosed_loss(pair(M_Q, M_K, X, W_Q, W_K, lam, mask), prec, target)


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: Any = 0.0,
    mask: MaskLike = None,
    *,
    prec: int = 128,
    target: float | None = None,
) -> tuple[Enclosure, Enclosure]:
    """Enclose W_Q * (Y (M_K*W_K)) + lam M_Q and W_K * (Y^T (M_Q*W_Q)) + lam M_K, where Y = X^T p X.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> both = factored_gradient(ones, ones, np.eye(2), ones, ones, lam=0.5)
    >>> [part.contains(ones / 2) for part in both]
    [True, True]
    """
    at = pair(M_Q, M_K, X, W_Q, W_K, lam, mask)
    of_Q, of_K = _parted(at, enclosed_gradient(at, prec, target))
    return of_Q, of_K


def layer_loss(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: Any = 0.0, *, prec: int = 128
) -> Enclosure:
    """Enclose the loss of a layer: `factored_loss` summed over heads."""
    return enclosed_loss(layered(layer, M_Q, M_K, X, lam), prec)


def layer_gradient(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: Any = 0.0, *, prec: int = 128
) -> tuple[Enclosure, Enclosure]:
    """Enclose the gradients of `layer_loss` in M_Q and M_K."""
    at = layered(layer, M_Q, M_K, X, lam)
    of_Q, of_K = _parted(at, enclosed_gradient(at, prec))
    return of_Q, of_K


def enclosed_loss(at: OracleInput, prec: int = 128, target: float | None = None) -> Enclosure:
    """The loss at a point."""
    return refined(lambda: ([attention_term(at) + regular_term(at)], ()), prec, target)


def enclosed_gradient(at: OracleInput, prec: int = 128, target: float | None = None) -> Enclosure:
    """Enclose all entries of the gradient in one vector, in the order of `OracleInput.flat`."""
    return _with_regular(at, lambda: gradient_balls(at), at.masks, prec, target)


def enclosed_product(
    at: OracleInput, directions: tuple[NDArray[Any], ...], prec: int = 128, target: float | None = None
) -> Enclosure:
    """The Hessian times `directions`, in one vector."""
    return _with_regular(at, lambda: product_balls(at, directions), directions, prec, target)


def cost(at: OracleInput) -> float:
    """Nominal seconds: per logit two exponentials and a dozen products at 192 bits, each with Python around it."""
    return 8e-6 * at.logits + 2e-8 * at.products


def judge(claim: GradientClaim) -> OracleVerdict:
    """Every entry against its enclosure, which a power series along a random direction confirms where affordable."""
    at, exact, bound = claim.at, claim.exact, claim.bound
    assert exact is not None  # enclosed where `cost` allows
    middle = np.where(contains_zero(exact), 0.0, exact.midpoint)
    slack = np.maximum(exact.upper - middle, middle - exact.lower)
    note = f"all {at.size} entries"
    if 2e-5 * at.logits + 2e-8 * at.products <= claim.effort / 2:
        signs = claim.rng.choice([-1.0, 1.0], size=at.size)
        with working_precision(claim.bits):
            series = enclose([slope_along(at, tuple(at.parted(signs)))], ())
        ends = np.where(signs > 0, exact.lower, -exact.upper), np.where(signs > 0, exact.upper, -exact.lower)
        lower, upper = (
            math.nextafter(math.fsum(part), sign * math.inf) for part, sign in zip(ends, (-1, 1), strict=True)
        )
        if series.upper < lower or series.lower > upper:
            reason = "closed form and power series disagree"
            return OracleVerdict("ball", "inconclusive", math.nan, math.nan, reason)
        if series.radius <= (bound + slack).sum() < math.inf:
            note += "; closed form confirmed by a power series of the loss along 1 random direction"
    if not (slack <= bound).all():
        reason = "the enclosure is wider than rounding errors"
        return OracleVerdict("ball", "inconclusive", math.nan, math.nan, reason)
    return against("ball", claim.given, middle, bound + slack, claim.fine.entries + slack, note)


def contains_zero(exact: Enclosure) -> NDArray[np.bool_]:
    """Return True for entries whose exact value may be 0."""
    return np.asarray((exact.lower <= 0) & (exact.upper >= 0))


def _attention(at: OracleInput, shape: tuple[int, ...], prec: int) -> Enclosure:
    with working_precision(prec):
        balls = [entry for rows in attention_rows(at, dense=True) for row in rows for entry in row]
        return enclose(balls, (*shape, len(at.allowed)))


def _with_regular(
    at: OracleInput, compute: Any, masks: tuple[NDArray[Any], ...], prec: int, target: float | None
) -> Enclosure:
    def entries() -> tuple[list[Any], tuple[int, ...]]:
        parts = [slope + as_balls(M) * as_ball(at.lam) for slope, M in zip(compute(), masks, strict=True)]
        return [entry for part in parts for entry in part.entries()], (at.size,)

    return refined(entries, prec, target)


def _parted(at: OracleInput, whole: Enclosure) -> list[Enclosure]:
    return [
        Enclosure(lower, upper) for lower, upper in zip(at.parted(whole.lower), at.parted(whole.upper), strict=True)
    ]
