"""The loss on the range of Pi A, in as many coordinates as it has: where a ball certificate of a Hessian is affordable.

Off the range L is (lam/2)||.||^2, whatever the rest does. Row i's centred logits are written in an orthonormal basis of
its zero-sum vectors; B is the matrix of Pi A in them. Where B B^T = C C^T has a Cholesky factor, a = C^{-1} B vec(M)
are coordinates of M's part in the range, of the same length, and its logits are C a; else C = B and a = vec(M).
"""

import math
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.balls import matrix, upper

_MOST = 160
"""Coordinates up to which a Hessian in balls is affordable: its factorisations take this cubed."""


class ReducedPoint(NamedTuple):
    """The loss at one point in the coordinates: all balls."""

    loss: arb
    gradient: arb_mat
    hessian: arb_mat
    residual: arb
    """The largest ||c_i|| of a row."""


class ReducedLoss:
    """L of a single sample in the coordinates above.

    Attributes
    ----------
    C : arb_mat
        (q, r): coordinates to centred logits, q = sum_i (m_i - 1).
    start : arb_mat
        (r, 1): the coordinates of M = 1.
    K, k : arb
        Upper bounds of ||C|| = ||Pi A|| and of the largest ||(Pi A)_i|| of one row.

    Raises
    ------
    InvalidInstance
        For a batch, where no row has a choice, where the mask moves no logit, and where r would exceed 160.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.theory.numbers.balls import precision
    >>> with precision():
    ...     loss = ReducedLoss(Instance(np.eye(2), 0.5 * np.array([[1.0, -1.0], [-1.0, 1.0]]), lam=0.25))
    >>> loss.C.nrows(), loss.C.ncols(), round(float(loss.K), 9)
    (2, 2, 0.5)
    """

    def __init__(self, instance: Instance) -> None:
        if len(instance.samples) > 1:
            raise InvalidInstance(f"a stationary point is certified for one sample; got k = {len(instance.samples)}")
        self.lam, self.d = arb(instance.lam), instance.d
        X, W = np.asarray(instance.samples[0], dtype=np.float64), np.asarray(instance.W, dtype=np.float64)
        chosen = [(x, X[allowed]) for x, allowed in zip(X, instance.allowed, strict=True) if allowed.sum() > 1]
        size = sum(len(tokens) - 1 for _, tokens in chosen)
        if not size:
            raise InvalidInstance("mask must allow at least two positions in some row; every row allows one")
        if min(size, W.size) > _MOST:
            raise InvalidInstance(
                f"min(sum_i (m_i - 1), d^2) must be at most {_MOST}; got {min(size, W.size)}; give fewer tokens"
            )
        self.bases = [_zero_sum_basis(len(tokens)) for _, tokens in chosen]
        weight = W.ravel().tolist()
        rows: list[list[arb]] = []
        for (x, tokens), basis in zip(chosen, self.bases, strict=True):
            queries = [value for value in x.tolist() for _ in range(self.d)]
            for move in (basis * matrix(tokens)).tolist():
                rows.append([arb(w) * q * y for w, q, y in zip(weight, queries, move * self.d, strict=True)])
        self.B = arb_mat(rows)
        if all(0 in entry for entry in self.B.entries()):
            raise InvalidInstance(
                "a mask must move some difference of two logits of a row; got none that certainly moves"
            )
        ones = arb_mat([[1]] * W.size)
        self.dense = self._rows(self.B * ones)
        factor = triangular(self.B * self.B.transpose()) if size <= W.size else None
        self.full = factor is None
        if factor is None and W.size > _MOST:
            raise InvalidInstance(
                f"d^2 must be at most {_MOST} if the centred logits are linearly dependent; got {W.size}"
            )
        self.C = self.B if factor is None else factor
        self.start = self.coordinates(np.ones_like(W))
        small = self.C.nrows() <= self.C.ncols()
        self.K = largest_above(self.C * self.C.transpose() if small else self.C.transpose() * self.C).sqrt()
        blocks = (self.C * self.C.transpose()).tolist() if not small else (self.B * self.B.transpose()).tolist()
        self.k = arb(0)
        for place in self._places():
            block = arb_mat([row[place] for row in blocks[place]])
            self.k = arb.max(self.k, largest_above(block).sqrt())
        self.f = [_softmax(logits) for logits in self.dense]

    def _places(self) -> list[slice]:
        ends = np.cumsum([basis.nrows() for basis in self.bases]).tolist()
        return [slice(end - basis.nrows(), end) for end, basis in zip(ends, self.bases, strict=True)]

    def _rows(self, logits: arb_mat) -> list[list[arb]]:
        """The allowed logits of each row, centred."""
        flat = logits.entries()
        return [
            (basis.transpose() * arb_mat([[z] for z in flat[place]])).entries()
            for place, basis in zip(self._places(), self.bases, strict=True)
        ]

    def coordinates(self, M: Array) -> arb_mat:
        """Return the coordinates of M, or of its part in the range."""
        flat = arb_mat([[value] for value in np.asarray(M, dtype=np.float64).ravel().tolist()])
        return flat if self.full else solved(self.C, self.B * flat)

    def mask(self, a: arb_mat) -> list[arb]:
        """M of coordinates, entry by entry."""
        if self.full:
            entries: list[arb] = a.entries()
            return entries
        found: list[arb] = (self.B.transpose() * _solved_above(self.C, a)).entries()
        return found

    def gradient(self, a: arb_mat) -> arb_mat:
        """C^T g + lam a with g = J c in every row, s a row of F and c = s - f."""
        slopes = [
            row
            for (_, _, g), basis in zip(self._at_rows(a), self.bases, strict=True)
            for row in (basis * arb_mat([[x] for x in g])).tolist()
        ]
        return self.C.transpose() * arb_mat(slopes) + a * self.lam

    def at(self, a: arb_mat) -> ReducedPoint:
        """L, its gradient and Hessian; H_i = J^2 + diag(g) - s g^T - g s^T with g = J c."""
        table, size = self.C.tolist(), self.C.ncols()
        bent: list[list[arb]] = []
        squares, residual = arb(0), arb(0)
        for (s, c, g), basis, place in zip(self._at_rows(a), self.bases, self._places(), strict=True):
            square = sum((x * x for x in c), arb(0))
            squares, residual = squares + square, arb.max(residual, square)
            J = arb_mat([[(x if i == j else 0) - x * y for j, y in enumerate(s)] for i, x in enumerate(s)])
            H = J * J + arb_mat(
                [[(x if i == j else 0) - s[i] * y - x * s[j] for j, y in enumerate(g)] for i, x in enumerate(g)]
            )
            bent += ((basis * H * basis.transpose()) * arb_mat(table[place])).tolist()
        eye = arb_mat([[self.lam if i == j else 0 for j in range(size)] for i in range(size)])
        return ReducedPoint(
            loss=(squares + self.lam * sum((x * x for x in a.entries()), arb(0))) / 2,
            gradient=self.gradient(a),
            hessian=self.C.transpose() * arb_mat(bent) + eye,
            residual=arb(upper(residual)).sqrt(),
        )

    def _at_rows(self, a: arb_mat) -> list[tuple[list[arb], list[arb], list[arb]]]:
        found = []
        for logits, f in zip(self._rows(self.C * a), self.f, strict=True):
            s = _softmax(logits)
            c = [x - y for x, y in zip(s, f, strict=True)]
            mean = sum((x * y for x, y in zip(s, c, strict=True)), arb(0))
            found.append((s, c, [x * (y - mean) for x, y in zip(s, c, strict=True)]))
        return found


