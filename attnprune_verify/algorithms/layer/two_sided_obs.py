"""Optimal brain surgeon with a metric on either side of the weight: H on its inputs, G on its outputs.

The change D of a head's weight costs tr(D^T H D G) / 2. With G = I this is SparseGPT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.instance.validate import Array

__all__ = ["Pruned", "prune_two_sided", "refit"]

_SOLVED = 1e-28  # of the first residual's square: what is left is rounding


class Pruned(NamedTuple):
    """Weights (heads, d, m) with zeros where `kept` is False."""

    weight: Array
    kept: NDArray[np.bool_]


def prune_two_sided(weight: Array, H: Array, G: Array, rho: float, blocksize: int) -> Pruned:
    """Prune inputs from first to last, repairing what is still to come.

    With U upper triangular, U^T U = H^-1, for a block of inputs at a time: score every weight by the cost of its
    removal, ``w^2 / (U_pp^2 (G^-1)_cc)``, and choose the smallest of each head, so that floor(rho * size) weights of
    all inputs so far are pruned. Then input by input, with P the outputs pruned in row p,

    ::

        delta = w_p,P ((G^-1)_PP)^-1 (G^-1)_P,:       (the cheapest change of row p that zeroes P)
        w_p -= delta,    w_p' -= (U_pp' / U_pp) delta for p' > p

    With G = I, delta is w_p on P and the pass is SparseGPT's.

    Parameters
    ----------
    weight : (heads, d, m) array
    H : (d, d) array, positive definite
    G : (heads, m, m) array, positive definite
    rho : float
    blocksize : int
    """
    heads, d, m = weight.shape
    U = inverse_factor(H)
    G_inverse = np.linalg.inv(G)
    output_scale = np.diagonal(G_inverse, axis1=1, axis2=2)[:, np.newaxis]
    identity = np.eye(m)
    work, kept = weight.copy(), np.ones(weight.shape, dtype=np.bool_)
    for start in range(0, d, blocksize):
        block = slice(start, min(start + blocksize, d))
        count = pruned_count(rho, block.stop * m) - pruned_count(rho, start * m)
        factor = U[block, block]
        scores = (work[:, block] ** 2 / (np.diag(factor)[:, np.newaxis] ** 2 * output_scale)).reshape(heads, -1)
        kept[:, block] = ~smallest(scores, count).reshape(heads, -1, m)
        changes = np.empty((heads, block.stop - start, m))
        for i, p in enumerate(range(start, block.stop)):
            gone = ~kept[:, p]
            both = gone[:, :, np.newaxis] & gone[:, np.newaxis, :]
            multipliers = np.linalg.solve(np.where(both, G_inverse, identity), (work[:, p] * gone)[..., np.newaxis])
            delta = (G_inverse @ multipliers)[..., 0]
            work[:, p] = np.where(gone, 0.0, work[:, p] - delta)
            changes[:, i] = delta / factor[i, i]
            work[:, p + 1 : block.stop] -= factor[i, i + 1 :, np.newaxis] * changes[:, i, np.newaxis]
        work[:, block.stop :] -= U[block, block.stop :].T @ changes
    return Pruned(work, kept)


def refit(pruned: Pruned, target: Array, H: Array, G: Array, steps: int) -> Pruned:
    """Move the kept weights towards the least tr((W - target)^T H (W - target) G), `steps` steps of each head."""
    weight = np.empty_like(pruned.weight)
    for head, (begin, kept) in enumerate(zip(*pruned, strict=True)):
        weight[head] = _conjugate_gradients(begin, kept, target[head], H, G[head], steps)
    return Pruned(weight, pruned.kept)


def _conjugate_gradients(
    weight: Array, kept: NDArray[np.bool_], target: Array, H: Array, G: Array, steps: int
) -> Array:
    """Preconditioned by the diagonal; every residual is made orthogonal to all earlier ones again.

    Tokens share a large mean, so H has an eigenvalue far above the rest. Its direction is solved within a few steps and
    then grows back from rounding errors: without the orthogonality the result would be a matter of the last bits, and
    so would masks that are chosen after it.
    """
    diagonal = np.outer(np.diag(H), np.diag(G))
    residual = (H @ (target - weight) @ G) * kept
    scaled = residual / diagonal
    direction, size = scaled, float(np.vdot(residual, scaled))
    solved = _SOLVED * size
    earlier: list[tuple[Array, Array]] = []
    for _ in range(steps):
        if size <= solved:
            break
        image = (H @ direction @ G) * kept
        length = size / float(np.vdot(direction, image))
        weight = weight + length * direction
        earlier.append((residual, scaled / size))
        residual = residual - length * image
        for one, dual in earlier:
            residual = residual - float(np.vdot(dual, residual)) * one
        scaled = residual / diagonal
        size, before = float(np.vdot(residual, scaled)), size
        direction = scaled + size / before * direction
    return weight


def inverse_factor(H: Array) -> Array:
    """The upper triangular U with U^T U = H^-1 (Cholesky of H with both orders reversed; no inverse is formed)."""
    upper = np.linalg.cholesky(H[::-1, ::-1])[::-1, ::-1]
    return np.asarray(solve_triangular(upper, np.eye(len(H)), lower=False))
