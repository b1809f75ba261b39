"""The solver that `output-obs` had before large matrices were annealed in float32, to compare with.

Splitting with the adaptive schedule, thresholds by a partition of all scores, ten conjugate-gradient steps in float64
that keep residuals and their duals, budgets of one threshold for the whole matrix. NumPy only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def former(target: Array, H: Array, G: Array, rho: float) -> tuple[Array, NDArray[np.bool_]]:
    """Weights (blocks, d, m) with floor(rho size) zeros, and what is kept, in the metrics H and G as they are."""
    weight, kept = _split(target, H, G, int(rho * target.size))
    rhs = _in_metric(target - weight, H, G)
    return weight + _solve(kept, rhs, H, G), kept


def _split(target: Array, H: Array, G: Array, count: int) -> tuple[Array, NDArray[np.bool_]]:
    of_inputs, of_outputs = np.sqrt(np.diag(H)), np.sqrt(np.diagonal(G, axis1=1, axis2=2))
    units = of_inputs[:, np.newaxis] * of_outputs[:, np.newaxis]
    H = H / np.outer(of_inputs, of_inputs)
    G = G / (of_outputs[:, :, np.newaxis] * of_outputs[:, np.newaxis])
    (a, A), (b, B) = np.linalg.eigh(H), np.linalg.eigh(G)
    curvature = (a[:, np.newaxis] * b[:, np.newaxis]).astype(np.float32)
    A, B = A.astype(np.float32), B.astype(np.float32)
    start = _project((target * units).astype(np.float32), count)
    slope = _in_metric(target * units, H, G).astype(np.float32)
    penalty, growing = 0.1, False
    W, D, V, support = start, start, np.zeros_like(start), start != 0
    for iteration in range(1, 301):
        right = slope - V
        right += np.float32(penalty) * D
        rotated = _times(A.T, right) @ B / (curvature + np.float32(penalty)) @ B.swapaxes(1, 2)
        W = _times(A, rotated)
        D = _project(W + V / penalty, count)
        V = V + penalty * (W - D)
        if iteration % 3:
            continue
        now = D != 0
        changed, kept = int(np.count_nonzero(now != support)), max(1, int(np.count_nonzero(now)))
        support = now
        if changed > 0.005 * kept or (changed and growing):
            growing = True
            penalty *= 1.3 if changed > 0.1 * kept else 1.2 if changed > 0.005 * kept else 1.1
        elif growing:
            break
        else:
            penalty /= 5
            if changed:
                D, V = start, np.zeros_like(start)
        if iteration >= 30 and changed < 0.0003 * kept:
            break
    chosen: NDArray[np.bool_] = ~_smallest(np.abs(W), count)
    return np.where(chosen, W / units, 0.0), chosen


def _solve(kept: NDArray[np.bool_], rhs: Array, H: Array, G: Array, steps: int = 10) -> Array:
    diagonal = np.diag(H)[:, np.newaxis] * np.diagonal(G, axis1=1, axis2=2)[:, np.newaxis]
    solution, residual = np.zeros_like(rhs), rhs * kept
    scaled = residual / diagonal
    direction, size = scaled, _dots(residual, scaled)
    earlier: list[tuple[Array, Array]] = []
    for _ in range(steps):
        image = _in_metric(direction, H, G) * kept
        length = size / _dots(direction, image)
        solution = solution + length * direction
        earlier.append((residual, scaled / size))
        residual = residual - length * image
        for one, dual in earlier:
            residual -= _dots(dual, residual) * one
        scaled = residual / diagonal
        size, before = _dots(residual, scaled), size
        direction = scaled + size / before * direction
    return solution


def _project(W: Array, count: int) -> Array:
    return np.where(_smallest(np.abs(W), count), np.float32(0), W)


def _smallest(scores: Array, count: int) -> NDArray[np.bool_]:
    flat = scores.ravel()
    threshold = np.partition(flat, count - 1)[count - 1]
    below, ties = flat < threshold, flat == threshold
    return np.asarray(below | (ties & (ties.cumsum() <= count - np.count_nonzero(below)))).reshape(scores.shape)


def _dots(one: Array, other: Array) -> Array:
    return np.asarray(np.einsum("bdm,bdm->b", one, other)[:, np.newaxis, np.newaxis])


def _times(H: Array, D: Array) -> Array:
    """One product with H for all blocks."""
    flat = H @ D.swapaxes(0, 1).reshape(D.shape[1], -1)
    return flat.reshape(len(flat), len(D), -1).swapaxes(0, 1)


def _in_metric(D: Array, H: Array, G: Array) -> Array:
    return np.asarray(_times(H, D) @ G)
