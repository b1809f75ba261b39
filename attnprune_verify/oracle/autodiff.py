"""Automatic differentiation (autograd, float64) of the literal definition of the loss; no closed form is used.

Heads are a Python loop, a rotation is x cos + (x J) sin with the quarter turn J written out. The row shift is a
constant for the differentiation: subtracting any number from a row of logits leaves the softmax unchanged.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import autograd.numpy as anp
import numpy as np
from autograd import grad
from autograd.tracer import getval
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.comparison import GradientClaim, OracleVerdict, against
from attnprune_verify.oracle.inputs import OracleInput, frequency
from attnprune_verify.oracle.score_formulas import SCORES

_Matrix: TypeAlias = NDArray[np.float64]
_Function: TypeAlias = Callable[[Any], Any]  # of the list of masks (or weights)


def loss(at: OracleInput) -> float:
    """L(M) = 1/2 ||F(M) - F(1)||_F^2 + lam/2 ||M||_F^2, the first term averaged over a batch (def:loss_func).

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> loss(fused(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5))
    1.0
    """
    at = at.floats()
    return float(_literal(at)(list(at.masks)))


def gradient(at: OracleInput) -> list[_Matrix]:
    """The gradient of `loss` with respect to each mask, by reverse mode.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> gradient(fused(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5))
    [array([[0.5, 0.5],
           [0.5, 0.5]])]
    """
    at = at.floats()
    return _first(_literal(at), at.masks)


def hessian_vector_product(at: OracleInput, *directions: ArrayLike) -> list[_Matrix]:
    """The gradient of <gradient(M), V> with respect to each mask, by reverse mode over reverse mode.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> hessian_vector_product(fused(np.ones((2, 2)), np.eye(2), np.zeros((2, 2)), lam=0.5), np.eye(2))
    [array([[0.5, 0. ],
           [0. , 0.5]])]
    """
    at = at.floats()
    return _second(_literal(at), at.masks, at.directions(*directions))


def divergence(at: OracleInput, *weights: ArrayLike) -> float:
    """sum KL(F || F~) over samples, heads and rows; F~ has these weights instead of the problem's own."""
    at = at.floats()
    return float(_kl(at)(list(at.directions(*weights))))


def divergence_gradient(at: OracleInput, *weights: ArrayLike) -> list[_Matrix]:
    """The gradient of `divergence` in the weights."""
    at = at.floats()
    return _first(_kl(at), at.directions(*weights))


def divergence_hessian_vector_product(
    at: OracleInput, weights: Sequence[ArrayLike], directions: Sequence[ArrayLike]
) -> list[_Matrix]:
    """The second derivative of `divergence` in the weights, applied to `directions`."""
    at = at.floats()
    return _second(_kl(at), at.directions(*weights), at.directions(*directions))


def cost(at: OracleInput) -> float:
    """Nominal seconds: two dozen passes over all n^2 logits of a head, forbidden ones too, and the products twice."""
    k, n, _ = at.samples.shape
    return float(2e-7 * k * at.heads * n * n + 2e-9 * at.products)


def judge(claim: GradientClaim) -> OracleVerdict:
    """Every entry. Reverse mode rounds where the closed form does, and twice as often: its own error counts, too."""
    found = claim.at.flat(gradient(claim.at))
    bound, fine = claim.bound + 2 * claim.own, claim.fine.entries + 2 * claim.own
    return against("autodiff", claim.given, found, bound, fine, "all entries, float64")


def _literal(at: OracleInput) -> _Function:
    dense = [anp.exp(logs) for logs in _log_attention(at, at.weights)]

    def literal(masks: Any) -> Any:
        pruned = [M * W for M, W in zip(masks, at.weights, strict=True)]
        total = 0.0
        for F, logs in zip(dense, _log_attention(at, pruned), strict=True):
            total = total + 0.5 * anp.sum((anp.exp(logs) - F) ** 2)
        return total / len(at.samples) + 0.5 * sum(anp.sum(at.lam * M * M) for M in masks)

    return literal


def _kl(at: OracleInput) -> _Function:
    dense = _log_attention(at, at.weights)

    def kl(weights: Any) -> Any:
        total = 0.0
        for before, after in zip(dense, _log_attention(at, weights), strict=True):
            gap = np.where(at.allowed, before, 0.0) - anp.where(at.allowed, after, 0.0)
            total = total + anp.sum(np.exp(before) * gap)
        return total

    return kl


def _log_attention(at: OracleInput, weights: Sequence[Any]) -> list[Any]:
    """log F for every sample and head in turn; -inf where the mask forbids."""
    n, m = len(at.allowed), at.m
    cos, sin, quarter = _rotation(at, n, m)
    distance = np.abs(np.arange(n)[:, np.newaxis] - np.arange(n))
    found = []
    for tokens in at.samples:
        for head in range(at.heads):
            places = (head, head * at.kv_heads // at.heads)
            sides = []
            for A, bias, place in zip(weights, at.biases, places, strict=False):
                columns = slice(place * m, (place + 1) * m)
                rows = anp.dot(tokens, A[:, columns]) + (0.0 if bias is None else bias[columns])
                sides.append(rows if at.rope is None else rows * cos + anp.dot(rows, quarter) * sin)
            keys = sides[1] if at.moves_keys else tokens
            logits = at.scale * anp.dot(sides[0], keys.T)
            if at.softcap is not None:
                logits = at.softcap * anp.tanh(logits / at.softcap)
            if at.alibi is not None:
                logits = logits - float(at.alibi[head]) * distance
            for score in at.scores:
                logits = SCORES[type(score)].value(score, logits)
            found.append(_log_softmax(logits, at.allowed))
    return found


def _rotation(at: OracleInput, n: int, m: int) -> tuple[Any, Any, Any]:
    """cos and sin of every position and feature, and J: row x becomes the partners of its features, with sign."""
    if at.rope is None:
        return None, None, None
    angles, quarter = np.zeros((n, m)), np.zeros((m, m))
    for pair in range(m // 2):
        first, second = (pair, pair + m // 2) if at.rope.layout == "half" else (2 * pair, 2 * pair + 1)
        angles[:, [first, second]] = (np.arange(n) * frequency(at.rope, pair, m))[:, np.newaxis]
        quarter[first, second], quarter[second, first] = 1.0, -1.0
    return np.cos(angles), np.sin(angles), quarter


def _log_softmax(logits: Any, allowed: NDArray[np.bool_]) -> Any:
    fixed = logits
    while hasattr(fixed, "_value"):  # nested boxes when differentiating twice
        fixed = getval(fixed)
    shift = np.max(np.where(allowed, fixed, -np.inf), axis=1, keepdims=True)
    # Forbidden logits may lie far above the shift: they are replaced before the exponential, not after it.
    shifted = anp.where(allowed, logits - shift, -np.inf)
    return shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))


def _first(function: _Function, at: Sequence[Any]) -> list[_Matrix]:
    with np.errstate(over="ignore"):  # 1 / cosh^2 of a logit far beyond its cap is 0
        return [np.asarray(part) for part in grad(function)(list(at))]


def _second(function: _Function, at: Sequence[Any], along: Sequence[Any]) -> list[_Matrix]:
    def slope(point: Any) -> Any:
        parts = grad(function)(point)
        return sum(anp.sum(part * direction) for part, direction in zip(parts, along, strict=True))

    return _first(slope, at)
