"""Derivatives of the literal loss in ball arithmetic, by power series along a line M + tD; no closed form is trusted.

Nothing is shared with the closed form in `ball` but the balls themselves: the softmax is a quotient of power series.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, arb_mat, arb_series, ctx
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.validate import MaskLike
from attnprune_verify.oracle.enclosure import Enclosure, as_ball, as_balls, enclose, hadamard, working_precision
from attnprune_verify.oracle.inputs import exact

__all__ = ["directional_derivative", "second_directional_derivative"]

_BLOCK = 64  # rows of logits held at a time


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
    return _derivative(1, M, D, X, W, lam, mask, prec)


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
    return _derivative(2, M, D, X, W, lam, mask, prec)


def _derivative(
    order: int, M: ArrayLike, D: ArrayLike, X: ArrayLike, W: ArrayLike, lam: Any, mask: MaskLike, prec: int
) -> Enclosure:
    with working_precision(prec):
        return enclose([_derivative_ball(order, M, D, X, W, lam, mask)], ())


def _derivative_ball(
    order: int, M: ArrayLike, D: ArrayLike, X: ArrayLike, W: ArrayLike, lam: Any, mask: MaskLike
) -> arb:
    (pruning, direction, weight), samples, allowed = exact(X, mask, M=M, D=D, W=W)
    with working_precision(ctx.prec, cap=order + 1):
        dense = as_balls(weight)
        start, step = hadamard(as_balls(pruning), dense), hadamard(as_balls(direction), dense)
        misfit = arb_series([0])
        for sample in samples:
            misfit += _misfit(as_balls(sample), start, step, dense, allowed)
        size = arb_series([0])
        for entry, change in zip(as_balls(pruning).entries(), as_balls(direction).entries(), strict=True):
            line = arb_series([entry, change])
            size += line * line
        total = misfit / (2 * len(samples)) + as_ball(lam) / 2 * size
        return total[order] * order  # order! = order for 1 and 2


def _misfit(tokens: arb_mat, start: arb_mat, step: arb_mat, dense: arb_mat, allowed: NDArray[np.bool_]) -> arb_series:
    """||F(M + tD) - F(1)||_F^2 of one sample as a power series in t."""
    total = arb_series([0])
    starts, steps, denses = (weights * tokens.transpose() for weights in (start, step, dense))
    for i, positions in enumerate(allowed):
        if i % _BLOCK == 0:  # products of several rows are much faster than one row at a time
            block = range(i, min(i + _BLOCK, len(allowed)))
            rows = arb_mat(len(block), tokens.ncols(), [tokens[j, a] for j in block for a in range(tokens.ncols())])
            ahead = [(rows * keys).tolist() for keys in (starts, steps, denses)]
        at, by, reference = (logits[i % _BLOCK] for logits in ahead)
        columns = np.flatnonzero(positions).tolist()
        shift, reference_shift = (max((z[j] for j in columns), key=float).mid() for z in (at, reference))
        weights = [arb_series([at[j] - shift, by[j]]).exp() for j in columns]
        wanted = [(reference[j] - reference_shift).exp() for j in columns]
        weight_sum, wanted_sum = sum(weights, arb_series([0])), sum(wanted, arb(0))
        if not weight_sum[0] > 0:  # the precision does not reach these logits: nothing is known about the quotient
            return arb_series([arb.nan()] * ctx.cap)
        for weight, other in zip(weights, wanted, strict=True):
            difference = weight / weight_sum - other / wanted_sum
            total += difference * difference
    return total
