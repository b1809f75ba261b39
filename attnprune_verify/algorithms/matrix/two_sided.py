"""Optimal brain surgeon with a metric on either side of the weight: H on its inputs, G on its outputs.

The change D of the weight costs tr(D^T H D G) / 2. With G = I this is SparseGPT.
"""

from typing import NamedTuple

import numpy as np

from attnprune_verify.algorithms.arrays import (
    AnyArray,
    diagonal,
    dot,
    inverse_factor,
    is_large,
    is_numpy_array,
    masked,
    xp_of,
)
from attnprune_verify.algorithms.matrix.budget import Budget

_SOLVED = 1e-28  # of the first residual's square: what is left is rounding
_ENOUGH = 4e-3  # of the objective, for large weights; chosen: an iteration more of annealing gains more for its time


class Pruned(NamedTuple):
    """Weights (blocks, d, m) with zeros where `kept` is False."""

    weight: AnyArray
    kept: AnyArray


def prune_two_sided(
    weight: AnyArray,
    H: AnyArray,
    G: AnyArray | None,
    budget: Budget,
    blocksize: int,
    *,
    factor: AnyArray | None = None,
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
    xp, d = xp_of(weight, H), weight.shape[1]
    U = inverse_factor(H) if factor is None else factor
    G_inverse = None if G is None else xp.linalg.inv(G)
    output_scale = 1.0 if G_inverse is None else diagonal(G_inverse)[:, None, :]
    work, kept = xp.asarray(weight, copy=True), xp.ones_like(weight, dtype=xp.bool)
    together = budget.together(blocksize)
    blocksize += -blocksize % together
    for start in range(0, d, blocksize):
        block = slice(start, min(start + blocksize, d))
        triangle = U[block, block]
        along = diagonal(triangle)
        changes = xp.empty_like(work[:, block, :])
        for i, p in enumerate(range(start, block.stop)):
            if i % together == 0:
                chosen = slice(p, min(p + together, block.stop))
                scale = along[i : i + together][:, None] ** 2 * output_scale
                kept[:, chosen, :] = ~budget.choose(work[:, chosen, :] ** 2 / scale, p)
            delta = _cheapest_changes(work[:, p, :], ~kept[:, p, :], G_inverse)
            work[:, p, :] = masked(kept[:, p, :], work[:, p, :] - delta)
            changes[:, i, :] = delta / triangle[i, i]
            work[:, p + 1 : block.stop, :] -= triangle[i, i + 1 :][:, None] * changes[:, i, :][:, None, :]
        work[:, block.stop :, :] -= xp.matrix_transpose(U[block, block.stop :]) @ changes
    return Pruned(work, kept)


def _cheapest_changes(rows: AnyArray, gone: AnyArray, G_inverse: AnyArray | None) -> AnyArray:
    """For each block's row w the delta = w_P ((G^-1)_PP)^-1 (G^-1)_P,: that zeroes P; (blocks, m)."""
    if G_inverse is None:
        return masked(gone, rows)
    xp = xp_of(rows)
    changes = xp.zeros_like(rows)
    for b in range(rows.shape[0]):
        P = xp.nonzero(gone[b, :])[0]
        if P.shape[0]:
            columns = xp.take(G_inverse[b, :, :], P, axis=1)
            right = xp.take(rows[b, :], P)[:, None]
            changes[b, :] = (columns @ xp.linalg.solve(xp.take(columns, P, axis=0), right))[:, 0]
    return changes


def refit(pruned: Pruned, target: AnyArray, H: AnyArray, G: AnyArray | None, steps: int) -> Pruned:
    """Move the kept weights towards the least tr((W - target)^T H (W - target) G), `steps` steps of each block.

    Where weights are large it ends before that if a step takes less than 4e-3 off what is left.
    """
    weight, kept = pruned
    change = target - weight
    image = in_metric(change, H, G)
    least = _ENOUGH * dot(change, image) / 2 if is_large(target) else 0.0
    return Pruned(weight + solve(kept, image, H, G, steps, least=least), kept)


def solve(
    kept: AnyArray, rhs: AnyArray, H: AnyArray, G: AnyArray | None, steps: int, *, least: float = 0.0
) -> AnyArray:
    """`steps` steps towards the D on `kept` with H D G = rhs there: the least tr(D^T H D G) / 2 - tr(D^T rhs).

    Conjugate gradients from 0, every block with step lengths of its own, preconditioned by the diagonal; every residual
    is made orthogonal to all earlier ones again. Tokens share a large mean, so H has an eigenvalue far above the rest.
    Its direction is solved within a few steps and then grows back from rounding errors: without the orthogonality the
    result would be a matter of the last bits, and so would masks that are chosen after it. A step that lowers what is
    minimised by less than `least` is the last.
    """
    xp = xp_of(rhs, H)
    of_inputs, of_outputs = diagonal(H)[:, None], 1.0 if G is None else diagonal(G)[:, None, :]
    inverse = 1 / (of_inputs * of_outputs)
    solution, residual = xp.zeros_like(rhs), masked(kept, rhs)
    scaled = residual * inverse
    direction, size = scaled, _dots(residual, scaled)
    solved = _SOLVED * size
    earlier: list[tuple[AnyArray, AnyArray]] = []
    for step in range(steps):
        unsolved = size > solved  # a block that is solved moves no further
        if not bool(xp.any(unsolved)):
            break
        image = masked(kept, in_metric(direction, H, G))
        length = masked(unsolved, size / _or_one(unsolved, _dots(direction, image)))
        solution = solution + length * direction
        if step + 1 == steps or float(xp.sum(length * size)) / 2 < least:
            break
        earlier.append((residual, _or_one(unsolved, size)))
        residual = residual - length * image
        scaled = residual * inverse
        for coefficient, one in [(_dots(one, scaled) / norm, one) for one, norm in earlier]:
            residual = residual - coefficient * one
        scaled = residual * inverse
        size, before = masked(unsolved, _dots(residual, scaled)), size
        direction = scaled + size / _or_one(unsolved, before) * direction
    return solution


def _or_one(where: AnyArray, array: AnyArray) -> AnyArray:
    """The array, with 1 where the condition is False."""
    return xp_of(array).where(where, array, xp_of(array).ones_like(array))


def _dots(one: AnyArray, other: AnyArray) -> AnyArray:
    """The inner product of each block, (blocks, 1, 1)."""
    xp = xp_of(one)
    if is_numpy_array(one) and one.dtype == np.float64:
        return np.einsum("bdm,bdm->b", one, other)[:, np.newaxis, np.newaxis]
    return xp.sum(xp.linalg.vecdot(one, other, axis=-1), axis=-1)[:, None, None]  # by rows: float32 sums stay short


def in_metric(change: AnyArray, H: AnyArray, G: AnyArray | None) -> AnyArray:
    """H D G, the gradient of tr(D^T H D G) / 2, for D (blocks, d, m); one product with H for all blocks."""
    image = by_block(H @ side_by_side(change), change.shape[0])
    return image if G is None else image @ G


def side_by_side(blocks: AnyArray) -> AnyArray:
    """(blocks, d, m) -> (d, blocks*m)."""
    xp = xp_of(blocks)
    return xp.reshape(xp.permute_dims(blocks, (1, 0, 2)), (blocks.shape[1], -1))


def by_block(matrix: AnyArray, blocks: int) -> AnyArray:
    """(d, blocks*m) -> (blocks, d, m), a view."""
    xp = xp_of(matrix)
    return xp.permute_dims(xp.reshape(matrix, (matrix.shape[0], blocks, -1)), (1, 0, 2))
