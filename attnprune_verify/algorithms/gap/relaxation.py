"""The least divergence over the masks with entries in [0, 1] and a given sum, and lower bounds on the way.

By convexity, for every real matrix Y and every mask B with k ones

    KL(B) >= KL(Y) + <g, B - Y> >= KL(Y) - <g, Y> + (sum of the k smallest entries of g),    g = grad KL(Y):

one gradient and one sort bound all masks. Projected descent with momentum (Beck and Teboulle, 2009) and restarts
(O'Donoghue and Candes, 2015), in the metric of the Hessian's diagonal, moves Y to where the bound is large.
"""

from typing import NamedTuple

import numpy as np

from attnprune_verify.algorithms.gap.one_map import OneMap
from attnprune_verify.instance.validate import Array

_CLOSE = 1e-3
"""Share of the value within which the bound ends the descent: chosen, a thousandth of a ratio of two to five."""
_FLATTEST = 1e-4
"""Smallest weight of an entry in the metric against the largest: measured on the small Llama's heads, where 1e-2 takes
three times the steps and 1e-6 the same."""
_ROOT_STEPS = 100
"""Steps of the one-dimensional root search: each at least halves an interval of doubles, or is Newton's."""


class Relaxed(NamedTuple):
    """The point where the bound is largest, the bound, and the point of least divergence that was seen."""

    at: Array
    bound: float
    point: Array


def floor(value: float, gradient: Array, at: Array, ones: int) -> float:
    """KL(Y) + min <g, B - Y> over the masks B with `ones` ones."""
    least = np.partition(gradient.ravel(), ones - 1)[:ones].sum() if ones else 0.0
    return float(value - np.vdot(gradient, at) + least)


def projected(point: Array, metric: Array, ones: int) -> Array:
    """The mask in [0, 1] of that sum with the least sum of metric * (mask - point)^2: clip(point - t/metric).

    Examples
    --------
    >>> projected(np.array([[2.0, 0.5, 0.1]]), np.ones((1, 3)), 1).tolist()
    [[1.0, 0.0, 0.0]]
    """
    low, high = float(((point - 1) * metric).min()), float((point * metric).max())
    shift = 0.0
    for _ in range(_ROOT_STEPS):
        mask = np.clip(point - shift / metric, 0.0, 1.0)
        excess = float(mask.sum()) - ones
        if abs(excess) <= 1e-12 * max(ones, 1):
            break
        low, high = (shift, high) if excess > 0 else (low, shift)
        inside = (mask > 0) & (mask < 1)
        slope = float((1 / metric[inside]).sum())
        newton = shift + excess / slope if slope > 0 else high
        shift = newton if low < newton < high else (low + high) / 2
    return np.asarray(mask)


def relaxed(divergence: OneMap, ones: int, steps: int) -> Relaxed:
    """Take at most `steps` steps; with 0 return the bound of the first point."""
    mask = np.full(divergence.weight.shape, ones / divergence.weight.size)
    value, gradient = divergence.value_and_gradient(mask)
    best = Relaxed(mask, floor(value, gradient, mask, ones), mask)
    if ones in (0, mask.size) or steps == 0:
        return best
    metric = divergence.scale(mask)
    metric = np.maximum(metric / metric.max(), _FLATTEST)
    ahead, momentum, lipschitz = mask, 1.0, max(float(np.abs(gradient).max()), np.finfo(np.float64).tiny)
    for _ in range(steps):
        height, gradient = divergence.value_and_gradient(ahead)
        bound = floor(height, gradient, ahead, ones)
        if bound > best.bound:
            best = best._replace(at=ahead, bound=bound)
        if value - best.bound <= _CLOSE * value:
            break
        after, value, lipschitz = _step(divergence, ahead, height, gradient, metric, lipschitz, ones)
        if float(np.vdot(metric * (ahead - after), after - mask)) > 0:  # against the slope: start again
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, mask = after + (momentum - 1) / following * (after - mask), after
        momentum, lipschitz = following, lipschitz * 0.95
    return best._replace(point=mask)


def _step(
    divergence: OneMap, ahead: Array, height: float, gradient: Array, metric: Array, lipschitz: float, ones: int
) -> tuple[Array, float, float]:
    """A projected step that goes down at least as far as its quadratic model, and the curvature that it took."""
    while True:
        after = projected(ahead - gradient / (lipschitz * metric), metric, ones)
        move = after - ahead
        value = divergence.value(after)
        model = height + float(np.vdot(gradient, move)) + lipschitz / 2 * float(np.vdot(metric * move, move))
        if value <= model + 1e-14 * abs(height) + 1e-300 or lipschitz > 1e300:
            return after, value, lipschitz
        lipschitz *= 2
