"""Automatic differentiation (autograd, float64) of a layer's loss and of its KL, from their definitions.

Rotations are explicit matrices, heads a Python loop; no closed form is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import autograd.numpy as anp
import numpy as np
from autograd import grad
from autograd.tracer import getval
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.layer_inputs import LayerLike, LayerParts, layer_parts, rotation_matrices

__all__ = ["divergence", "divergence_gradient", "divergence_hessian_vector_product"]
__all__ += ["gradient", "hessian_vector_product", "loss"]

_Pair: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
_Function: TypeAlias = Callable[..., Any]


def loss(layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0) -> float:
    """(1/k) sum_j sum_h 1/2 ||F~_j^h - F_j^h||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)."""
    return float(_literal(layer, X, lam)(*_floats(M_Q, M_K)))


def gradient(layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0) -> _Pair:
    """The gradient of `loss` in M_Q and M_K, by reverse mode."""
    return _both(_literal(layer, X, lam), *_floats(M_Q, M_K))


def hessian_vector_product(
    layer: LayerLike,
    M_Q: ArrayLike,
    M_K: ArrayLike,
    V_Q: ArrayLike,
    V_K: ArrayLike,
    X: ArrayLike,
    lam: float = 0.0,
) -> _Pair:
    """The gradient of <gradient, V>, by reverse mode over reverse mode."""
    return _second(_literal(layer, X, lam), _floats(M_Q, M_K), _floats(V_Q, V_K))


def divergence(layer: LayerLike, A_Q: ArrayLike, A_K: ArrayLike, X: ArrayLike) -> float:
    """sum KL(F || F~) over samples, heads and rows; F~ has the weights A_Q, A_K instead of the layer's own."""
    return float(_kl(layer, X)(*_floats(A_Q, A_K)))


def divergence_gradient(layer: LayerLike, A_Q: ArrayLike, A_K: ArrayLike, X: ArrayLike) -> _Pair:
    """The gradient of `divergence` in the weights."""
    return _both(_kl(layer, X), *_floats(A_Q, A_K))


def divergence_hessian_vector_product(
    layer: LayerLike, A_Q: ArrayLike, A_K: ArrayLike, V_Q: ArrayLike, V_K: ArrayLike, X: ArrayLike
) -> _Pair:
    """The second derivative of `divergence` in the weights, applied to (V_Q, V_K)."""
    return _second(_kl(layer, X), _floats(A_Q, A_K), _floats(V_Q, V_K))


def _literal(layer: LayerLike, X: ArrayLike, lam: float) -> _Function:
    parts = layer_parts(layer, X)
    dense_Q, dense_K = np.asarray(layer.W_Q, dtype=np.float64), np.asarray(layer.W_K, dtype=np.float64)
    dense = [[anp.exp(logs) for logs in heads] for heads in _log_attention(parts, dense_Q, dense_K)]

    def literal(M_Q: Any, M_K: Any) -> Any:
        total = 0.0
        for of_sample, changed in zip(dense, _log_attention(parts, M_Q * dense_Q, M_K * dense_K), strict=True):
            for F, logs in zip(of_sample, changed, strict=True):
                total = total + 0.5 * anp.sum((anp.exp(logs) - F) ** 2)
        return total / len(dense) + lam / 2 * (anp.sum(M_Q**2) + anp.sum(M_K**2))

    return literal


def _kl(layer: LayerLike, X: ArrayLike) -> _Function:
    parts = layer_parts(layer, X)
    dense = _log_attention(parts, np.asarray(layer.W_Q, dtype=np.float64), np.asarray(layer.W_K, dtype=np.float64))

    def kl(A_Q: Any, A_K: Any) -> Any:
        total = 0.0
        for of_sample, changed in zip(dense, _log_attention(parts, A_Q, A_K), strict=True):
            for before, after in zip(of_sample, changed, strict=True):
                F = np.exp(before)
                total = total + anp.sum(
                    F * np.where(parts.allowed, before, 0.0) - F * anp.where(parts.allowed, after, 0.0)
                )
        return total

    return kl


def _log_attention(parts: LayerParts, A_Q: Any, A_K: Any) -> list[list[Any]]:
    """log F for every sample and head; -1e300 stands for log 0 where the mask forbids."""
    m = len(parts.b_Q[0])
    n = len(parts.allowed)
    turns = rotation_matrices(parts.rope, n, m)
    samples = []
    for tokens in parts.samples:
        heads = []
        for head, b_Q in enumerate(parts.b_Q):
            key_head = head // parts.group
            queries = anp.dot(tokens, A_Q[:, head * m : (head + 1) * m]) + b_Q
            keys = anp.dot(tokens, A_K[:, key_head * m : (key_head + 1) * m]) + parts.b_K[key_head]
            turned_queries = anp.einsum("iab,ib->ia", turns, queries)
            turned_keys = anp.einsum("iab,ib->ia", turns, keys)
            logits = parts.scale * anp.dot(turned_queries, turned_keys.T)
            logits = anp.where(parts.allowed, logits, -1e300)
            logits = logits - getval(logits).max(axis=1, keepdims=True)
            heads.append(logits - anp.log(anp.sum(anp.exp(logits), axis=1, keepdims=True)))
        samples.append(heads)
    return samples


def _both(function: _Function, first: Any, second: Any) -> _Pair:
    of_first, of_second = grad(lambda pair: function(pair[0], pair[1]))((first, second))
    return np.asarray(of_first), np.asarray(of_second)


def _second(function: _Function, at: _Pair, along: _Pair) -> _Pair:
    def slope(pair: Any) -> Any:
        of_first, of_second = grad(lambda inner: function(inner[0], inner[1]))(pair)
        return anp.sum(of_first * along[0]) + anp.sum(of_second * along[1])

    of_first, of_second = grad(slope)(at)
    return np.asarray(of_first), np.asarray(of_second)


def _floats(first: ArrayLike, second: ArrayLike) -> _Pair:
    return np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
