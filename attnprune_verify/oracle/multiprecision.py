"""The literal loss at chosen precision (mpmath), differentiated by central differences; no closed form is used.

At `digits` decimal digits a first difference uses the step h = 10**(-digits/3): its truncation error, relative to the
third derivative h^2, and its cancellation error 10**-digits / h both leave about two thirds of the digits (33 of 50).
A second difference uses 10**(-digits/4) and keeps half of them. Steps are powers of two, so M + hD is exact.

Logits are formed as integers (`attnprune_verify.oracle.fixed_point`), so that large instances stay affordable; only the
sine and cosine of rotations are rounded there, to as many bits. Caps, exponentials and quotients are mpmath's.
Not rigorous; `attnprune_verify.oracle.ball` is.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import mpmath
import numpy as np
from mpmath import libmp
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.comparison import (
    SIGMAS,
    WORTH,
    GradientClaim,
    OracleVerdict,
    Status,
    against,
    length,
)
from attnprune_verify.oracle.fixed_point import FixedPoint, aligned, fixed, product, rounded
from attnprune_verify.oracle.inputs import OracleInput, frequency

_Matrix: TypeAlias = NDArray[Any]
_Line: TypeAlias = Callable[[int], Any]
_Raw: TypeAlias = tuple[int, int, int, int]


class _Sides(NamedTuple):
    """One head's queries, times the scale, and keys of one sample."""

    head: int
    query: FixedPoint
    key: FixedPoint


def loss(at: OracleInput, *, digits: int = 50) -> Any:
    """L(M) = 1/2 ||F(M) - F(1)||_F^2 + lam/2 ||M||_F^2 as an mpmath number (def:loss_func).

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> float(loss(fused(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5)))
    1.0
    """
    return _global(Literal(at, digits=digits).at_M())


def directional_derivative(at: OracleInput, *direction: ArrayLike, digits: int = 50) -> Any:
    """d/dt L(M + tD) at t = 0 as an mpmath number, from two evaluations of the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> float(directional_derivative(fused(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5), np.eye(2)))
    1.0
    """
    return Literal(at, digits=digits).slope(*direction)


def gradient(at: OracleInput, *, digits: int = 50, entries: Iterable[int] | None = None) -> _Matrix:
    """The gradient of the loss by central differences, as one vector (`OracleInput.flat`), or only the named `entries`.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> gradient(fused(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5), entries=[1]).astype(float)
    array([0.5])
    """
    literal = Literal(at, digits=digits)
    return _collect(lambda unit: literal.slope(*at.parted(unit)), at.size, entries)


def hessian_vector_product(
    at: OracleInput, *directions: ArrayLike, digits: int = 50, entries: Iterable[int] | None = None
) -> _Matrix:
    """The Hessian of the loss times V by second differences, (q(V + E) - q(V - E)) / 4 with q the quadratic form.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.oracle.inputs import fused
    >>> hessian_vector_product(fused(np.ones((1, 1)), [[1.0]], [[1.0]], lam=0.5), [[2.0]]).astype(float)
    array([1.])
    """
    literal = Literal(at, digits=digits)
    exactly = np.frompyfunc(lambda value: Fraction(*value.as_integer_ratio()), 1, 1)
    vector = np.concatenate([exactly(V.astype(object)).ravel() for V in at.directions(*directions)])

    def entry(unit: _Matrix) -> Any:  # V + E and V - E must not be rounded
        return (literal.curvature(*at.parted(vector + unit)) - literal.curvature(*at.parted(vector - unit))) / 4

    return _collect(entry, at.size, entries)


def cost(at: OracleInput) -> float:
    """Nominal seconds of F(1) and one difference: exponentials at 60 digits, products of integers cut into limbs."""
    return _start(at) + _each(at)


