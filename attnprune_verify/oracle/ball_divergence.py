"""KL(F(1) || F(M)) in balls, its lower bound over masks of one map with k ones, and its slope in a weight.

With f = F(1), z the logits at M and the mean over the rows of all samples::

    KL(M) = mean_i [LSE(z_i) - LSE(z_i(1)) + sum_j f_ij (z_ij(1) - z_ij)],    d KL / d z_ij = F_ij(M) - f_ij

The logits are affine in the mask of one map, the other one's given, and KL is convex in them. So with g the derivative
in that mask at any real matrix Y, KL(B) >= KL(Y) + <g, B - Y>, and <g, B> is at least the sum of the smallest entries
of g (new:certified_mask_gap).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from attnprune_verify.oracle.ball_forms import BallHead, add_columns, add_rows, heads_of, row_blocks, rows_of, turned
from attnprune_verify.oracle.enclosure import Enclosure, as_ball, as_balls, enclose, hadamard, working_precision
from attnprune_verify.oracle.inputs import OracleInput

_BITS = 96
"""Precision: what cancels between logits of size 1000 and a divergence of 1e-12 takes fifty bits, doubles have 53."""


def divergence(at: OracleInput, dense: OracleInput | None = None) -> Enclosure:
    """KL(F(1) || F(M)) at the problem's masks: mean over rows, summed over heads.

    Parameters
    ----------
    at : OracleInput
    dense : OracleInput, optional
        The problem that F(1) is of, where the kept weights were moved as well.

    Examples
    --------
    >>> from attnprune_verify.oracle.inputs import fused
    >>> at = fused(np.zeros((2, 2)), np.eye(2), np.diag([np.log(3), np.log(3)]))
    >>> round(float(divergence(at).midpoint), 6)  # 3/4 log 3/2 + 1/4 log 1/2
    0.130812
    """
    weights = at.weights if dense is None else dense.weights
    if all(((W == D) & ((M == 1) | (W == 0))).all() for M, W, D in zip(at.masks, at.weights, weights, strict=True)):
        return Enclosure(np.zeros(()), np.zeros(()))  # nothing is pruned: exactly 0, not merely a ball around it
    with working_precision(_BITS):
        total = sum((row.gap for _, _, rows in _compared(at, dense) for row in rows), arb(0))
        return enclose([total / _rows(at)], ())


def divergence_floor(at: OracleInput, place: int, ones: int) -> float:
    """Lower bound of KL(F(1) || F(B)) over all B with as many ones as mask number `place`.

    Parameters
    ----------
    at : OracleInput
        With any real matrix as that mask; the bound is the better the nearer it is to the best masks.
    place : int
    ones : int

    Returns
    -------
    float
        At least 0.
    """
    with working_precision(_BITS):
        value, slope = _value_and_slope(at, None, place)
        entries = hadamard(as_balls(at.weights[place]), slope).entries()
        along = sum((g * as_ball(y) for g, y in zip(entries, at.masks[place].flat, strict=True)), arb(0))
        lower = np.sort(enclose(entries, (len(entries),)).lower)
        least = sum((arb(float(entry)) for entry in lower[:ones]), arb(0))
        bound = float(enclose([(value - along + least) / _rows(at)], ()).lower)
    return bound if bound > 0 else 0.0  # a divergence never is below 0; NaN is not above it


def divergence_slope(at: OracleInput, dense: OracleInput, place: int, support: NDArray[Any]) -> tuple[float, float]:
    """A number that the divergence is not below, and one that its slope in weight number `place` is not above.

    Parameters
    ----------
    at, dense : OracleInput
        Masks of ones; other weights, and those of F(1).
    place : int
    support : array of bool
        The entries of the weight that move; the norm is over these.
    """
    with working_precision(_BITS):
        value, slope = _value_and_slope(at, dense, place)
        places = np.flatnonzero(support).tolist()
        entries = slope.entries()
        square = sum((entries[index] ** 2 for index in places), arb(0))
        lower = float(enclose([value / _rows(at)], ()).lower)
        return lower if lower > 0 else 0.0, float(enclose([square.sqrt() / _rows(at)], ()).upper)


class _Row(NamedTuple):
    """KL of a row, and F(M) - F(1) over all positions."""

    gap: arb
    c: list[arb]


def _rows(at: OracleInput) -> int:
    return int(at.samples.shape[0] * at.samples.shape[1])


def _compared(at: OracleInput, dense: OracleInput | None) -> Iterator[tuple[BallHead, slice, list[_Row]]]:
    """Head by head and block by block, sample by sample."""
    for tokens in map(as_balls, at.samples):
        for head, plain in zip(heads_of(at, tokens), heads_of(dense or at, tokens, dense=True), strict=True):
            for rows in row_blocks(len(at.allowed)):
                pairs = zip(head.scores(rows)[0], plain.scores(rows)[0], at.allowed[rows], strict=True)
                yield head, rows, [_row(z, before, np.flatnonzero(seen).tolist()) for z, before, seen in pairs]


def _row(z: list[arb], dense: list[arb], seen: list[int]) -> _Row:
    c = [arb(0)] * len(z)
    if len(seen) == 1:
        return _Row(arb(0), c)
    (sums, F), (dense_sums, f) = (_softmax([row[j] for j in seen]) for row in (z, dense))
    gap = sums - dense_sums
    for j, after, before in zip(seen, F, f, strict=True):
        gap += before * (dense[j] - z[j])
        c[j] = after - before
    return _Row(gap, c)


def _softmax(row: list[arb]) -> tuple[arb, list[arb]]:
    """log sum exp, and the softmax."""
    shift = max(row, key=float).mid()
    grown = [(z - shift).exp() for z in row]
    mass = sum(grown, arb(0))
    inverse = 1 / mass
    return mass.log() + shift, [entry * inverse for entry in grown]


def _value_and_slope(at: OracleInput, dense: OracleInput | None, place: int) -> tuple[arb, arb_mat]:
    """The sum of KL over all rows, and its derivative in the product of one mask and its weight."""
    value, total = arb(0), arb_mat(*at.weights[place].shape)
    n = len(at.allowed)
    for sample in range(len(at.samples)):
        alone = at._replace(samples=at.samples[sample : sample + 1])
        tokens = as_balls(alone.samples[0])
        slopes: dict[int, arb_mat] = {}
        for head, rows, compared in _compared(alone, dense):
            value += sum((row.gap for row in compared), arb(0))
            c = arb_mat(len(compared), n, [entry for row in compared for entry in row.c])
            moved = head.queries if place == 0 else head.keys
            slope = slopes.setdefault(head.number, arb_mat(moved.nrows(), moved.ncols()))
            if place == 1:
                slope += c.transpose() * rows_of(head.queries, rows)
            else:
                add_rows(slope, c * head.keys, rows)
            slopes[head.number] = slope
        for number, slope in slopes.items():
            head_at = number if place == 0 else number * at.kv_heads // at.heads
            scale = as_ball(at.scale) if place == 0 else arb(1)  # the queries carry the scale
            back = tokens.transpose() * turned(at, slope, back=True) * scale
            add_columns(total, back, head_at * at.m)
    return value, total
