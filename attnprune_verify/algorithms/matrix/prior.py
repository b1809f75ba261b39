"""Prior methods for one linear map, as their papers define them: L-ADMM, ALPS, and OBS with K-FAC's metric."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.arrays import (
    AnyArray,
    diagonal,
    eye_like,
    is_numpy_array,
    like,
    masked,
    on_host,
    swapped,
    working_dtype,
    xp_of,
)
from attnprune_verify.algorithms.matrix.budget import Budget
from attnprune_verify.algorithms.matrix.damping import Moments, damped
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix, usable_metric
from attnprune_verify.algorithms.matrix.splitting import split
from attnprune_verify.algorithms.matrix.two_sided import refit
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.instance.validate import Array


@dataclass(frozen=True)
class LADMM:
    """Options of ``l-admm``: relative damping, iterations, and during how many of them the share of zeros grows."""

    damping: float = 0.1
    iterations: int = 20
    growing: int = 15


def prune_l_admm(weight: AnyArray, inputs: Moments, _: Moments | None, budget: Budget, options: LADMM) -> PrunedMatrix:
    """Boza, "Fast and Effective Weight Update for Pruned Large Language Models", arXiv 2401.02938.

    In units in which H has a diagonal of ones, with the penalty 1 and the share of zeros s_t = s (1 - (1 - t/15)^3),

    ::

        M_t = all but the s_t smallest |W + U|,   Z = M_t * (W + U),   U = U + W - Z,
        W = (H + I)^-1 (H W_0 + Z - U)
    """
    xp, dtype = xp_of(weight, inputs.H), working_dtype(inputs.H)
    units = xp.sqrt(diagonal(inputs.H)) + 1e-8
    H = damped(inputs.H / (units[:, None] * units[None, :]), options.damping)
    dense = swapped(xp.astype(weight, dtype, copy=False) * units)
    image, inverse = H @ dense, xp.linalg.inv(H + eye_like(H.shape[0], H))
    W, U, kept = dense, xp.zeros_like(dense), xp.ones_like(dense, dtype=xp.bool)
    for step in range(1, options.iterations + 1):
        if step <= options.growing:
            part = 1 - (1 - step / options.growing) ** 3
            kept = ~_growing(xp.abs(W + U), budget, Fraction(part) if step < options.growing else Fraction(1))
        Z = masked(kept, W + U)
        U = U + W - Z
        W = inverse @ (image + Z - U)
    new = swapped(masked(kept, W + U)) / units
    return PrunedMatrix(xp.astype(new, weight.dtype, copy=False), swapped(kept))


def _growing(scores: AnyArray, budget: Budget, part: Fraction) -> AnyArray:
    """`part` of the zeros of the budget: the smallest of those it would choose."""
    xp = xp_of(scores)
    chosen = budget.choose(scores[None, ...], 0)[0, ...]
    count = int(part * int(xp.count_nonzero(chosen)))
    return xp.reshape(smallest(xp.reshape(xp.where(chosen, scores, xp.inf), (-1,)), count), scores.shape)


@dataclass(frozen=True)
class ALPS:
    """Options of ``alps``: relative damping, and conjugate-gradient steps on the support."""

    damping: float = 0.01
    refit_steps: int = 10


def prune_alps(weight: AnyArray, inputs: Moments, _: Moments | None, budget: Budget, options: ALPS) -> PrunedMatrix:
    """Meng, Behdin, Wang, Mazumder, "ALPS", arXiv 2406.07831: splitting for the support, conjugate gradients on it."""
    xp, dtype = xp_of(weight, inputs.H), working_dtype(inputs.H)
    H, target = damped(inputs.H, options.damping), swapped(xp.astype(weight, dtype, copy=False))[None, ...]
    new, kept = refit(split(target, H, None, budget), target, H, None, options.refit_steps)
    new = swapped(masked(kept, new))[0, ...]
    return PrunedMatrix(xp.astype(new, weight.dtype, copy=False), swapped(kept)[0, ...])


@dataclass(frozen=True)
class Surgeon:
    """Options of ``kfac-obs``: relative damping of both factors, and in how many shots the zeros come."""

    damping: float = 0.01
    shots: int = 5


def prune_surgeon(
    weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget, options: Surgeon
) -> PrunedMatrix:
    """van der Ouderaa et al., "The LLM Surgeon", arXiv 2312.17244: OBS with the K-FAC Fisher G (x) A.

    In each shot, entries with the least cost ``w_rc^2 / (2 (G^-1)_rr (A^-1)_cc)`` go, and the others move by

    ::

        D = - sum_r (G^-1 e_r / (G^-1)_rr) [w_r,E ((A^-1)_EE)^-1 (A^-1)_E,:],      E: all pruned entries of row r

    with correlations between entries of one row, not between rows. Unlike the paper's program, the curvature is not
    estimated anew between shots. Computed by NumPy, whatever the arrays are.
    """
    if not is_numpy_array(weight):
        outer = None if outputs is None else outputs._replace(H=on_host(outputs.H))
        there = prune_surgeon(on_host(weight), inputs._replace(H=on_host(inputs.H)), outer, budget, options)
        return PrunedMatrix(*(like(part, weight) for part in there))
    A = damped(inputs.H, options.damping)
    blocks = np.ones((len(weight), 1, 1)) if outputs is None else usable_metric(outputs, options.damping)
    A_inverse, G_inverse = np.linalg.inv(A), np.linalg.inv(blocks)
    of_rows = np.diagonal(G_inverse, axis1=1, axis2=2)
    scale = np.diag(A_inverse)[:, np.newaxis] * of_rows.reshape(1, -1)
    W, pruned = weight.astype(np.float64), np.zeros(weight.shape, dtype=np.bool_)
    for shot in range(1, options.shots + 1):
        scores = np.where(pruned, -1.0, W**2 / scale.T)
        pruned = _growing(scores.T, budget, Fraction(shot, options.shots)).T
        rows = np.stack([_row_change(row, gone, A_inverse) for row, gone in zip(W, pruned, strict=True)])
        by_block = rows.reshape(len(blocks), -1, weight.shape[1]) / of_rows[:, :, np.newaxis]
        W = np.where(pruned, 0.0, W - (G_inverse @ by_block).reshape(weight.shape))
    return PrunedMatrix(W.astype(weight.dtype), ~pruned)


def _row_change(row: Array, gone: NDArray[np.bool_], A_inverse: Array) -> Array:
    """w_E ((A^-1)_EE)^-1 (A^-1)_E,:"""
    if not gone.any():
        return np.zeros_like(row)
    columns = A_inverse[:, gone]
    change: Array = columns @ np.linalg.solve(columns[gone], row[gone])
    return change
