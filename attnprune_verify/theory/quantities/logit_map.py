"""Pi A: how the centred logits depend on the mask M.

A : M -> X (M * W) X^T, and Pi sets forbidden positions to zero and subtracts each row's mean over the allowed ones
(softmax sees nothing else). Over a batch, K^2 is the largest eigenvalue of (1/k) sum_j A_j^* Pi_j A_j.
"""

import numpy as np

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.balls import normalised, power_of_two
from attnprune_verify.theory.numbers.spectral import dot_error

_ROWS = 256  # chosen: 256 rows of 10^5 logits are 200 MB


class LogitMap:
    """Pi A of an instance, scaled so that all entries are of size about 1.

    The true operator is `unit` times the one applied here.

    Examples
    --------
    >>> import numpy as np
    >>> logits = LogitMap(Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])))
    >>> (float(logits.unit.mid()) * logits.apply(np.eye(2))).tolist()  # X = I: centred rows of W * I
    [[[0.5, -0.5], [-0.5, 0.5]]]
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.X, token_exponent = normalised(instance.samples)
        self.W, weight_exponent = normalised(instance.W)
        self.unit = power_of_two(2 * token_exponent + weight_exponent)
        self.k, self.n, self.d = self.X.shape
        # Pi ignores a vector subtracted from every token; without the common part much less cancels
        self.Y = self.X - self.X.mean(axis=1, keepdims=True)
        self.weights = instance.allowed.astype(np.float64)
        self.counts = self.weights.sum(axis=1, keepdims=True)
        self.masked = instance.mask is not None and not bool(instance.allowed.all())
        if not self.masked:
            centred = self.Y - self.Y.mean(axis=1, keepdims=True)
            self._grams = [(x.T @ x, y.T @ y) for x, y in zip(self.X, centred, strict=True)]

    def centre(self, logits: Array) -> Array:
        """Pi: zero off the mask, each row minus its mean over the allowed positions."""
        kept = logits * self.weights
        centred: Array = kept - self.weights * (kept.sum(axis=-1, keepdims=True) / self.counts)
        return centred

    def apply(self, N: Array) -> Array:
        """(k, n, n): Pi X_j (N * W) X_j^T, without the factor 1/sqrt(k)."""
        return self.centre(self.X @ (N * self.W) @ self.Y.swapaxes(1, 2))

    def normal(self, N: Array) -> Array:
        """(1/k) sum_j A_j^* Pi_j A_j applied to N; O(d^3) per sample without a mask (no n x n matrix)."""
        V = N * self.W
        if self.masked:
            pulled: Array = sum((self._pulled(x, y, V) for x, y in zip(self.X, self.Y, strict=True)), np.zeros_like(V))
        else:
            pulled = sum((G @ V @ C for G, C in self._grams), np.zeros_like(V))
        normal: Array = self.W * pulled / self.k
        return normal

    def _pulled(self, x: Array, y: Array, V: Array) -> Array:
        """X^T Pi(X V X^T) X by blocks of rows, each cut after its last allowed column."""
        allowed = self.instance.allowed
        pulled = np.zeros_like(V)
        for start in range(0, self.n, _ROWS):
            rows = slice(start, start + _ROWS)
            block = allowed[rows]
            width = int(np.flatnonzero(block.any(axis=0))[-1]) + 1
            block, columns = block[:, :width], y[:width]
            logits = (x[rows] @ V) @ columns.T
            logits *= block
            logits -= block * (logits.sum(axis=1, keepdims=True) / self.counts[rows])
            pulled += x[rows].T @ (logits @ columns)
        return pulled

    def rounding(self) -> float:
        """Bound on the error of any float evaluation of `normal` or of its matrix, as a spectral norm.

        Every entry of the matrix is a sum of products w w' x x' y y', of absolute sum at most
        max|W|^2 (1/k) sum_j ||X_j||_F^2 * 2 ||Y_j||_F^2 in Frobenius norm, through at most 3 n + k + 2 d + 16
        consecutive roundings.
        """
        squares_x = np.einsum("kia,kia->k", self.X, self.X)
        squares_y = np.einsum("kia,kia->k", self.Y, self.Y)
        size = 2.0 * float(np.abs(self.W).max()) ** 2 * float((squares_x * squares_y).mean())
        return 1.001 * dot_error(3 * self.n + self.k + 2 * self.d + 16) * size + 2.0**-1000
