"""K of a head with rotary positions: the norm of its own logit map, from both sides.

Token i's queries and token j's keys are turned by R_i and R_j, so the weight between them depends on j - i, and a mask
M on the fused weight acts on all of these weights at once (without rotations all are W = U V^T, U and V the head's
query and key weights)::

    A : M -> z,   z_ij = x_i^T (M * (U R_{j-i} V^T)) x_j = sum_t E_t[i, j] x_i^T (M * W_t) x_j

With w_a the frequency of pair a, E is cos or sin of (j - i) w_a and W_t the part of U V^T that it multiplies.
"""

import numpy as np
from flint import arb
from numpy.typing import NDArray

from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.balls import normalised, power_of_two, precision
from attnprune_verify.theory.numbers.spectral import UNIT_ROUNDOFF, dot_error, largest_eigenvalue, spectral_norm
from attnprune_verify.theory.quantities.operator_norm import NormBounds

_DENSE_WORK = 4e9
"""Multiplications spent on the d^2 x d^2 Gram matrix and its largest eigenvalue, which give K to many digits."""
_STEPS_WORK = 4e9  # multiplications spent on power steps, as many as on the dense route
_MOST_STEPS = 30  # chosen: the start of a certificate, which holds after any number


class RotatedMap:
    """Pi A of one head, scaled so that all entries are of size about 1; the true operator is `unit` times it.

    Parameters
    ----------
    X : (k, n, d) array
    U, V : (d, m) arrays
        The head's query weight, times the scale, and its key weight.
    rope : RoPE
    allowed : (n, n) array of bool

    Examples
    --------
    >>> import numpy as np
    >>> head = RotatedMap(np.ones((1, 2, 1)), np.eye(1, 2), np.eye(1, 2), RoPE(2.0), np.ones((2, 2), dtype=bool))
    >>> (float(head.unit.mid()) * head.apply(np.eye(1))).round(4).tolist()  # 1 and cos 1, centred
    [[[0.2298, -0.2298], [-0.2298, 0.2298]]]
    """

    def __init__(self, X: Array, U: Array, V: Array, rope: RoPE, allowed: NDArray[np.bool_]) -> None:
        self.X, token_exponent = normalised(X)
        self.U, query_exponent = normalised(U)
        self.V, key_exponent = normalised(V)
        self.unit = power_of_two(2 * token_exponent + query_exponent + key_exponent)
        self.k, self.n, self.d = self.X.shape
        self.rope = rope
        self.weights = allowed.astype(np.float64)
        self.counts = self.weights.sum(axis=1, keepdims=True)
        first, second = rope.pairs(U.shape[1])
        places = np.arange(self.n)
        self._angles = [(places[None, :] - places[:, None]) * w for w in rope.frequencies(U.shape[1])]
        sides = (side[:, half].T for side in (self.U, self.V) for half in (first, second))
        self._pairs = list(zip(*sides, strict=True))

    def _terms(self) -> list[tuple[Array, Array]]:
        """(E_t, W_t): q1 k1 + q2 k2 turns with the cosine, q2 k1 - q1 k2 with the sine of (j - i) w."""
        found = []
        for angle, (q1, q2, k1, k2) in zip(self._angles, self._pairs, strict=True):
            found.append((np.cos(angle), np.outer(q1, k1) + np.outer(q2, k2)))
            found.append((np.sin(angle), np.outer(q2, k1) - np.outer(q1, k2)))
        return found

    def centre(self, logits: Array) -> Array:
        """Pi: zero off the mask, each row minus its mean over the allowed positions."""
        kept = logits * self.weights
        centred: Array = kept - self.weights * (kept.sum(axis=-1, keepdims=True) / self.counts)
        return centred

    def apply(self, N: Array) -> Array:
        """(k, n, n): Pi A N for every sample, without the factor 1/sqrt(k)."""
        total = np.zeros((self.k, self.n, self.n))
        for E, W in self._terms():
            total += E * (self.X @ (N * W) @ self.X.swapaxes(1, 2))
        return self.centre(total)

    def normal(self, N: Array) -> Array:
        """(1/k) sum_j A_j^* Pi_j A_j N."""
        P = self.apply(N)
        pulled = np.zeros_like(N)
        for E, W in self._terms():
            pulled += W * np.einsum("kia,kib->ab", self.X, (E * P) @ self.X, optimize=True)
        result: Array = pulled / self.k
        return result

    def gram(self) -> Array:
        """The d^2 x d^2 matrix of `normal`, row by row of the attention matrix."""
        terms, size = self._terms(), self.d * self.d
        total = np.zeros((size, size))
        for x in self.X:
            for i in range(self.n):
                B = sum((np.outer(E[i], (x[i][:, None] * W).ravel()) for E, W in terms), np.zeros((self.n, size)))
                B = (B.reshape(self.n, self.d, self.d) * x[:, None, :]).reshape(self.n, size)
                B = B * self.weights[i][:, None]
                B -= self.weights[i][:, None] * (B.sum(axis=0) / self.counts[i])
                total += B.T @ B
        symmetric: Array = (total + total.T) / (2 * self.k)
        return symmetric

    def rounding(self) -> float:
        """Bound on the error of any float evaluation of `normal` or of its matrix, as a spectral norm.

        Both are sums of products of entries of A, each at most |x_ia| |x_jb| (|U| |V|^T)_ab in size and made in at
        most 2 m + 8 roundings; an angle of size n is off by n u, and so are its cosine and sine.
        """
        squares = float(np.square(np.einsum("kia,kia->k", self.X, self.X)).mean())
        largest = float((np.abs(self.U) @ np.abs(self.V).T).max())
        each = dot_error(2 * self.n + self.k + 4 * self.U.shape[1] + 32) + 16 * self.n * UNIT_ROUNDOFF
        return float(1.001 * each * 4 * largest**2 * squares + 2.0**-1000)

    def product_bound(self) -> float:
        """K from above, by `_stacks`: the best of the two ways, in mean square over the samples."""
        found = [[a * b for a, b in self._stacks(x)] for x in self.X]
        return min(float(np.sqrt(np.mean(np.square(way)))) for way in zip(*found, strict=True)) * (1 + 1e-12)

    def _stacks(self, x: Array) -> list[tuple[float, float]]:
        """Return two factorisations of the norm.

        z = sum_c P_c M Q_c^T, (P_c)_ia = x_ia (U R_i)_ac and (Q_c)_jb = x_jb (V R_j)_bc. Beside each other
        the P_c make a matrix of norm p, over each other the M Q_c^T one of Frobenius norm at most q ||M||_F, q the norm
        of the Q_c over each other: K <= p q; the same with both sides exchanged. Q_c is centred over the tokens, which
        leaves at least as much as centring over some of them.
        """
        P, Q = self._turned(x, self.U), self._turned(x, self.V)
        Q = Q - Q.mean(axis=0)
        beside, over = (self.n, -1), (-1, self.d)
        return [
            (self._norm(P.reshape(beside)), self._norm(Q.reshape(over))),
            (self._norm(P.reshape(over)), self._norm(Q.reshape(beside))),
        ]

    def _turned(self, x: Array, weight: Array) -> Array:
        """(n, m, d): x_ia (weight R_i)_ac."""
        turned = self.rope.rotate(np.repeat(weight[:, None, :], self.n, axis=1))  # (d, n, m): row i by R_i
        product: Array = turned.transpose(1, 2, 0) * x[:, None, :]
        return product

    def _norm(self, stack: Array) -> float:
        """||stack||_2 from above: every entry carries an angle's error of n u and a few roundings."""
        slip = (16 + 8 * self.n) * UNIT_ROUNDOFF * float(np.linalg.norm(stack))
        return float((spectral_norm(stack) + slip) * (1 + 4 * UNIT_ROUNDOFF))


