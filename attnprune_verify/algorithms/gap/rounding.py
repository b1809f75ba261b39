"""The floor of the divergence in float64 with all of its rounding paid: for maps too large for ball arithmetic.

For any numbers t_ij and p = softmax(t), log sum_j exp z_ij >= LSE(t_i) + <p_i, z_i - t_i>: so with f = F(1)

    KL(B) >= mean_i [H(p_i) - H(f_i) + <p_i - f_i, z_i(0)>] + <G, B>,      <G, B> = mean_i <p_i - f_i, z_i(B) - z_i(0)>

for every mask B, H the entropy. The t are the computed logits, taken as exact data, so that only f, p, the logits at a
mask of zeros and G are off; by how much, is bounded by norms (PROOFS.md, new:certified_mask_gap).
"""

import math
from typing import NamedTuple

import numpy as np

from attnprune_verify.algorithms.gap.one_map import OneMap
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads

UNIT = 2.0**-53
"""Unit roundoff of float64."""
_EXPONENT = 2048
"""Roundings charged to a softmax beside its sums: z - max, at most 745 u where exp is not 0, both ways, and exp."""
_ANGLE = 64
"""Roundings charged to an angle per position: w = theta^(-2a/m) is off by fewer than 64 u for theta up to 1e20."""
_UP = 1.01
"""Covers products of errors, all of which are below 1e-3 where the bound is used."""


def gamma(count: float) -> float:
    """Bound of a sum's error relative to the sum of absolute values, for a number of roundings."""
    return _UP * count * UNIT


class Tangent(NamedTuple):
    """KL(B) >= constant + <G, B> for all B and some G with |G - gradient| <= error, entry by entry."""

    constant: float
    gradient: Array
    error: Array


def floor_with_rounding(divergence: OneMap, at: Array, ones: int) -> float:
    """Lower bound, at least 0, of the divergence of all masks with this number of ones.

    Parameters
    ----------
    divergence : OneMap
    at : array
        Any real matrix of the mask's shape; the nearer to the best masks, the larger the bound.
    ones : int
    """
    below = tangent(divergence, at)
    lower = (below.gradient - below.error).ravel()
    least = math.fsum((np.partition(lower, ones - 1) if 0 < ones < at.size else lower)[:ones].tolist())
    bound = below.constant + least - 4 * UNIT * (abs(below.constant) + abs(least))
    return bound if bound > 0 else 0.0  # NaN is not above 0


def tangent(divergence: OneMap, at: Array) -> Tangent:
    """The inequality above at the logits of any real matrix, with its rounding paid."""
    problem, place = divergence.problem, divergence.place
    n, count = problem.n, problem.count
    queries, keys, relative = sizes(divergence)
    terms: list[float] = []
    slopes = np.empty_like(divergence.moved(divergence.weight, bias=False))
    errors = np.empty((count, n))
    own = gamma(2 * n + _EXPONENT)  # of a softmax of exact logits
    logarithm = 1.0 + 2.0 * math.log(n)
    at_zero = divergence.logits(np.zeros_like(at)) if _shifts(divergence) else None
    for h, (f, t) in enumerate(zip(divergence.f, divergence.logits(at), strict=True)):
        blur = _blur(divergence, queries[h], keys[h], relative)
        of_f = relative_error(divergence, queries[h], keys[h], relative)
        entropy, p = _entropy(t)
        with np.errstate(divide="ignore", invalid="ignore"):
            dense = -np.where(f > 0, f * np.log(f), 0.0).sum(axis=1)
        # f is off by its blur, and so is the logarithm of what was computed
        slip = (2 * own + 4 * of_f) * logarithm
        c = p - f
        if at_zero is not None:
            z = np.where(np.isfinite(t), next(at_zero), 0.0)
            terms += (c * z).sum(axis=1).tolist()
            slip += 2 * (own + of_f) * np.abs(z).max(axis=1) + 2 * blur
        terms += (entropy - dense).tolist() + (-slip).tolist()
        slopes[h] = divergence.times_other(c, h)
        weights = own + of_f + 16 * relative + gamma(problem.k * n)
        both = p + f
        errors[h] = weights * (both @ keys[h]) if place == 0 else both.T @ (weights * queries[h])
    total, size = (math.fsum(part) / divergence.rows for part in (terms, map(abs, terms)))
    return Tangent(total - 4 * UNIT * size, divergence.pulled_back(slopes), _spread(divergence, errors))


