"""The literal loss at chosen precision (mpmath), differentiated by central differences; no closed form is used.

At `digits` decimal digits a first difference uses the step h = 10**(-digits/3): its truncation error, relative to the
third derivative h^2, and its cancellation error 10**-digits / h both leave about two thirds of the digits (33 of 50).
A second difference uses 10**(-digits/4) and keeps half of them. Steps are powers of two, so M + hD is exact.

Logits are formed exactly, as integers (`attnprune_verify.oracle.fixed_point`), so that large instances stay affordable.
Not rigorous; `attnprune_verify.oracle.ball` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import mpmath
import numpy as np
from mpmath import libmp
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.fixed_point import Fixed, aligned, fixed, product
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
_Line: TypeAlias = Callable[[int], Any]
_Raw: TypeAlias = tuple[int, int, int, int]
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
    return _global(Literal(M, X, W, lam, mask, digits=digits).at_M())


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
    """The gradient of the loss by central differences, shape (d, d), or only the named `entries` (in a row).

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
    exactly = np.frompyfunc(lambda value: Fraction(*value.as_integer_ratio()), 1, 1)
    vector = exactly(np.asarray(V).astype(object))  # V + E and V - E must not be rounded
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
    return _global(Literal((M_Q, M_K), X, (W_Q, W_K), lam, mask, digits=digits).at_M())


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
    still = np.zeros(shape, dtype=int)
    wrt_q = _collect(lambda unit: literal.slope(np.stack([unit, still])), shape, None)
    wrt_k = _collect(lambda unit: literal.slope(np.stack([still, unit])), shape, None)
    return wrt_q, wrt_k


