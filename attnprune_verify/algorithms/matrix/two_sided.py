"""Optimal brain surgeon with a metric on either side of the weight: H on its inputs, G on its outputs.

The change D of the weight costs tr(D^T H D G) / 2. With G = I this is SparseGPT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from attnprune_verify.algorithms.matrix.budget import Budget
from attnprune_verify.instance.validate import Array

__all__ = ["Pruned", "by_block", "in_metric", "prune_two_sided", "refit", "side_by_side", "solve"]

_SOLVED = 1e-28  # of the first residual's square: what is left is rounding


class Pruned(NamedTuple):
    """Weights (blocks, d, m) with zeros where `kept` is False."""

    weight: Array
    kept: NDArray[np.bool_]


def prune_two_sided(
    weight: Array, H: Array, G: Array | None, budget: Budget, blocksize: int, *, factor: Array | None = None
) -> Pruned:
    """Prune inputs from first to last, repairing what is still to come.

    With U upper triangular, U^T U = H^-1, for some inputs at a time: score every weight by the cost of its removal,
    ``w^2 / (U_pp^2 (G^-1)_cc)``, and let the budget choose. Then input by input, with P the outputs pruned in row p,

    ::

        delta = w_p,P ((G^-1)_PP)^-1 (G^-1)_P,:       (the cheapest change of row p that zeroes P)
        w_p -= delta,    w_p' -= (U_pp' / U_pp) delta for p' > p

    With G = I, delta is w_p on P and the pass is SparseGPT's.

    Parameters
    ----------
    weight : (blocks, d, m) array
    H : (d, d) array, positive definite
    G : (blocks, m, m) array, positive definite, or None (the identity)
    budget : Budget
    blocksize : int
        Inputs after which the later ones are repaired; a budget without groups of its own chooses as many together.
    factor : (d, d) array, optional
        `inverse_factor` of H, where maps with the same inputs share it.
    """
    d = weight.shape[1]
    U = inverse_factor(H) if factor is None else factor
    G_inverse = None if G is None else np.linalg.inv(G)
    output_scale = 1.0 if G_inverse is None else np.diagonal(G_inverse, axis1=1, axis2=2)[:, np.newaxis]
    work, kept = weight.copy(), np.ones(weight.shape, dtype=np.bool_)
    together = budget.together(blocksize)
    blocksize += -blocksize % together
    for start in range(0, d, blocksize):
        block = slice(start, min(start + blocksize, d))
        diagonal = U[block, block]
        changes = np.empty_like(work[:, block])
        for i, p in enumerate(range(start, block.stop)):
            if i % together == 0:
                chosen = slice(p, min(p + together, block.stop))
                scale = np.diag(diagonal)[i : i + together, np.newaxis] ** 2 * output_scale
                kept[:, chosen] = ~budget.choose(work[:, chosen] ** 2 / scale, p)
            delta = _cheapest_changes(work[:, p], ~kept[:, p], G_inverse)
            work[:, p] = np.where(kept[:, p], work[:, p] - delta, 0.0)
            changes[:, i] = delta / diagonal[i, i]
            work[:, p + 1 : block.stop] -= diagonal[i, i + 1 :, np.newaxis] * changes[:, i, np.newaxis]
        work[:, block.stop :] -= U[block, block.stop :].T @ changes
    return Pruned(work, kept)


def _cheapest_changes(rows: Array, gone: NDArray[np.bool_], G_inverse: Array | None) -> Array:
    """For each block's row w the delta = w_P ((G^-1)_PP)^-1 (G^-1)_P,: that zeroes P; (blocks, m)."""
    if G_inverse is None:
        return np.where(gone, rows, 0.0)
    changes = np.zeros_like(rows)
    for change, row, P, metric in zip(changes, rows, gone, G_inverse, strict=True):
        if P.any():
            columns = metric[:, P]
            change[:] = columns @ np.linalg.solve(columns[P], row[P])
    return changes


def refit(pruned: Pruned, target: Array, H: Array, G: Array | None, steps: int) -> Pruned:
    """Move the kept weights towards the least tr((W - target)^T H (W - target) G), `steps` steps of each block."""
    weight, kept = pruned
    return Pruned(weight + solve(kept, in_metric(target - weight, H, G), H, G, steps), kept)


def solve(kept: NDArray[np.bool_], rhs: Array, H: Array, G: Array | None, steps: int) -> Array:
    """`steps` steps towards the D on `kept` with H D G = rhs there: the least tr(D^T H D G) / 2 - tr(D^T rhs).

    Conjugate gradients from 0, every block with step lengths of its own, preconditioned by the diagonal; every residual
    is made orthogonal to all earlier ones again. Tokens share a large mean, so H has an eigenvalue far above the rest.
    Its direction is solved within a few steps and then grows back from rounding errors: without the orthogonality the
    result would be a matter of the last bits, and so would masks that are chosen after it.
    """
    of_outputs = 1.0 if G is None else np.diagonal(G, axis1=1, axis2=2)[:, np.newaxis]
    diagonal = np.diag(H)[:, np.newaxis] * of_outputs
    solution, residual = np.zeros_like(rhs), rhs * kept
    scaled = residual / diagonal
    direction, size = scaled, _dots(residual, scaled)
    solved = _SOLVED * size
    earlier: list[tuple[Array, Array]] = []
    for _ in range(steps):
        unsolved = size > solved  # a block that is solved moves no further
        if not unsolved.any():
            break
        image = in_metric(direction, H, G) * kept
        length = np.where(unsolved, size / np.where(unsolved, _dots(direction, image), 1.0), 0.0)
        solution = solution + length * direction
        earlier.append((residual, scaled / np.where(unsolved, size, 1.0)))
        residual = residual - length * image
        for one, dual in earlier:
            residual -= _dots(dual, residual) * one
        scaled = residual / diagonal
        size, before = np.where(unsolved, _dots(residual, scaled), 0.0), size
        direction = scaled + size / np.where(unsolved, before, 1.0) * direction
    return solution


def _dots(one: Array, other: Array) -> Array:
    """The inner product of each block, (blocks, 1, 1)."""
    found: Array = np.einsum("bdm,bdm->b", one, other)[:, np.newaxis, np.newaxis]
    return found


def in_metric(change: Array, H: Array, G: Array | None) -> Array:
    """H D G, the gradient of tr(D^T H D G) / 2, for D (blocks, d, m); one product with H for all blocks."""
    image = by_block(H @ side_by_side(change), len(change))
    return image if G is None else image @ G


def side_by_side(blocks: Array) -> Array:
    """(blocks, d, m) -> (d, blocks*m)."""
    return blocks.swapaxes(0, 1).reshape(blocks.shape[1], -1)


def by_block(matrix: Array, blocks: int) -> Array:
    """(d, blocks*m) -> (blocks, d, m), a view."""
    return matrix.reshape(len(matrix), blocks, -1).swapaxes(0, 1)


def inverse_factor(H: Array) -> Array:
    """The upper triangular U with U^T U = H^-1 (Cholesky of H with both orders reversed; no inverse is formed)."""
    upper = np.linalg.cholesky(H[::-1, ::-1])[::-1, ::-1]
    return np.asarray(solve_triangular(upper, np.eye(len(H)), lower=False))