def _blur(divergence: OneMap, queries: Array, keys: Array, relative: float) -> Array:
    """The error of the logits of each row, from bounds of ||q_i|| and ||k_j||."""
    added = float(np.abs(np.where(np.isfinite(divergence.constant), divergence.constant, 0.0)).max())
    return np.asarray(4 * relative * (queries * keys.max() + added))


def relative_error(divergence: OneMap, queries: Array, keys: Array, relative: float) -> Array:
    """The relative error of F, row by row, from bounds of ||q_i|| and ||k_j||."""
    own = gamma(2 * divergence.problem.n + _EXPONENT)
    return np.asarray(_UP * np.expm1(2 * _blur(divergence, queries, keys, relative)) + own)


def _shifts(divergence: OneMap) -> bool:
    """Report whether a mask of zeros leaves logits that are not 0: biases or ALiBi."""
    problem = divergence.problem
    if not isinstance(problem, Heads):
        return False
    return any(part is not None for part in (problem.layer.b_Q, problem.layer.b_K, problem.layer.alibi))


def sizes(divergence: OneMap, moved: Array | None = None) -> tuple[Array, Array, float]:
    """(count, n) bounds of ||q_i|| and ||k_j||, and the relative error of either.

    They are for the dense weights and the given one of the map that stays, or for a `moved` weight and that one.
    """
    problem = divergence.problem
    X = np.abs(problem.X)
    d = X.shape[-1]
    weights = [np.abs(weight) for weight in problem.weights.values()]
    fixed = 1 - divergence.place
    if len(weights) == 2:
        weights[fixed] = np.maximum(weights[fixed], np.abs(divergence.given[fixed]))
    if moved is not None:
        weights[divergence.place] = np.abs(moved)
    if not isinstance(problem, Heads):
        relative = gamma(2 * d + 64)
        return _UP * np.linalg.norm(X @ weights[0], axis=2), _UP * np.linalg.norm(X, axis=2), relative
    layer = problem.layer
    relative = gamma(d + layer.m + 64 + (0 if layer.rope is None else _ANGLE * problem.n))
    found = []
    for weight, bias, heads in ((weights[0], layer.b_Q, layer.heads), (weights[1], layer.b_K, layer.kv_heads)):
        rows = X @ weight + (0.0 if bias is None else np.abs(bias))
        per_head = np.linalg.norm(rows.reshape(*X.shape[:2], heads, -1), axis=3).transpose(0, 2, 1)
        found.append(_UP * np.repeat(per_head, layer.heads // heads, axis=1).reshape(problem.count, problem.n))
    return layer.scale * found[0], found[1], relative


def _spread(divergence: OneMap, errors: Array) -> Array:
    """The error of every entry of the gradient, |w_ac| sum_i |x_ia| e_i, from those of the moved rows."""
    problem = divergence.problem
    by_head = errors.reshape(problem.k, -1, problem.n)
    scale = 1.0
    if isinstance(problem, Heads):
        layer = problem.layer
        if divergence.place == 0:
            scale = layer.scale
        else:
            by_head = by_head.reshape(problem.k, layer.kv_heads, layer.group, problem.n).sum(axis=2)
    found = np.einsum("kia,khi->ah", np.abs(problem.X), by_head, optimize=True)
    weight = np.abs(divergence.weight)
    wide = np.repeat(found, weight.shape[1] // found.shape[1], axis=1)
    return np.asarray(_UP * scale * weight * wide / divergence.rows)


def _entropy(t: Array) -> tuple[Array, Array]:
    """H(p_i) = LSE(t_i) - <p_i, t_i>, and p = softmax(t)."""
    away = t - t.max(axis=1, keepdims=True)
    p = np.exp(away)
    mass = p.sum(axis=1, keepdims=True)
    p /= mass
    np.copyto(away, 0.0, where=p == 0)
    return np.log(mass[:, 0]) - (p * away).sum(axis=1), p
