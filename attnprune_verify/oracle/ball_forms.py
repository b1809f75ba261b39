"""The closed forms in balls, head by head and row block by row block: softmax, residual, loss term, derivatives.

Queries are ``scale (X A_Q + b_Q)`` turned by position, keys ``X A_K + b_K`` turned likewise, or the tokens. With
u = cap tanh(s / cap) - slope |i - j| and p = F*(c - (c*F)1) the derivatives in queries and keys are
dQ = (p*u') K and dK = (p*u')^T Q; the transposes of the turn and of the product with X follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from attnprune_verify.oracle.enclosure import as_ball, as_balls, hadamard
from attnprune_verify.oracle.inputs import OracleInput, frequency

_BLOCK = 2**17  # logits per row block: bounds the memory, about 100 bytes each
_Rows = list[list[arb]]


def attention_rows(at: OracleInput, *, dense: bool = False) -> Iterator[_Rows]:
    """F(M), or F(1), sample by sample and head by head."""
    for tokens in map(as_balls, at.samples):
        for head in heads_of(at, tokens, dense=dense):
            yield [row for block in row_blocks(len(at.allowed)) for row in head.softmax(block).f]


def attention_term(at: OracleInput) -> arb:
    """1/2 ||F(M) - F(1)||_F^2, averaged over samples and summed over heads."""
    total = arb(0)
    for tokens in map(as_balls, at.samples):
        for _, block in _residuals(at, tokens):
            total += sum((c * c for row in block.c for c in row), arb(0))
    return total / (2 * len(at.samples))


def regular_term(at: OracleInput) -> arb:
    """lam/2 times the squares of all masks."""
    return as_ball(at.lam) / 2 * sum((entry * entry for M in at.masks for entry in as_balls(M).entries()), arb(0))


def gradient_balls(at: OracleInput) -> list[arb_mat]:
    """The derivative of `attention_term` in every mask."""
    return _gathered(at, None)


def product_balls(at: OracleInput, directions: tuple[NDArray[Any], ...]) -> list[arb_mat]:
    """The derivative of `gradient_balls` along `directions`."""
    return _gathered(at, directions)


def _gathered(at: OracleInput, directions: tuple[NDArray[Any], ...] | None) -> list[arb_mat]:
    weights = [as_balls(W) for W in at.weights]
    sums = [arb_mat(W.nrows(), W.ncols()) for W in weights]
    for tokens in map(as_balls, at.samples):
        moves = None if directions is None else list(heads_of(at, tokens, directions))
        totals: dict[int, list[arb_mat]] = {}
        for head, block in _residuals(at, tokens):
            move = None if moves is None else moves[head.number]
            if head.number not in totals:
                totals[head.number] = [arb_mat(part.nrows(), part.ncols()) for part in (head.queries, head.keys)]
            head.add(totals[head.number], block, move)
        for index, slopes in totals.items():
            places = (index, index * at.kv_heads // at.heads)
            for total, slope, place in zip(sums, slopes, places, strict=False):
                scale = as_ball(at.scale) if total is sums[0] else arb(1)  # the queries carry the scale
                back = tokens.transpose() * turned(at, slope, back=True) * (scale / len(at.samples))
                add_columns(total, back, place * at.m)
    return [hadamard(W, total) for W, total in zip(weights, sums, strict=True)]


class _BallBlock(NamedTuple):
    rows: slice
    f: _Rows
    c: _Rows
    slope: _Rows | None  # u' and u'', where the scores are capped
    curve: _Rows | None


class BallHead(NamedTuple):
    """One head on one sample."""

    at: OracleInput
    number: int
    queries: arb_mat
    keys: arb_mat

    def softmax(self, rows: slice) -> _BallBlock:
        scores, slope, curve = self.scores(rows)
        f = [
            _softmax(row, np.flatnonzero(positions).tolist())
            for row, positions in zip(scores, self.at.allowed[rows], strict=True)
        ]
        return _BallBlock(rows, f, [], slope, curve)

    def scores(self, rows: slice) -> tuple[_Rows, _Rows | None, _Rows | None]:
        """Return the arguments of the softmax and, with a softcap, the first two derivatives of the cap."""
        scores = (rows_of(self.queries, rows) * self.keys.transpose()).tolist()
        slope = curve = None
        if self.at.softcap is not None:
            cap = as_ball(self.at.softcap)
            shares = [[(s / cap).tanh() for s in row] for row in scores]
            scores = [[cap * t for t in row] for row in shares]
            slope = [[1 - t * t for t in row] for row in shares]
            curve = [[-2 / cap * t * (1 - t * t) for t in row] for row in shares]
        if self.at.alibi is not None:
            fall = as_ball(self.at.alibi[self.number])
            scores = [[s - fall * abs(i - j) for j, s in enumerate(row)] for i, row in enumerate(scores, rows.start)]
        return scores, slope, curve

    def add(self, totals: list[arb_mat], block: _BallBlock, move: BallHead | None) -> None:
        """Add p K and p^T Q, or their derivatives where queries and keys move."""
        p = _p(block)
        n, rows = len(self.at.allowed), len(block.f)
        if move is None:
            slopes = arb_mat(rows, n, [entry for row in _bent(p, block.slope) for entry in row])
            add_rows(totals[0], slopes * self.keys, block.rows)
            if self.at.moves_keys:
                totals[1] += slopes.transpose() * rows_of(self.queries, block.rows)
            return
        ds = rows_of(move.queries, block.rows) * self.keys.transpose()
        if self.at.moves_keys:
            ds += rows_of(self.queries, block.rows) * move.keys.transpose()
        dp = _bent(_dp(block, _bent(ds.tolist(), block.slope)), block.slope)
        if block.curve is not None:
            bends = zip(dp, p, ds.tolist(), block.curve, strict=True)
            dp = [[a + b * s * u for a, b, s, u in zip(*row, strict=True)] for row in bends]
        moved = arb_mat(rows, n, [entry for row in dp for entry in row])
        add_rows(totals[0], moved * self.keys, block.rows)
        if self.at.moves_keys:
            still = arb_mat(rows, n, [entry for row in _bent(p, block.slope) for entry in row])
            add_rows(totals[0], still * move.keys, block.rows)
            totals[1] += moved.transpose() * rows_of(self.queries, block.rows)
            totals[1] += still.transpose() * rows_of(move.queries, block.rows)


def heads_of(
    at: OracleInput, tokens: arb_mat, masks: tuple[NDArray[Any], ...] | None = None, *, dense: bool = False
) -> Iterator[BallHead]:
    """The heads at the problem's masks, with nothing pruned, or for a direction `masks`, which has no bias."""
    weights = [as_balls(W) for W in at.weights]
    if not dense:
        chosen = at.masks if masks is None else masks
        weights = [hadamard(as_balls(M), W) for M, W in zip(chosen, weights, strict=True)]
    biases = (None, None) if masks is not None else at.biases
    rows = [_shifted(tokens * A, bias) for A, bias in zip(weights, biases, strict=False)]
    for index in range(at.heads):
        places = (index, index * at.kv_heads // at.heads)
        sides = [turned(at, _columns(part, place * at.m, at.m)) for part, place in zip(rows, places, strict=False)]
        yield BallHead(at, index, sides[0] * as_ball(at.scale), sides[1] if at.moves_keys else tokens)


def _residuals(at: OracleInput, tokens: arb_mat) -> Iterator[tuple[BallHead, _BallBlock]]:
    """F(M), and c = F(M) - F(1), by heads and row blocks."""
    same = all(((M == 1) | (W == 0)).all() for M, W in zip(at.masks, at.weights, strict=True))
    for head, plain in zip(heads_of(at, tokens), heads_of(at, tokens, dense=True), strict=True):
        for rows in row_blocks(len(at.allowed)):
            block = head.softmax(rows)
            if same:  # then c is exactly 0, not merely a ball around 0
                yield head, block._replace(c=[[arb(0)] * len(row) for row in block.f])
            else:
                pairs = zip(block.f, plain.softmax(rows).f, strict=True)
                yield head, block._replace(c=[[a - b for a, b in zip(*both, strict=True)] for both in pairs])


def _softmax(row: list[arb], positions: list[int]) -> list[arb]:
    # Any exact shift leaves the softmax unchanged; the middle of the largest logit keeps the exponentials near 1.
    weights = [arb(0)] * len(row)
    if len(positions) == 1:
        weights[positions[0]] = arb(1)
        return weights
    shift = max((row[j] for j in positions), key=float).mid()
    exponentials = [(row[j] - shift).exp() for j in positions]
    inverse = 1 / sum(exponentials, arb(0))
    for j, exponential in zip(positions, exponentials, strict=True):
        weights[j] = exponential * inverse
    return weights


def _p(block: _BallBlock) -> _Rows:
    p = []
    for f, c in zip(block.f, block.c, strict=True):
        r = _dot(c, f)
        p.append([b * (a - r) for a, b in zip(c, f, strict=True)])
    return p


def _dp(block: _BallBlock, moved: _Rows) -> _Rows:
    """With dF = F*(du - (F*du)1): dF*F + c*dF - diag((dF*F + c*dF)1)F - diag((c*F)1)dF."""
    dp = []
    for f, c, du in zip(block.f, block.c, moved, strict=True):
        average = _dot(f, du)
        df = [a * (b - average) for a, b in zip(f, du, strict=True)]
        r = _dot(c, f)
        first = [(a + b) * e for a, b, e in zip(f, c, df, strict=True)]
        s = sum(first, arb(0))
        dp.append([a - s * b - r * e for a, b, e in zip(first, f, df, strict=True)])
    return dp


def _bent(rows: _Rows, slope: _Rows | None) -> _Rows:
    if slope is None:
        return rows
    return [[a * b for a, b in zip(*both, strict=True)] for both in zip(rows, slope, strict=True)]


def _dot(left: list[arb], right: list[arb]) -> arb:
    return sum((a * b for a, b in zip(left, right, strict=True)), arb(0))


def turned(at: OracleInput, rows: arb_mat, *, back: bool = False) -> arb_mat:
    """Row i turned by R_i, or back."""
    if at.rope is None:
        return rows
    m, turned = rows.ncols(), rows.tolist()
    for pair in range(m // 2):
        first, second = (pair, pair + m // 2) if at.rope.layout == "half" else (2 * pair, 2 * pair + 1)
        wave = frequency(at.rope, pair, m, as_ball, arb.pi())
        for i, row in enumerate(turned):
            sin, cos = (wave * i).sin(), (wave * i).cos()
            sin = -sin if back else sin
            row[first], row[second] = row[first] * cos - row[second] * sin, row[first] * sin + row[second] * cos
    return arb_mat(turned)


def _shifted(rows: arb_mat, bias: Any) -> arb_mat:
    if bias is None:
        return rows
    return rows + arb_mat([[as_ball(b) for b in bias]] * rows.nrows())


def row_blocks(n: int) -> Iterator[slice]:
    """Blocks of rows of n logits each."""
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def rows_of(matrix: arb_mat, rows: slice) -> arb_mat:
    """Return some rows of a matrix."""
    if rows.stop - rows.start == matrix.nrows():
        return matrix
    columns = range(matrix.ncols())
    return arb_mat([[matrix[i, j] for j in columns] for i in range(rows.start, rows.stop)])


def _columns(matrix: arb_mat, start: int, count: int) -> arb_mat:
    if count == matrix.ncols():
        return matrix
    columns = range(start, start + count)
    return arb_mat([[matrix[i, j] for j in columns] for i in range(matrix.nrows())])


def add_rows(total: arb_mat, rows: arb_mat, at: slice) -> None:
    """Add a block of rows where they stand."""
    for i in range(rows.nrows()):
        for j in range(rows.ncols()):
            total[at.start + i, j] += rows[i, j]


def add_columns(total: arb_mat, columns: arb_mat, start: int) -> None:
    """Add a block of columns, from column `start` on."""
    for i in range(columns.nrows()):
        for j in range(columns.ncols()):
            total[i, start + j] += columns[i, j]
