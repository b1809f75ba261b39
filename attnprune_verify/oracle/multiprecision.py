"""The literal loss at chosen precision (mpmath), differentiated by central differences; no closed form is used.

At `digits` decimal digits a first difference uses the step 10**(-digits/3): its truncation error, relative to the
third derivative h^2, and its cancellation error 10**-digits / h both leave about two thirds of the digits (33 of 50).
A second difference uses 10**(-digits/4) and keeps half of them.

Logits are formed exactly, as integers (`attnprune_verify.oracle.fixed_point`), so that large instances stay affordable.
Not rigorous; `attnprune_verify.oracle.ball` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import mpmath
import numpy as np
from mpmath import libmp
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.fixed_point import Fixed, fixed, product
from attnprune_verify.oracle.inputs import exact

__all__ = [
    "Literal",
    "directional_derivative",
    "factored_gradient",
    "factored_loss",
    "gradient",
    "hessian_vector_product",
    "loss",
]

_Matrix: TypeAlias = NDArray[Any]
_Line: TypeAlias = Callable[[Any], Any]
Entries: TypeAlias = Iterable[tuple[int, int]] | None


def loss(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, *, digits: int = 50) -> Any:
    """L(M) = 1/2 ||F(M) - F(1)||_F^2 + lam/2 ||M||_F^2 as an mpmath number (def:loss_func).

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> float(loss(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5))
    1.0
    """
    return _global(Literal(M, X, W, lam, mask, digits=digits).along(np.zeros(np.shape(M)))(0))


def directional_derivative(
    M: ArrayLike, D: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, *, digits: int = 50
) -> Any:
    """d/dt L(M + tD) at t = 0 as an mpmath number, from two evaluations of the loss.

    Examples
    --------
    >>> import numpy as np
    >>> float(directional_derivative(np.ones((2, 2)), np.eye(2), np.eye(2), np.eye(2), lam=0.5))
    1.0
    """
    return Literal(M, X, W, lam, mask, digits=digits).slope(D)


def gradient(
    M: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    *,
    digits: int = 50,
    entries: Entries = None,
) -> _Matrix:
    """The gradient of the loss by central differences, shape (d, d), or only the named `entries`, shape (len(entries),).

    Examples
    --------
    >>> import numpy as np
    >>> gradient(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5, entries=[(0, 1)]).astype(float)
    array([0.5])
    """
    literal = Literal(M, X, W, lam, mask, digits=digits)
    return _collect(literal.slope, np.shape(M), entries)


def hessian_vector_product(
    M: ArrayLike,
    V: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    *,
    digits: int = 50,
    entries: Entries = None,
) -> _Matrix:
    """The Hessian of the loss times V by second differences, (q(V + E) - q(V - E)) / 4 with q the quadratic form.

    Examples
    --------
    >>> import numpy as np
    >>> hessian_vector_product(np.ones((1, 1)), [[2.0]], [[1.0]], [[1.0]], lam=0.5).astype(float)
    array([[1.]])
    """
    literal = Literal(M, X, W, lam, mask, digits=digits)
    vector = np.asarray(V).astype(float)
    return _collect(
        lambda unit: (literal.curvature(vector + unit) - literal.curvature(vector - unit)) / 4, np.shape(M), entries
    )


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    *,
    digits: int = 50,
) -> Any:
    """The loss with logits X (M_Q*W_Q)(M_K*W_K)^T X^T and lam/2 (||M_Q||^2 + ||M_K||^2) (eq:new_loss).

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> float(factored_loss(ones, ones, np.eye(2), ones, ones, lam=0.5))
    1.0
    """
    still = np.zeros((2, *np.shape(M_Q)))
    return _global(Literal((M_Q, M_K), X, (W_Q, W_K), lam, mask, digits=digits).along(still)(0))


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    *,
    digits: int = 50,
) -> tuple[_Matrix, _Matrix]:
    """The gradients of `factored_loss` with respect to M_Q and M_K by central differences.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((1, 1))
    >>> [part.astype(float).tolist() for part in factored_gradient(ones, ones, ones, ones, ones, lam=0.5)]
    [[[0.5]], [[0.5]]]
    """
    literal = Literal((M_Q, M_K), X, (W_Q, W_K), lam, mask, digits=digits)
    shape = np.shape(M_Q)
    still = np.zeros(shape)
    wrt_q = _collect(lambda unit: literal.slope(np.stack([unit, still])), shape, None)
    wrt_k = _collect(lambda unit: literal.slope(np.stack([still, unit])), shape, None)
    return wrt_q, wrt_k


class Literal:
    """The literal loss of one instance, F(1) kept, ready to be evaluated along lines through M.

    `M` and `W` are (d, d) matrices, or the pairs (M_Q, M_K) and (W_Q, W_K).
    """

    def __init__(
        self,
        M: ArrayLike | tuple[ArrayLike, ArrayLike],
        X: ArrayLike,
        W: ArrayLike | tuple[ArrayLike, ArrayLike],
        lam: float = 0.0,
        mask: MaskLike = None,
        *,
        digits: int = 50,
    ) -> None:
        if isinstance(M, tuple) and isinstance(W, tuple):
            arrays, samples, allowed = exact(X, mask, M_Q=M[0], M_K=M[1], W_Q=W[0], W_K=W[1])
            self._masks, self._weights = arrays[:2], arrays[2:]
        else:
            arrays, samples, allowed = exact(X, mask, M=M, W=W)
            self._masks, self._weights = arrays[:1], arrays[1:]
        self._mp = mpmath.MPContext()  # its own precision: nobody else's is changed
        self._mp.dps = digits + 10
        self._bits = self._mp.prec + 40
        self._digits = digits
        self._lam = self._number(lam)
        self._tokens = [fixed(tokens, self._bits) for tokens in samples]
        self._columns = [np.flatnonzero(row).tolist() for row in allowed]
        ones = [np.ones_like(part) for part in self._masks]
        self._dense = [self._softmax(self._logits(tokens, [ones])) for tokens in self._tokens]

    def along(self, direction: ArrayLike) -> _Line:
        """The function t -> L(M + tD)."""
        step = np.asarray(direction)
        steps = [step] if len(self._masks) == 1 else list(step)
        lines = [self._logits(tokens, [self._masks, steps]) for tokens in self._tokens]
        pairs = [
            (self._number(at), self._number(by))
            for mask, part in zip(self._masks, steps, strict=True)
            for at, by in zip(mask.flat, part.flat, strict=True)
        ]

        def value(t: Any) -> Any:
            misfit = self._mp.zero
            for dense, line in zip(self._dense, lines, strict=True):
                for found, wanted in zip(self._softmax(line, t), dense, strict=True):
                    misfit += self._mp.fsum(((a - b) for a, b in zip(found, wanted, strict=True)), squared=True)
            size = self._mp.fsum((at + t * by for at, by in pairs), squared=True)
            return misfit / (2 * len(lines)) + self._lam * size / 2

        return value

    def slope(self, direction: ArrayLike) -> Any:
        """d/dt L(M + tD) at t = 0 by a central difference."""
        line, h = self.along(direction), self._mp.mpf(10) ** (-self._digits // 3)
        return _global((line(h) - line(-h)) / (2 * h))

    def curvature(self, direction: ArrayLike) -> Any:
        """d^2/dt^2 L(M + tD) at t = 0 by a second difference."""
        line, h = self.along(direction), self._mp.mpf(10) ** (-self._digits // 4)
        return _global((line(h) - 2 * line(0) + line(-h)) / h**2)

    def _number(self, value: Any) -> Any:
        numerator, denominator = value.as_integer_ratio() if hasattr(value, "as_integer_ratio") else (int(value), 1)
        return self._mp.mpf(int(numerator)) / int(denominator)

    def _logits(self, tokens: Fixed, line: list[list[_Matrix]]) -> list[_Matrix]:
        """The coefficients of the powers of t in the logits, as mpmath matrices, for masks line[0] + t line[1]."""
        if len(self._weights) == 1:
            coefficients = [[self._weighted(masks[0], self._weights[0])] for masks in line]
            sums = [
                [product(product(tokens, part, self._bits), tokens.T, self._bits) for part in parts]
                for parts in coefficients
            ]
        else:
            queries, keys = (
                [product(tokens, self._weighted(masks[side], self._weights[side]), self._bits) for masks in line]
                for side in (0, 1)
            )
            sums = [[] for _ in range(2 * len(line) - 1)]
            for i, query in enumerate(queries):
                for j, key in enumerate(keys):
                    sums[i + j].append(product(query, key.T, self._bits))
        return [sum(self._numbers(part) for part in parts) for parts in sums]

    def _weighted(self, mask: _Matrix, weight: _Matrix) -> Fixed:
        left, right = fixed(mask, self._bits), fixed(weight, self._bits)
        return Fixed(left.integers * right.integers, left.exponent + right.exponent)

    def _numbers(self, matrix: Fixed) -> Any:
        make, precision = self._mp.make_mpf, self._mp.prec
        numbers = np.empty(matrix.integers.size, dtype=object)
        numbers[:] = [make(libmp.from_man_exp(value, matrix.exponent, precision)) for value in matrix.integers.flat]
        return numbers.reshape(matrix.integers.shape)

    def _softmax(self, line: list[_Matrix], t: Any = 0) -> list[list[Any]]:
        """Rows of the softmax, allowed positions only."""
        rows = []
        for i, columns in enumerate(self._columns):
            row = [line[0][i, j] for j in columns]
            for power, coefficient in enumerate(line[1:], start=1):
                scale = t**power
                row = [value + scale * coefficient[i, j] for value, j in zip(row, columns, strict=True)]
            largest = max(row)
            weights = [self._mp.exp(value - largest) for value in row]
            inverse = 1 / self._mp.fsum(weights)
            rows.append([weight * inverse for weight in weights])
        return rows


def _collect(entry: Callable[[NDArray[np.float64]], Any], shape: tuple[int, ...], entries: Entries) -> _Matrix:
    places = list(np.ndindex(*shape)) if entries is None else list(entries)
    values = np.empty(len(places), dtype=object)
    for index, place in enumerate(places):
        unit = np.zeros(shape)
        unit[place] = 1.0
        values[index] = entry(unit)
    return values.reshape(shape) if entries is None else values


def _global(value: Any) -> Any:
    """The same number in mpmath's ordinary context, nothing rounded."""
    return mpmath.mp.make_mpf(value._mpf_)
