"""The definitions written plainly, with whole n x n arrays; the fast code is compared with them.

Logits, softmax, c, p, loss, gradient and Hessian-vector product of any `Problem`, one line a formula, every row shifted
by its maximum. The code that people call (`attnprune_verify.model.objective`) computes the same by blocks of rows; the
tests hold it to these lines within the running-error bound. `oracle/` shares neither.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.scores import Bend, modify
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Problem


class Point(NamedTuple):
    """The arrays of one evaluation: queries and keys, f~, c, p and the derivatives of modified scores."""

    queries: Array
    keys: Array
    F: Array
    c: Array
    p: Array
    bend: Bend | None


def point(problem: Problem, masks: Sequence[Array]) -> Point:
    """f~ = F(M), c = f~ - F(1) and p = c * f~ - diag((c * f~) 1) f~ (def:one_unit_loss, def:p); (k*heads, n, n)."""
    queries, keys = problem.sides(_masked(problem, masks))
    F, bend = _softmax(problem, queries, keys)
    c = F - _softmax(problem, *problem.sides(list(problem.weights.values())))[0]
    p = c * F - (c * F).sum(axis=-1, keepdims=True) * F
    return Point(queries, keys, F, c, p, bend)


def loss(problem: Problem, masks: Sequence[Array], lam: float) -> float:
    """1/(2k) sum ||c||_F^2 + (lam/2) ||M||_F^2 (def:loss_func)."""
    at = point(problem, masks)
    return float((at.c**2).sum() / (2 * problem.k) + lam / 2 * sum((M**2).sum() for M in masks))


def gradient(problem: Problem, masks: Sequence[Array], lam: float) -> list[Array]:
    """W * (the map's transpose of p K and p^T Q) / k + lam M, with p * u' for p where scores are modified."""
    at = point(problem, masks)
    moved = at.p if at.bend is None else at.p * at.bend.slope
    slopes = problem.pull_back(moved @ at.keys, moved.swapaxes(-1, -2) @ at.queries)
    return [
        W * slope / problem.k + lam * M for W, slope, M in zip(problem.weights.values(), slopes, masks, strict=True)
    ]


def hessian_vector_product(
    problem: Problem, masks: Sequence[Array], directions: Sequence[Array], lam: float
) -> list[Array]:
    """The derivative of `gradient` along the directions, term by term as in `model.functions`."""
    at = point(problem, masks)
    d_queries, d_keys = problem.sides(_masked(problem, directions), bias=False)
    if not problem.moves_keys:
        d_keys = np.zeros_like(at.keys)
    ds = d_queries @ at.keys.swapaxes(-1, -2) + at.queries @ d_keys.swapaxes(-1, -2)
    du = ds if at.bend is None else at.bend.slope * ds
    dF = at.F * (du - _inner(at.F, du))
    dp = dF * at.F + at.c * dF - (_inner(dF, at.F) + _inner(at.c, dF)) * at.F - _inner(at.c, at.F) * dF
    p = at.p
    if at.bend is not None:
        dp, p = dp * at.bend.slope + p * ds * at.bend.curve, p * at.bend.slope
    rows = dp @ at.keys + p @ d_keys
    columns = dp.swapaxes(-1, -2) @ at.queries + p.swapaxes(-1, -2) @ d_queries
    slopes = problem.pull_back(rows, columns)
    weights = problem.weights.values()
    return [W * slope / problem.k + lam * V for W, slope, V in zip(weights, slopes, directions, strict=True)]


def _softmax(problem: Problem, queries: Array, keys: Array) -> tuple[Array, Bend | None]:
    n = problem.n
    scores = queries @ keys.swapaxes(-1, -2)
    bend = modify(problem.modifiers, scores, RowBlock(slice(0, n), slice(0, n), None))
    scores = np.where(problem.visible.allowed(n), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True), bend


def _masked(problem: Problem, masks: Sequence[Array]) -> list[Array]:
    return [M * W for M, W in zip(masks, problem.weights.values(), strict=True)]


def _inner(a: Array, b: Array) -> Array:
    return np.asarray((a * b).sum(axis=-1, keepdims=True))
