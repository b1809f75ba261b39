"""The slope of the Taylor remainder of a layer's loss: 2 if the given gradients are right along a direction, else 1.

Along (M_Q + h D_Q, M_K + h D_K) the logits are S + h A + h^2 B exactly, so differences of the loss are evaluated
without cancellation (with e = expm1(h A + h^2 B), the softmax changes by F * (e - <F, e>) / (1 + <F, e>)), in
extended precision. What is left is the rounding of the gradients that are judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.layer_inputs import LayerLike, LayerParts, layer_parts, rotation_matrices
from attnprune_verify.oracle.taylor import SlopeVerdict

__all__ = ["layer_taylor_slope"]

_STEPS = np.exp2(-np.arange(4, 40, dtype=np.longdouble))
_FEWEST = 6
_ROUNDING = 1e-13  # of <|gradient|, |direction|>: what float64 gradients of small layers may be off by
_ABOVE = 8.0
_Wide = NDArray[np.longdouble]


def layer_taylor_slope(
    layer: LayerLike,
    M_Q: ArrayLike,
    M_K: ArrayLike,
    gradients: tuple[ArrayLike, ArrayLike],
    directions: tuple[ArrayLike, ArrayLike],
    X: ArrayLike,
    lam: float = 0.0,
) -> SlopeVerdict:
    """Judge `gradients` of the layer's loss at (M_Q, M_K) along `directions`.

    Returns
    -------
    SlopeVerdict
        ``failed`` if the remainder stays of first order down to the smallest step, ``passed`` if its slope is at least
        1.5 over the six smallest steps above the noise, ``inconclusive`` otherwise.

    Raises
    ------
    InvalidInstance
        If X does not fit the layer.
    """
    parts = layer_parts(layer, X)
    point = [np.asarray(M, dtype=np.longdouble) for M in (M_Q, M_K)]
    along = [np.asarray(D, dtype=np.longdouble) for D in directions]
    given = [np.asarray(g, dtype=np.longdouble) for g in gradients]
    known = sum((g * D).sum() for g, D in zip(given, along, strict=True))
    size = sum(float(np.abs(g * D).sum()) for g, D in zip(given, along, strict=True))
    differences = _differences(parts, layer, point, along)
    squares = sum((M * D).sum() for M, D in zip(point, along, strict=True))
    quadratic = sum((D * D).sum() for D in along)
    differences = differences + np.longdouble(lam) * (_STEPS * squares + _STEPS**2 * quadratic / 2)
    remainders = np.abs(differences - _STEPS * known).astype(np.float64)
    steps = _STEPS.astype(np.float64)
    floor = steps * _ROUNDING * max(size, 1e-300)
    return _judge(steps, remainders, floor, abs(float(known)))


def _judge(
    steps: NDArray[np.float64], remainders: NDArray[np.float64], floor: NDArray[np.float64], known: float
) -> SlopeVerdict:
    above = remainders > _ABOVE * floor
    power = _ABOVE * float(floor[0] / steps[0]) / known if known > 0 else np.inf
    used = np.flatnonzero(above)[-_FEWEST:]
    if len(used) < _FEWEST:
        reason = f"only {len(used)} step sizes stand above the noise floor, {_FEWEST} are needed"
        return SlopeVerdict("inconclusive", np.nan, len(used), power, reason, steps, remainders, floor)
    slope = float(np.polyfit(np.log(steps[used]), np.log(remainders[used]), 1)[0])
    if slope >= 1.5:
        return SlopeVerdict("passed", slope, _FEWEST, power, "second order", steps, remainders, floor)
    if used[-1] == len(steps) - 1:
        reason = "the remainder is of first order down to the smallest step"
        return SlopeVerdict("failed", slope, _FEWEST, power, reason, steps, remainders, floor)
    reason = "the remainder falls slowly, but rounding errors might explain it"
    return SlopeVerdict("inconclusive", slope, _FEWEST, power, reason, steps, remainders, floor)


def _differences(parts: LayerParts, layer: LayerLike, point: list[_Wide], along: list[_Wide]) -> _Wide:
    W_Q, W_K = (np.asarray(W, dtype=np.longdouble) for W in (layer.W_Q, layer.W_K))
    total = np.zeros(len(_STEPS), dtype=np.longdouble)
    for tokens in parts.samples.astype(np.longdouble):
        for head in range(len(parts.W_Q)):
            dense = _Sides(parts, head, tokens, W_Q, W_K)
            start = _Sides(parts, head, tokens, point[0] * W_Q, point[1] * W_K)
            move = _Sides(parts, head, tokens, along[0] * W_Q, along[1] * W_K, bias=False)
            F = _softmax(start.logits(start), parts.allowed)
            c = F - _softmax(dense.logits(dense), parts.allowed)
            first, second = start.logits(move) + move.logits(start), move.logits(move)
            for index, h in enumerate(_STEPS):
                dz = np.where(parts.allowed, h * first + h**2 * second, 0)
                e = np.expm1(dz - (F * dz).sum(axis=1, keepdims=True))
                mean = (F * e).sum(axis=1, keepdims=True)
                change = F * (e - mean) / (1 + mean)
                total[index] += (change * (c + change / 2)).sum()
    return total / len(parts.samples)


class _Sides:
    """Rotated queries and keys of one head."""

    def __init__(
        self, parts: LayerParts, head: int, tokens: _Wide, A_Q: _Wide, A_K: _Wide, *, bias: bool = True
    ) -> None:
        m, key_head = len(parts.b_Q[0]), head // parts.group
        turns = rotation_matrices(parts.rope, len(tokens), m).astype(np.longdouble)
        queries = tokens @ A_Q[:, head * m : (head + 1) * m] + (parts.b_Q[head] if bias else 0)
        keys = tokens @ A_K[:, key_head * m : (key_head + 1) * m] + (parts.b_K[key_head] if bias else 0)
        self.queries: Any = np.longdouble(parts.scale) * np.einsum("iab,ib->ia", turns, queries)
        self.keys: Any = np.einsum("iab,ib->ia", turns, keys)

    def logits(self, other: _Sides) -> _Wide:
        product: _Wide = self.queries @ other.keys.T
        return product


def _softmax(logits: _Wide, allowed: NDArray[np.bool_]) -> _Wide:
    shifted = np.where(allowed, logits - np.where(allowed, logits, -np.inf).max(axis=1, keepdims=True), -np.inf)
    weights: _Wide = np.exp(shifted)
    normed: _Wide = weights / weights.sum(axis=1, keepdims=True)
    return normed
