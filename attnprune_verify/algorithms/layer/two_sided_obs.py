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
    """Move the kept weights towards the least tr((W - target)^T H (W - target) G) by conjugate gradients."""
    diagonal = np.diag(H)[:, np.newaxis] * np.diagonal(G, axis1=1, axis2=2)[:, np.newaxis]
    weight = pruned.weight.copy()
    residual = (H @ (target - weight) @ G) * pruned.kept
    scaled = residual / diagonal
    direction, size = scaled, (residual * scaled).sum(axis=(1, 2))
    for _ in range(steps):
        image = (H @ direction @ G) * pruned.kept
        length = _ratio(size, (direction * image).sum(axis=(1, 2)))
        weight += length * direction
        residual = residual - length * image
        scaled = residual / diagonal
        size, before = (residual * scaled).sum(axis=(1, 2)), size
        direction = scaled + _ratio(size, before) * direction
    return Pruned(weight, pruned.kept)


def inverse_factor(H: Array) -> Array:
    """The upper triangular U with U^T U = H^-1 (Cholesky of H with both orders reversed; no inverse is formed)."""
    upper = np.linalg.cholesky(H[::-1, ::-1])[::-1, ::-1]
    return np.asarray(solve_triangular(upper, np.eye(len(H)), lower=False))


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Per head; 0 where there is nothing left to do."""
    safe = np.where(denominator > 0, denominator, 1.0)
    ratio: Array = np.where(denominator > 0, numerator / safe, 0.0)[:, np.newaxis, np.newaxis]
    return ratio