def _zero_sum_basis(m: int) -> arb_mat:
    """(m - 1, m): orthonormal, every row sums to 0 (Helmert)."""
    rows = []
    for h in range(1, m):
        scale = 1 / arb(h * (h + 1)).sqrt()
        rows.append([scale] * h + [-h * scale] + [arb(0)] * (m - h - 1))
    return arb_mat(rows)


def _softmax(logits: list[arb]) -> list[arb]:
    shift = max(float(z.mid()) for z in logits)
    weights = [(z - shift).exp() for z in logits]
    total = sum(weights, arb(0))
    return [w / total for w in weights]


def triangular(symmetric: arb_mat) -> arb_mat | None:
    """The Cholesky factor in balls; None where a pivot is not certainly positive. Complete: positive definite.

    Examples
    --------
    >>> float(triangular(arb_mat([[4, 2], [2, 2]]))[1, 0]), triangular(arb_mat([[1, 1], [1, 1]])) is None
    (1.0, True)
    """
    size = symmetric.nrows()
    table = symmetric.tolist()
    factor = [[arb(0)] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            left = table[i][j] - sum((x * y for x, y in zip(factor[i][:j], factor[j][:j], strict=True)), arb(0))
            if i == j:
                if not left > 0:
                    return None
                factor[i][i] = left.sqrt()
            else:
                factor[i][j] = left / factor[j][j]
    return arb_mat(factor)


def solved(lower: arb_mat, right: arb_mat) -> arb_mat:
    """y with lower y = right, a column.

    Examples
    --------
    >>> [float(y) for y in solved(arb_mat([[2, 0], [1, 1]]), arb_mat([[2], [3]])).entries()]
    [1.0, 2.0]
    """
    table, y = lower.tolist(), list[arb]()
    for i, (row, value) in enumerate(zip(table, right.entries(), strict=True)):
        y.append((value - sum((a * b for a, b in zip(row[:i], y, strict=True)), arb(0))) / row[i])
    return arb_mat([[value] for value in y])


def _solved_above(lower: arb_mat, right: arb_mat) -> arb_mat:
    """y with lower^T y = right."""
    size = lower.nrows()
    backwards = arb_mat([[lower[size - 1 - j, size - 1 - i] for j in range(size)] for i in range(size)])
    return arb_mat([[y] for y in solved(backwards, arb_mat([[x] for x in right.entries()[::-1]])).entries()[::-1]])


def least_below(symmetric: arb_mat) -> arb:
    """A number certainly not above the least eigenvalue: floats propose, a Cholesky decomposition in balls proves.

    Examples
    --------
    >>> bound = least_below(arb_mat([[2, 0], [0, 1]]))
    >>> bool(bound <= 1), bool(bound > 1 - 1e-9)
    (True, True)
    """
    size = symmetric.nrows()
    middle = np.array([[float(x.mid()) for x in row] for row in symmetric.tolist()])
    values = np.linalg.eigvalsh((middle + middle.T) / 2)
    scale = max(float(np.abs(values).max()), 1e-300)
    slack = scale * 2.0**-48 * size
    while math.isfinite(slack):
        theta = float(values[0]) - slack
        shift = arb_mat([[theta if i == j else 0 for j in range(size)] for i in range(size)])
        if triangular(symmetric - shift) is not None:
            return arb(theta)
        slack *= 16
    return arb.neg_inf()


def largest_above(symmetric: arb_mat) -> arb:
    """A number certainly not below the largest eigenvalue."""
    return -least_below(symmetric * (-1))
