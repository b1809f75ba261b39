"""How finely can an implementation in this precision be judged on this instance? The spread of trusted code.

Running-error bounds assume the worst at every step and may be coarse in float32. The spread measures instead: the same
plain NumPy code, in the precision judged, over random orders of tokens and features, against the reference.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Resolution", "resolution"]

_TRIALS = 8
_MARGIN = 10.0  # calibrated on NumPy code: correct implementations stay below, by a factor of two and more


class Resolution(NamedTuple):
    """The smallest error that counts, entry by entry, and the usual Frobenius norm of all errors together."""

    entries: NDArray[np.float64]
    norm: float


def resolution(
    pruning: NDArray[np.floating[Any]],
    samples: NDArray[np.floating[Any]],
    weight: NDArray[np.floating[Any]],
    lam: float,
    allowed: NDArray[np.bool_],
    reference: NDArray[np.float64],
    bound: NDArray[np.float64],
    rng: np.random.Generator,
    trials: int = _TRIALS,
) -> Resolution:
    """Entry by entry min(bound, 10 (spread + u |reference|)), and in norm the same with the norm of the errors.

    `spread` is the largest error of the trusted code over `trials` random permutations of tokens and features; the
    arrays' common dtype is the precision judged.
    """
    unit = float(np.finfo(samples.dtype).eps) / 2
    spread = norm = 0.0
    for _ in range(trials):
        tokens, features = rng.permutation(samples.shape[1]), rng.permutation(samples.shape[2])
        square = np.ix_(features, features)
        found = _gradient(
            pruning[square], samples[:, tokens][:, :, features], weight[square], lam, allowed[np.ix_(tokens, tokens)]
        )
        error = found.astype(np.float64) - reference[square]
        spread, norm = max(spread, float(np.abs(error).max())), max(norm, math.hypot(*error.ravel()))
    if not np.isfinite(norm):
        return Resolution(bound, math.hypot(*bound.ravel()))
    entries = np.minimum(bound, _MARGIN * (spread + unit * np.abs(reference)))
    return Resolution(entries, _MARGIN * (norm + unit * math.hypot(*reference.ravel())))


def _gradient(
    pruning: NDArray[Any], samples: NDArray[Any], weight: NDArray[Any], lam: float, allowed: NDArray[np.bool_]
) -> NDArray[Any]:
    total = np.zeros_like(weight)
    for tokens in samples:
        f = _softmax(tokens @ (pruning * weight) @ tokens.T, allowed)
        c = f - _softmax(tokens @ weight @ tokens.T, allowed)
        p = f * (c - (c * f).sum(axis=1, keepdims=True))
        total += tokens.T @ p @ tokens
    return np.asarray(weight * total / weight.dtype.type(len(samples)) + weight.dtype.type(lam) * pruning)


def _softmax(logits: NDArray[Any], allowed: NDArray[np.bool_]) -> NDArray[Any]:
    logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