def judge(claim: GradientClaim) -> OracleVerdict:
    """Compare every entry of a small problem; else up to 4 random directions, as many as half the effort allows."""
    at, start, each = claim.at, _start(claim.at), _each(claim.at)
    literal, bound, fine = Literal(at), claim.bound, claim.fine
    if start + (each + 1e-3) * at.size <= min(1.0, claim.effort):
        slopes = np.array([float(literal.slope(*at.parted(unit))) for unit in np.eye(at.size)])
        slopes = np.where(np.abs(slopes) < 1e-12 * bound, 0.0, slopes)
        note = f"all {at.size} entries at 50 digits"
        return against("multiprecision", claim.given, slopes, bound, fine.entries, note)
    count = int(min(4, max(1, (claim.effort / 2 - start) / each)))
    size = length(claim.reference) or 1.0
    # Signs drawn after the errors were made: their sum is below 6 times its standard deviation, or the plain sum.
    limits = [min(float(part.sum()), SIGMAS * length(part)) for part in (bound, fine.entries)]
    limits = [limits[0] / size, min(limits[1], fine.norm) / size]
    errors = []
    for _ in range(count):
        signs = claim.rng.choice([-1.0, 1.0], size=at.size)
        errors.append(abs(math.fsum(claim.given * signs) - float(literal.slope(*at.parted(signs)))) / size)
    worst, note = max(errors), f"{count} random direction{'s'[: count - 1]} at 50 digits"
    status: Status = "passed" if worst <= limits[1] else "failed" if worst > limits[0] else "inconclusive"
    if status == "passed" and not limits[1] <= (WORTH if claim.reference.any() else sys.float_info.max):
        status, note = "inconclusive", f"{note}; rounding may hide errors of {limits[1]:.1g}"
    return OracleVerdict("multiprecision", status, worst, limits[0] if status == "failed" else limits[1], note)


def _start(at: OracleInput) -> float:
    return 3.5e-6 * _scores(at) + 1e-8 * at.products


def _each(at: OracleInput) -> float:
    return 1.2e-5 * _scores(at) + 1.3e-8 * at.products + 4e-6 * at.size


def _scores(at: OracleInput) -> int:
    """Logits, counted more than once where caps and distances keep them from being shifted as integers."""
    return at.logits * (1 + 3 * (at.softcap is not None) + (at.alibi is not None))


