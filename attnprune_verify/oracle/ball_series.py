"""Derivatives of the literal loss in ball arithmetic, by power series along a line M + tD; no closed form is trusted.

Nothing is shared with the closed form in `ball_forms` but the balls themselves: queries and keys move linearly in t, so
logits are polynomials of degree two, and softmax and cap are quotients of power series.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb, arb_mat, arb_series, ctx
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.oracle.enclosure import Enclosure, as_ball, as_balls, enclose, hadamard, working_precision
from attnprune_verify.oracle.inputs import OracleInput, frequency, fused

_BLOCK = 64  # rows of logits held at a time
_Line = tuple[arb_mat, arb_mat]  # a matrix and how it moves with t


def directional_derivative(
    M: ArrayLike, D: ArrayLike, X: ArrayLike, W: ArrayLike, lam: Any = 0.0, mask: MaskLike = None, *, prec: int = 128
) -> Enclosure:
    """Enclose d/dt L(M + tD) at t = 0, the series coefficient of t in the literal loss (def:loss_func).

    Examples
    --------
    >>> import numpy as np
    >>> directional_derivative(np.ones((2, 2)), np.eye(2), np.eye(2), np.eye(2), lam=0.5).contains(1.0)
    True
    """
    at = fused(M, X, W, lam, mask)
    with working_precision(prec):
        return enclose([slope_along(at, at.directions(D))], ())


def second_directional_derivative(
    M: ArrayLike, D: ArrayLike, X: ArrayLike, W: ArrayLike, lam: Any = 0.0, mask: MaskLike = None, *, prec: int = 128
) -> Enclosure:
    """Enclose d^2/dt^2 L(M + tD) at t = 0, the quadratic form of the Hessian.

    Examples
    --------
    >>> import numpy as np
    >>> second_directional_derivative(np.ones((2, 2)), np.eye(2), np.eye(2), np.zeros((2, 2)), lam=0.5).contains(1.0)
    True
    """
    at = fused(M, X, W, lam, mask)
    with working_precision(prec):
        return enclose([slope_along(at, at.directions(D), order=2)], ())


def slope_along(at: OracleInput, directions: tuple[NDArray[Any], ...], order: int = 1) -> arb:
    """The first or second derivative of the loss along `directions`, at the precision that is set."""
    with working_precision(ctx.prec, cap=order + 1):
        dense = [as_balls(W) for W in at.weights]
        starts, steps = (
            [hadamard(as_balls(part), W) for part, W in zip(parts, dense, strict=True)]
            for parts in (at.masks, directions)
        )
        misfit, size = arb_series([0]), arb_series([0])
        for tokens in map(as_balls, at.samples):
            nothing = [arb_mat(W.nrows(), W.ncols()) for W in dense]
            lines = zip(_heads(at, tokens, starts, steps), _heads(at, tokens, dense, nothing), strict=True)
            for index, (moving, still) in enumerate(lines):
                misfit += _misfit(at, index, moving, still)
        for M, D in zip(at.masks, directions, strict=True):
            for entry, change in zip(as_balls(M).entries(), as_balls(D).entries(), strict=True):
                line = arb_series([entry, change])
                size += line * line
        total = misfit / (2 * len(at.samples)) + as_ball(at.lam) / 2 * size
        return total[order] * order  # order! = order for 1 and 2


def _heads(
    at: OracleInput, tokens: arb_mat, starts: list[arb_mat], steps: list[arb_mat]
) -> Iterator[tuple[_Line, _Line]]:
    """Queries and keys of every head."""
    n, m = tokens.nrows(), at.m
    sides = [
        [((tokens * part).tolist(), None if t else bias) for t, part in enumerate(line)]
        for line, bias in zip(zip(starts, steps, strict=True), at.biases, strict=False)
    ]
    for head in range(at.heads):
        places = (head, head // (at.heads // at.kv_heads))
        lines = []
        for side, place in zip(sides, places, strict=False):
            turned = [_turned(at, rows, bias, range(place * m, place * m + m)) for rows, bias in side]
            lines.append((turned[0], turned[1]))
        query = lines[0][0] * as_ball(at.scale), lines[0][1] * as_ball(at.scale)
        yield query, lines[1] if at.moves_keys else (tokens, arb_mat(n, m))


def _turned(at: OracleInput, rows: list[list[arb]], bias: Any, columns: range) -> arb_mat:
    """The head's columns with their bias; each pair of features times a matrix of the plane."""
    own = [[row[c] if bias is None else row[c] + as_ball(bias[c]) for c in columns] for row in rows]
    if at.rope is None:
        return arb_mat(own)
    m = len(columns)
    firsts = range(m // 2) if at.rope.layout == "half" else range(0, m, 2)
    step = m // 2 if at.rope.layout == "half" else 1
    for pair, a in enumerate(firsts):
        wave = frequency(at.rope, pair, m, as_ball, arb.pi())
        for i, row in enumerate(own):
            turn = arb_mat([[(i * wave).cos(), -(i * wave).sin()], [(i * wave).sin(), (i * wave).cos()]])
            (row[a],), (row[a + step],) = (turn * arb_mat([[row[a]], [row[a + step]]])).tolist()
    return arb_mat(own)


def _misfit(at: OracleInput, head: int, moving: tuple[_Line, _Line], still: tuple[_Line, _Line]) -> arb_series:
    """||F(M + tD) - F(1)||_F^2 of one head on one sample as a power series in t."""
    total = arb_series([0])
    (q, dq), (k, dk) = (
        (part.transpose(), move.transpose()) if side else (part, move) for side, (part, move) in enumerate(moving)
    )
    for start in range(0, len(at.allowed), _BLOCK):  # products of several rows are faster than one row at a time
        rows = range(start, min(start + _BLOCK, len(at.allowed)))
        own, step, plain = (_some(part, rows) for part in (q, dq, still[0][0]))
        powers = [own * k, own * dk + step * k, step * dk]
        ahead = zip(*(part.tolist() for part in (*powers, plain * still[1][0].transpose())), strict=True)
        for i, (*coefficients, reference) in zip(rows, ahead, strict=True):
            columns = np.flatnonzero(at.allowed[i]).tolist()
            found = _softmax([_score(at, head, i, j, arb_series([part[j] for part in coefficients])) for j in columns])
            wanted = _softmax([_score(at, head, i, j, arb_series([reference[j]])) for j in columns])
            if found is None or wanted is None:  # the precision does not reach these logits
                return arb_series([arb.nan()] * ctx.cap)
            for value, other in zip(found, wanted, strict=True):
                difference = value - other
                total += difference * difference
    return total


def _score(at: OracleInput, head: int, i: int, j: int, logit: arb_series) -> arb_series:
    """cap tanh(s / cap) - slope |i - j|, with tanh x = (1 - e) / (1 + e) or its mirror image, e = exp(-2 |x|)."""
    if at.softcap is not None:
        cap = as_ball(at.softcap)
        sign = -1 if float(logit[0]) < 0 else 1
        small = (logit * (-2 * sign / cap)).exp()
        logit = (1 - small) / (1 + small) * (cap * sign)
    return logit if at.alibi is None else logit - as_ball(at.alibi[head]) * abs(i - j)


def _softmax(logits: list[arb_series]) -> list[arb_series] | None:
    """None where the sum of the weights may be 0."""
    shift = max((z[0] for z in logits), key=float).mid()
    weights = [(z - shift).exp() for z in logits]
    total = sum(weights, arb_series([0]))
    return [weight / total for weight in weights] if total[0] > 0 else None


def _some(matrix: arb_mat, rows: range) -> arb_mat:
    return arb_mat([[matrix[i, j] for j in range(matrix.ncols())] for i in rows])
