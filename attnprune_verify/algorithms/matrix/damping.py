"""Damping that the calibration tokens themselves prescribe: the trust in their second moments."""

from typing import NamedTuple

import numpy as np

from attnprune_verify.algorithms.arguments import refuse_powers
from attnprune_verify.algorithms.arrays import AnyArray, dot, eye_like, is_numpy_array, working_dtype, xp_of, zeros_like
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array

__all__ = ["MOST", "MomentSum", "Moments", "damped", "input_metric", "second_moments", "shrinkage_damping", "trace"]

_LEAST, MOST = 0.01, 1.0  # of the mean diagonal; chosen: SparseGPT's percdamp, and where shrinkage is a half
_POWER = 8  # tokens in the longest product: the key map's metric has four, and so has the square of H
_PIECES = 8  # chosen: fewer sequences than this are cut, so that a variance of draws can be estimated
_WIDE = 1024  # features: chosen. From here on float64 products take longer than the solvers on a whole window


class Moments(NamedTuple):
    """Second moments, and the relative damping that the draws prescribe for them.

    Attributes
    ----------
    H : (d, d) array, or (blocks, m, m) for blocks of features
        Means over the tokens; of the library and on the device of what was added.
    damping : float
        What the calibration sequences say should be added to the diagonal, relative to its mean.
    length : float
        Tokens per sequence.
    tokens : int or float
        Tokens of all sequences.
    """

    H: Array
    damping: float
    length: float
    tokens: float


class MomentSum:
    """Second moments of features, summed sequence by sequence; only sums are kept, where the sequences are.

    Sums of NumPy arrays are float64 (products of a sequence float32 where there are 1024 features or more and they are
    given so), those of other libraries have the precision of what is added, float32 at least.

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
           [1., 2.]]), damping=0.01, length=2.0, tokens=16)
    """

    def __init__(self, features: int, sequences: int, blocks: int | None = None) -> None:
        self._shape = (features, features) if blocks is None else (blocks, features // blocks, features // blocks)
        self._blocks, self._pieces = blocks or 1, -(-_PIECES // sequences)
        self._total: AnyArray = None
        self._rest: AnyArray = None
        self._squares, self._draws, self._sequences, self._tokens = 0.0, 0, 0, 0

    def add(self, rows: AnyArray, weights: AnyArray | None = None) -> None:
        """One sequence (n, features), its tokens weighted by `weights` (n,) where given."""
        n = rows.shape[0]
        self._sequences, self._tokens = self._sequences + 1, self._tokens + n
        pieces = min(n, self._pieces)
        length = n // pieces
        for start in range(0, n, length):
            part = slice(start, start + length)
            draw = self._product(rows[part, ...], None if weights is None else weights[part])
            if self._total is None:
                self._total, self._rest = (zeros_like(draw.shape, draw) for _ in range(2))
            if start + length > n:  # what is left over belongs to the moments, but is no draw of its own
                self._rest += draw
            else:
                self._draws += 1
                self._total += draw
                self._squares += dot(draw, draw)

    def _product(self, rows: AnyArray, weights: AnyArray | None) -> AnyArray:
        xp, dtype = xp_of(rows), working_dtype(rows)
        exact = xp.float32 if self._shape[-1] >= _WIDE and rows.dtype == xp.float32 else dtype
        blocks = xp.reshape(xp.astype(rows, exact, copy=False), (rows.shape[0], self._blocks, -1))
        blocks = xp.permute_dims(blocks, (1, 0, 2))
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = blocks if weights is None else blocks * xp.astype(weights, exact, copy=False)[:, None]
            return xp.astype(xp.matrix_transpose(blocks) @ weighted, dtype, copy=False)

    def finish(self) -> Moments:
        """The means over all tokens so far.

        Raises
        ------
        InvalidInstance
            If they overflow.
        """
        xp = xp_of(self._total)
        H = xp.reshape((self._total + self._rest) / self._tokens, self._shape)
        if not bool(xp.all(xp.isfinite(H))):
            raise InvalidInstance(f"second moments must fit into {H.dtype}; they overflow")
        return Moments(H, self._damping(), self._tokens / self._sequences, self._tokens)

    def _damping(self) -> float:
        if self._draws < 2:
            return MOST
        mean = self._total / self._draws
        size = dot(mean, mean)
        around_mean = (self._squares - self._draws * size) / (self._draws * (self._draws - 1))
        around_identity = size - trace(mean) ** 2 / (mean.shape[0] * mean.shape[1])
        if around_mean >= around_identity:
            return MOST
        share = around_mean / around_identity
        return float(min(MOST, max(_LEAST, share / (1 - share))))


def second_moments(X: Array) -> Moments:
    """`MomentSum` of the sequences X (k, n, d), refused where products of their metrics leave float64."""
    refuse_powers(X.reshape(-1, 1), _POWER)  # what one feature loses, the damping exceeds
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
    H, prescribed, *_ = second_moments(X)
    if not H.any():
        raise InvalidInstance(f"X^T X must be finite and not zero; the largest |X| is {np.abs(X).max():.3g}")
    relative = prescribed if damping is None else damping
    return damped(H, relative), relative


def damped(metric: AnyArray, relative: float, floor: AnyArray | float = 0.0) -> AnyArray:
    """`metric` (..., m, m) plus (`relative` times its mean diagonal + `floor`) times the identity."""
    m = metric.shape[-1]
    added = relative * (xp_of(metric).linalg.trace(metric) / m) + floor
    return metric + added[..., None, None] * eye_like(m, metric)


def trace(metric: AnyArray) -> float:
    """The sum of the traces of all blocks (blocks, m, m)."""
    if is_numpy_array(metric):
        return float(np.einsum("bcc->", metric))
    return float(xp_of(metric).sum(xp_of(metric).linalg.trace(metric)))