def rotated_norm(X: Array, U: Array, V: Array, rope: RoPE, allowed: NDArray[np.bool_]) -> NormBounds:
    """K = ||Pi A||_op from both sides; arguments as of `RotatedMap`.

    Above: a Cholesky decomposition of theta I minus the d^2 x d^2 Gram matrix where that is affordable, else a product
    of two norms, 1.5 to 3.2 times K on random heads. Below: the quotient at the last vector of a power iteration.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = rotated_norm(np.ones((1, 2, 1)), np.eye(1, 2), np.eye(1, 2), RoPE(2.0), np.ones((2, 2), dtype=bool))
    >>> round(float(bounds.lower), 9), round(float(bounds.upper), 9), round(1 - float(np.cos(1.0)), 9)
    (0.459697694, 0.459697694, 0.459697694)
    """
    with precision():
        head = RotatedMap(X, U, V, rope, allowed)
        if not (head.X.any() and head.U.any() and head.V.any()):
            return NormBounds(arb(0), arb(0), "zero operator")
        rounding = head.rounding()
        if head.k * head.n**2 * head.d**4 + 2 * head.d**6 <= _DENSE_WORK:
            square, vector = largest_eigenvalue(head.gram(), rounding)
            assert vector is not None  # no estimate was given
            upper, method = arb(square).sqrt(), "Cholesky of the d^2 x d^2 Gram matrix"
        else:
            vector, upper, method = _top(head), arb(head.product_bound()), "product of two norms"
        N = vector.reshape(head.d, head.d)
        quotient = float(np.vdot(N, head.normal(N)) / np.vdot(N, N))
        lower = arb(max(quotient * (1 - 4 * dot_error(N.size)) - rounding, 0.0)).sqrt()
        return NormBounds(lower * head.unit, upper * head.unit, method)


def _top(head: RotatedMap) -> Array:
    """A vector near the top eigenvector, by as many power steps as are affordable."""
    cost = 4.0 * head.k * head.U.shape[1] * head.n * head.d * (head.d + head.n)
    vector: Array = np.abs(head.U @ head.V.T) + 1e-2 * np.random.default_rng(0).standard_normal((head.d, head.d))
    for _ in range(int(min(max(_STEPS_WORK / cost, 2), _MOST_STEPS))):
        image = head.normal(vector / np.linalg.norm(vector))
        if not image.any():
            break
        vector = image
    return vector
