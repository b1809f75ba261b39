"""How far to trust the inputs' second moments: damping that the calibration tokens themselves prescribe."""

from __future__ import annotations

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array

__all__ = ["damped", "input_metric", "shrinkage_damping"]

_LEAST, _MOST = 0.01, 1.0
_PIECES = 8


def input_metric(X: Array, damping: float | None) -> tuple[Array, float]:
    """H = X^T X / (k n) plus `damping` times its mean diagonal, and the damping used; (d, d).

    Raises
    ------
    InvalidInstance
        If X is zero, or H overflows or stays singular.
    """
    tokens = X.reshape(-1, X.shape[2])
    H = tokens.T @ tokens / len(tokens)
    if not np.isfinite(H).all() or not H.any():
        raise InvalidInstance(f"X^T X must be finite and not zero; the largest |X| is {np.abs(X).max():.3g}")
    relative = shrinkage_damping(X) if damping is None else damping
    return damped(H, relative), relative


def shrinkage_damping(X: Array) -> float:
    """The damping of Ledoit and Wolf's shrinkage estimator, with sequences (not tokens) as the independent draws.

    ::

        H_j = X_j^T X_j,  H = mean of H_j,  mu = tr(H)/d,   b = sum_j ||H_j - H||^2 / (k (k-1)) / ||H - mu I||^2
        (1 - b) H + b mu I  is proportional to  H + damping mu I,   damping = b / (1 - b), kept within [0.01, 1]

    Tokens of one sequence resemble each other, so treating them as independent would damp far too little. Fewer than
    eight sequences are cut into pieces of equal length, eight or more in all where they have that many tokens.

    Parameters
    ----------
    X : (k, n, d) array

    Examples
    --------
    >>> import numpy as np
    >>> alike = np.tile(np.diag([1.0, 2.0, 3.0]), (8, 1, 1))
    >>> shrinkage_damping(alike), shrinkage_damping(np.random.default_rng(0).normal(size=(8, 2, 40)))
    (0.01, 1.0)
    """
    k, n, d = X.shape
    pieces = min(n, -(-_PIECES // k))
    length = n // pieces
    draws = X[:, : pieces * length].reshape(k * pieces, length, d)
    if len(draws) < 2:
        return _MOST
    moments = [draw.T @ draw for draw in draws]
    H = sum(moments[1:], moments[0]) / len(draws)
    around_mean = sum(float(np.square(moment - H).sum()) for moment in moments) / (len(draws) * (len(draws) - 1))
    around_identity = float(np.square(H - np.trace(H) / d * np.eye(d)).sum())
    if around_mean >= around_identity:
        return _MOST
    share = around_mean / around_identity
    return min(_MOST, max(_LEAST, share / (1 - share)))


def damped(metric: Array, relative: float, floor: Array | float = 0.0) -> Array:
    """`metric` (..., m, m) plus (`relative` times its mean diagonal + `floor`) times the identity."""
    m = metric.shape[-1]
    mean = np.trace(metric, axis1=-2, axis2=-1) / m
    added = relative * mean + floor
    result: Array = metric + np.asarray(added)[..., np.newaxis, np.newaxis] * np.eye(m)
    return result