class Literal:
    """The literal loss of one instance, F(1) kept, ready to be evaluated along lines through M.

    `M` and `W` are (d, d) matrices, or the pairs (M_Q, M_K) and (W_Q, W_K).
    """

    def __init__(
        self, M: Any, X: ArrayLike, W: Any, lam: float = 0.0, mask: MaskLike = None, *, digits: int = 50
    ) -> None:
        if isinstance(M, tuple):
            arrays, samples, allowed = exact(X, mask, M_Q=M[0], M_K=M[1], W_Q=W[0], W_K=W[1])
        else:
            arrays, samples, allowed = exact(X, mask, M=M, W=W)
        self._digits = digits
        self._bits = math.ceil((digits + 10) * math.log2(10))
        self._mp = mpmath.MPContext()  # its own precision: nobody else's is changed
        self._mp.prec = self._bits
        self._masks, self._weights = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
        self._lam = self._number(lam)
        self._tokens = [fixed(tokens, self._bits + 40) for tokens in samples]
        self._columns = [np.flatnonzero(row).tolist() for row in allowed]
        ones = [np.ones_like(part) for part in self._masks]
        self._dense = [self._softmax(*aligned(self._logits(tokens, [ones]))) for tokens in self._tokens]

    def at_M(self) -> Any:
        """L(M)."""
        steps = [np.zeros(part.shape) for part in self._masks]
        return self._line(steps, 0)[0](0) + self._lam * self._square(steps, 0)[0] / 2

    def slope(self, direction: ArrayLike) -> Any:
        """d/dt L(M + tD) at t = 0 by a central difference."""
        line, halvings = self._line(self._steps(direction), round(self._digits * math.log2(10) / 3))
        return _global((line(1) - line(-1)) * self._mp.mpf(2) ** (halvings - 1))

    def curvature(self, direction: ArrayLike) -> Any:
        """d^2/dt^2 L(M + tD) at t = 0 by a second difference."""
        line, halvings = self._line(self._steps(direction), round(self._digits * math.log2(10) / 4))
        return _global((line(1) - 2 * line(0) + line(-1)) * self._mp.mpf(2) ** (2 * halvings))

    def _steps(self, direction: ArrayLike) -> list[_Matrix]:
        step = np.asarray(direction)
        return [step] if len(self._masks) == 1 else list(step)

    def _line(self, steps: list[_Matrix], halvings: int) -> tuple[_Line, int]:
        """The function s -> L(M + s h D) - lam/2 ||M||^2 for integers s, and the number of halvings in h = 2**-number.

        `halvings` are counted from where the logits move by about 1, or M by about its size (at least 1): so the step
        suits weights and masks of any scale. The constant is left out because it may dwarf everything that varies.
        """
        moves = [self._logits(tokens, [self._masks, steps]) for tokens in self._tokens]
        by, at = (max(_log2(fixed(part, self._bits)) for part in parts) for parts in (steps, self._masks))
        reach = max(by - max(at, 0.0), *(_log2(powers[1]) for powers in moves))
        halvings += int(reach) if by > -math.inf else 0
        lines = []
        for powers in moves:
            scaled = [Fixed(part.integers, part.exponent - i * halvings) for i, part in enumerate(powers)]
            lines.append(aligned(scaled))
        squares = self._square(steps, halvings)

        def value(s: int) -> Any:
            misfit = self._mp.zero
            for dense, (powers, exponent) in zip(self._dense, lines, strict=True):
                logits = sum(part * s**i for i, part in enumerate(powers))
                misfit += self._distance(self._softmax([np.asarray(logits)], exponent), dense)
            size = squares[1] * s + squares[2] * s**2
            return misfit / (2 * len(lines)) + self._lam * size / 2

        return value, halvings

    def _square(self, steps: list[_Matrix], halvings: int) -> list[Any]:
        """The coefficients of 1, s, s^2 in ||M + s 2**-halvings D||^2."""
        totals = [self._mp.zero] * 3
        for mask, step in zip(self._masks, steps, strict=True):
            at, by = fixed(mask, self._bits + 40), fixed(step, self._bits + 40)
            by = Fixed(by.integers, by.exponent - halvings)
            for power, (left, right, times) in enumerate(((at, at, 1), (at, by, 2), (by, by, 1))):
                total = int((left.integers * right.integers).sum())
                totals[power] += times * self._mp.ldexp(total, left.exponent + right.exponent)
        return totals

    def _number(self, value: Any) -> Any:
        top, bottom = value.item().as_integer_ratio() if isinstance(value, np.generic) else value.as_integer_ratio()
        return self._mp.mpf(int(top)) / int(bottom)

    def _logits(self, tokens: Fixed, line: list[list[_Matrix]]) -> list[Fixed]:
        """The coefficients of 1, t, (t^2) in the logits for the masks line[0] + t line[1]."""
        bits = self._bits + 40
        if len(self._weights) == 1:
            weighted = [self._weighted(masks[0], self._weights[0]) for masks in line]
            return [product(product(tokens, part, bits), tokens.T, bits) for part in weighted]
        queries, keys = (
            [product(tokens, self._weighted(masks[side], self._weights[side]), bits) for masks in line]
            for side in (0, 1)
        )
        powers: list[list[Fixed]] = [[] for _ in range(2 * len(line) - 1)]
        for i, query in enumerate(queries):
            for j, key in enumerate(keys):
                powers[i + j].append(product(query, key.T, bits))
        totals = [aligned(parts) for parts in powers]
        return [Fixed(np.asarray(sum(parts)), exponent) for parts, exponent in totals]

    def _weighted(self, mask: _Matrix, weight: _Matrix) -> Fixed:
        left, right = fixed(mask, self._bits + 40), fixed(weight, self._bits + 40)
        return Fixed(left.integers * right.integers, left.exponent + right.exponent)

    def _softmax(self, logits: list[_Matrix], exponent: int) -> list[list[_Raw]]:
        """Rows of the softmax of logits[0] * 2**exponent, allowed positions only, as raw mpmath numbers."""
        bits = self._bits
        rows = []
        for row, columns in zip(logits[0].tolist(), self._columns, strict=True):
            largest = max(row[j] for j in columns)
            shifted = [libmp.from_man_exp(row[j] - largest, exponent, bits, "n") for j in columns]
            weights = [libmp.mpf_exp(value, bits, "n") for value in shifted]
            inverse = libmp.mpf_div(libmp.fone, libmp.mpf_sum(weights, bits, "n"), bits, "n")
            rows.append([libmp.mpf_mul(weight, inverse, bits, "n") for weight in weights])
        return rows

    def _distance(self, found: list[list[_Raw]], wanted: list[list[_Raw]]) -> Any:
        """The sum of squared differences."""
        squares = []
        for pair in zip(found, wanted, strict=True):
            differences = [libmp.mpf_sub(a, b, self._bits, "n") for a, b in zip(*pair, strict=True)]
            squares.append(libmp.mpf_sum([libmp.mpf_mul(c, c) for c in differences], self._bits, "n"))
        return self._mp.make_mpf(libmp.mpf_sum(squares, self._bits, "n"))


def _log2(matrix: Fixed) -> float:
    """The binary logarithm of the largest entry, rounded up to an integer; -inf for zeros."""
    bits = max(abs(value).bit_length() for value in matrix.integers.flat)
    return float(bits + matrix.exponent) if bits else -math.inf


def _collect(entry: Callable[[_Matrix], Any], shape: tuple[int, ...], entries: Entries) -> _Matrix:
    places = list(np.ndindex(*shape)) if entries is None else list(entries)
    values = np.empty(len(places), dtype=object)
    for index, place in enumerate(places):
        unit = np.zeros(shape, dtype=int)
        unit[place] = 1
        values[index] = entry(unit)
    return values.reshape(shape) if entries is None else values


def _global(value: Any) -> Any:
    """The same number in mpmath's ordinary context, nothing rounded."""
    return mpmath.mp.make_mpf(value._mpf_)