class Literal:
    """The literal loss of one problem, F(1) kept, ready to be evaluated along lines through M."""

    def __init__(self, at: OracleInput, *, digits: int = 50) -> None:
        self._at, self._digits = at, digits
        self._bits = math.ceil((digits + 10) * math.log2(10))
        self._mp = mpmath.MPContext()  # its own precision: nobody else's is changed
        self._mp.prec = self._bits
        self._lam, self._scale = self._number(at.lam), self._fixed(np.array([[at.scale]]))
        self._tokens = [self._fixed(tokens) for tokens in at.samples]
        self._turns = None if at.rope is None else self._rotations(len(at.allowed), at.m)
        self._columns = [np.flatnonzero(row).tolist() for row in at.allowed]
        self._fall = None if at.alibi is None else [self._number(slope) for slope in at.alibi]
        ones = [np.ones_like(W) for W in at.weights]
        self._dense = [self._softmax(sides.head, *aligned([logits])) for sides, logits in self._standing(ones)]

    @cached_property
    def _here(self) -> list[tuple[_Sides, FixedPoint]]:
        """Queries, keys and logits at M, which every line starts from."""
        return self._standing(self._at.masks)

    def at_M(self) -> Any:
        """L(M)."""
        return self._line([np.zeros(part.shape) for part in self._at.masks], 0)[0](0) + self._size(self._at.masks) / 2

    def slope(self, *direction: ArrayLike) -> Any:
        """d/dt L(M + tD) at t = 0 by a central difference."""
        steps = self._at.directions(*direction)
        line, halvings = self._line(steps, round(self._digits * math.log2(10) / 3))
        return _global((line(1) - line(-1)) * self._mp.mpf(2) ** (halvings - 1) + self._size(self._at.masks, steps))

    def curvature(self, *direction: ArrayLike) -> Any:
        """d^2/dt^2 L(M + tD) at t = 0 by a second difference."""
        steps = self._at.directions(*direction)
        line, halvings = self._line(steps, round(self._digits * math.log2(10) / 4))
        return _global((line(1) - 2 * line(0) + line(-1)) * self._mp.mpf(2) ** (2 * halvings) + self._size(steps))

    def _line(self, steps: Sequence[_Matrix], halvings: int) -> tuple[_Line, int]:
        """The function s -> L(M + s h D) without the regulariser for integers s, and the number of halvings in h.

        h = 2**-number; `halvings` are counted from where the logits move by about 1, which suits weights and masks of
        any scale. The regulariser's differences are exact for any h and are left to the caller: the part that varies
        here would hide a small lam.
        """
        moves = self._moves(steps)
        reach = max(_log2(part) / i for _, powers in moves for i, part in enumerate(powers) if i)
        halvings += int(reach) if reach > -math.inf else 0
        lines = []
        for head, powers in moves:
            scaled = [FixedPoint(part.integers, part.exponent - i * halvings) for i, part in enumerate(powers)]
            lines.append((head, *aligned(scaled)))

        def value(s: int) -> Any:
            misfit = self._mp.zero
            for dense, (head, powers, exponent) in zip(self._dense, lines, strict=True):
                logits = sum(part * s**i for i, part in enumerate(powers))
                misfit += self._distance(self._softmax(head, [np.asarray(logits)], exponent), dense)
            return misfit / (2 * len(self._tokens))

        return value, halvings

    def _size(self, left: Sequence[_Matrix], right: Sequence[_Matrix] | None = None) -> Any:
        """lam <A, B>, with B = A by default; <A, B> exactly."""
        total = self._mp.zero
        for one, other in zip(left, left if right is None else right, strict=True):
            entries = _times(self._fixed(one), self._fixed(other))
            total += self._mp.ldexp(int(entries.integers.sum()), entries.exponent)
        return self._lam * total

    def _number(self, value: Any) -> Any:
        top, bottom = value.item().as_integer_ratio() if isinstance(value, np.generic) else value.as_integer_ratio()
        return self._mp.mpf(int(top)) / int(bottom)

    def _fixed(self, array: Any) -> FixedPoint:
        return fixed(np.asarray(array), self._bits + 40)

    def _sides(self, masks: Sequence[_Matrix], order: int) -> list[_Sides]:
        """For every sample and head: the queries and keys that the masks times t^order add; biases at t^0."""
        at, bits, found = self._at, self._bits + 40, []
        weighted = [_times(self._fixed(M), self._fixed(W)) for M, W in zip(masks, at.weights, strict=True)]
        for tokens in self._tokens:
            rows = [
                self._shifted(product(tokens, A, bits), None if order else bias)
                for A, bias in zip(weighted, at.biases, strict=False)
            ]
            for head in range(at.heads):
                places = (head, head // (at.heads // at.kv_heads))
                query, *keys = (self._turned(side, place) for side, place in zip(rows, places, strict=False))
                found.append(_Sides(head, _times(query, self._scale), keys[0] if at.moves_keys else tokens))
        return found

    def _standing(self, masks: Sequence[_Matrix]) -> list[tuple[_Sides, FixedPoint]]:
        """For every sample and head: the queries and keys under the masks, and scale q k^T."""
        sides = self._sides(masks, 0)
        return [(one, product(one.query, one.key.T, self._bits + 40)) for one in sides]

    def _moves(self, steps: Sequence[_Matrix]) -> list[tuple[int, list[FixedPoint]]]:
        """For every sample and head: the head, and scale q k^T on the line through M by powers of t."""
        bits, found = self._bits + 40, []
        for (here, logits), step in zip(self._here, self._sides(steps, 1), strict=True):
            powers = [logits, product(step.query, here.key.T, bits)]
            if self._at.moves_keys:
                powers[1] = _sum([product(here.query, step.key.T, bits), powers[1]])
                powers.append(product(step.query, step.key.T, bits))
            found.append((here.head, powers))
        return found

    def _shifted(self, rows: FixedPoint, bias: Any) -> FixedPoint:
        return rows if bias is None else _sum([rows, self._fixed(np.asarray(bias)[np.newaxis])])

    def _rotations(self, n: int, m: int) -> tuple[FixedPoint, FixedPoint]:
        """The cosines and sines of every position and pair."""
        waves = [frequency(self._at.rope, pair, m, self._number, self._mp.pi) for pair in range(m // 2)]
        one = self._mp.mpf(2) ** self._bits
        tables = [
            [[int(self._mp.nint(turn(i * wave) * one)) for wave in waves] for i in range(n)]
            for turn in (self._mp.cos, self._mp.sin)
        ]
        return FixedPoint(np.array(tables[0], dtype=object), -self._bits), FixedPoint(
            np.array(tables[1], dtype=object), -self._bits
        )

    def _turned(self, rows: FixedPoint, place: int) -> FixedPoint:
        """The columns of one head, turned by position."""
        m = self._at.m
        own = FixedPoint(rows.integers[:, place * m : (place + 1) * m], rows.exponent)
        if self._turns is None:
            return own
        half = self._at.rope.layout == "half"
        a, b = (slice(0, m // 2), slice(m // 2, m)) if half else (slice(0, m, 2), slice(1, m, 2))
        (cos, exponent), (sin, _) = self._turns
        turned = np.empty_like(own.integers)
        turned[:, a] = own.integers[:, a] * cos - own.integers[:, b] * sin
        turned[:, b] = own.integers[:, a] * sin + own.integers[:, b] * cos
        return rounded(FixedPoint(turned, own.exponent + exponent), self._bits + 40)

    def _softmax(self, head: int, logits: list[_Matrix], exponent: int) -> list[list[_Raw]]:
        """Rows of the softmax of logits[0] * 2**exponent, allowed positions only, as raw mpmath numbers."""
        bits = self._bits
        rows = []
        for i, (row, columns) in enumerate(zip(logits[0].tolist(), self._columns, strict=True)):
            if self._at.softcap is None and self._fall is None:  # the shift is exact in integers
                largest = max(row[j] for j in columns)
                shifted = [libmp.from_man_exp(row[j] - largest, exponent, bits, "n") for j in columns]
            else:
                scores = [self._score(head, abs(i - j), self._mp.ldexp(row[j], exponent)) for j in columns]
                highest = max(scores)
                shifted = [(score - highest)._mpf_ for score in scores]
            weights = [libmp.mpf_exp(value, bits, "n") for value in shifted]
            inverse = libmp.mpf_div(libmp.fone, libmp.mpf_sum(weights, bits, "n"), bits, "n")
            rows.append([libmp.mpf_mul(weight, inverse, bits, "n") for weight in weights])
        return rows

    def _score(self, head: int, distance: int, logit: Any) -> Any:
        """cap tanh(s / cap) - slope |i - j|."""
        if self._at.softcap is not None:
            cap = self._number(self._at.softcap)
            logit = cap * self._mp.tanh(logit / cap)
        return logit if self._fall is None else logit - self._fall[head] * distance

    def _distance(self, found: list[list[_Raw]], wanted: list[list[_Raw]]) -> Any:
        """The sum of squared differences."""
        squares = []
        for pair in zip(found, wanted, strict=True):
            differences = [libmp.mpf_sub(a, b, self._bits, "n") for a, b in zip(*pair, strict=True)]
            squares.append(libmp.mpf_sum([libmp.mpf_mul(c, c) for c in differences], self._bits, "n"))
        return self._mp.make_mpf(libmp.mpf_sum(squares, self._bits, "n"))


def _log2(matrix: FixedPoint) -> float:
    """The binary logarithm of the largest entry, rounded up to an integer; -inf for zeros."""
    bits = max(abs(value).bit_length() for value in matrix.integers.flat)
    return float(bits + matrix.exponent) if bits else -math.inf


def _times(left: FixedPoint, right: FixedPoint) -> FixedPoint:
    """The entrywise product, exactly."""
    return FixedPoint(left.integers * right.integers, left.exponent + right.exponent)


def _sum(parts: list[FixedPoint]) -> FixedPoint:
    """The sum, exactly; a single row goes to every row."""
    integers, exponent = aligned(parts)
    return FixedPoint(np.asarray(sum(integers)), exponent)


def _collect(entry: Callable[[_Matrix], Any], size: int, entries: Iterable[int] | None) -> _Matrix:
    places = range(size) if entries is None else list(entries)
    values = np.empty(len(places), dtype=object)
    for index, place in enumerate(places):
        unit = np.zeros(size, dtype=int)
        unit[place] = 1
        values[index] = entry(unit)
    return values


def _global(value: Any) -> Any:
    """Return the number in mpmath's ordinary context, without rounding."""
    return mpmath.mp.make_mpf(value._mpf_)
