"""How far to trust the inputs' second moments: damping that the calibration tokens themselves prescribe."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array

__all__ = ["MomentSum", "Moments", "damped", "input_metric", "second_moments", "shrinkage_damping"]

_LEAST, _MOST = 0.01, 1.0
_PIECES = 8


class Moments(NamedTuple):
    """Second moments, float64, and the relative damping that the draws prescribe for them.

    Attributes
    ----------
    H : (d, d) array, or (blocks, m, m) for blocks of features
        Means over the tokens.
    damping : float
        What the calibration sequences say should be added to the diagonal, relative to its mean.
    length : float
        Tokens per sequence.
    """

    H: Array
    damping: float
    length: float


class MomentSum:
    """Second moments of features, summed sequence by sequence; only sums are kept.

    Ledoit and Wolf's shrinkage towards a multiple of the identity, with sequences (not tokens) as the independent
    draws, says how far to trust them:

    ::

        H_j = X_j^T X_j,  H = mean of H_j,  mu = tr(H)/d,   b = sum_j ||H_j - H||^2 / (k (k-1)) / ||H - mu I||^2
        (1 - b) H + b mu I  is proportional to  H + damping mu I,   damping = b / (1 - b), kept within [0.01, 1]

    Tokens of one sequence resemble each other, so treating them as independent would damp far too little. Fewer than
    eight sequences are cut into pieces of equal length, eight or more in all where they have that many tokens.

    Parameters
    ----------
    features : int
    sequences : int
        How many will be added.
    blocks : int, optional
        Only products within each of so many equal blocks of features are wanted (the heads of a query map).

    Examples
    --------
    >>> import numpy as np
    >>> moments = MomentSum(2, sequences=8)
    >>> for _ in range(8):
    ...     moments.add(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> moments.finish()
    Moments(H=array([[1., 1.],
           [1., 2.]]), damping=0.01, length=2.0)
    """

    def __init__(self, features: int, sequences: int, blocks: int | None = None) -> None:
        self._shape = (features, features) if blocks is None else (blocks, features // blocks, features // blocks)
        self._blocks, self._pieces = blocks or 1, -(-_PIECES // sequences)
        self._total, self._rest = (np.zeros((self._blocks, *self._shape[-2:])) for _ in range(2))
        self._squares, self._draws, self._sequences, self._tokens = 0.0, 0, 0, 0

    def add(self, rows: Array, weights: Array | None = None) -> None:
        """One sequence (n, features), its tokens weighted by `weights` (n,) where given."""
        n = len(rows)
        self._sequences, self._tokens = self._sequences + 1, self._tokens + n
        pieces = min(n, self._pieces)
        length = n // pieces
        for start in range(0, n, length):
            part = slice(start, start + length)
            draw = self._product(rows[part], None if weights is None else weights[part])
            if start + length > n:  # what is left over belongs to the moments, but is no draw of its own
                self._rest += draw
            else:
                self._draws += 1
                self._total += draw
                self._squares += float(np.vdot(draw, draw))

    def _product(self, rows: Array, weights: Array | None) -> Array:
        blocks = rows.astype(np.float64, copy=False).reshape(len(rows), self._blocks, -1).swapaxes(0, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = blocks if weights is None else blocks * weights[:, np.newaxis]
            product: Array = np.matmul(blocks.swapaxes(1, 2), weighted)
        return product

    def finish(self) -> Moments:
        """The means over all tokens so far.

        Raises
        ------
        InvalidInstance
            If they overflow.
        """
        H = ((self._total + self._rest) / self._tokens).reshape(self._shape)
        if not np.isfinite(H).all():
            raise InvalidInstance("second moments must fit into float64; they overflow")
        return Moments(H, self._damping(), self._tokens / self._sequences)

    def _damping(self) -> float:
        if self._draws < 2:
            return _MOST
        mean = self._total / self._draws
        size = float(np.vdot(mean, mean))
        around_mean = (self._squares - self._draws * size) / (self._draws * (self._draws - 1))
        around_identity = size - float(np.einsum("bcc->", mean)) ** 2 / (mean.shape[0] * mean.shape[1])
        if around_mean >= around_identity:
            return _MOST
        share = around_mean / around_identity
        return float(min(_MOST, max(_LEAST, share / (1 - share))))


def second_moments(X: Array) -> Moments:
    """`MomentSum` of the sequences X (k, n, d)."""
    moments = MomentSum(X.shape[2], len(X))
    for sequence in X:
        moments.add(sequence)
    return moments.finish()


def shrinkage_damping(X: Array) -> float:
    """The damping that the sequences X (k, n, d) prescribe for X^T X (`MomentSum`).

    Examples
    --------
    >>> import numpy as np
    >>> alike = np.tile(np.diag([1.0, 2.0, 3.0]), (8, 1, 1))
    >>> shrinkage_damping(alike), shrinkage_damping(np.random.default_rng(0).normal(size=(8, 2, 40)))
    (0.01, 1.0)
    """
    return second_moments(X).damping


def input_metric(X: Array, damping: float | None) -> tuple[Array, float]:
    """H = X^T X / (k n) plus `damping` times its mean diagonal, and the damping used; (d, d).

    Raises
    ------
    InvalidInstance
        If X is zero, or H overflows or stays singular.
    """
    H, prescribed, _ = second_moments(X)
    if not H.any():
        raise InvalidInstance(f"X^T X must be finite and not zero; the largest |X| is {np.abs(X).max():.3g}")
    relative = prescribed if damping is None else damping
    return damped(H, relative), relative


def damped(metric: Array, relative: float, floor: Array | float = 0.0) -> Array:
    """`metric` (..., m, m) plus (`relative` times its mean diagonal + `floor`) times the identity."""
    m = metric.shape[-1]
    mean = np.trace(metric, axis1=-2, axis2=-1) / m
    added = relative * mean + floor
    result: Array = metric + np.asarray(added)[..., np.newaxis, np.newaxis] * np.eye(m)
    return result
