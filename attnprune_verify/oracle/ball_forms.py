"""The closed forms in balls: softmax, residual, loss term, and X^T p X with its derivative, row block by row block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from attnprune_verify.oracle.enclosure import as_balls, hadamard

_BLOCK = 2**17  # logits per row block: bounds the memory, about 100 bytes each


class Logits(NamedTuple):
    """The weights of F(M) and of F(1), and whether they are certainly the same numbers."""

    pruned: arb_mat
    dense: arb_mat
    same: bool


def fused(pruning: NDArray[Any], weight: NDArray[Any]) -> Logits:
    balls = as_balls(weight)
    return Logits(hadamard(as_balls(pruning), balls), balls, _nothing_pruned(pruning, weight))


def pair(pruning_q: NDArray[Any], pruning_k: NDArray[Any], weight_q: NDArray[Any], weight_k: NDArray[Any]) -> Logits:
    query, key = as_balls(weight_q), as_balls(weight_k)
    pruned = hadamard(as_balls(pruning_q), query) * hadamard(as_balls(pruning_k), key).transpose()
    same = _nothing_pruned(pruning_q, weight_q) and _nothing_pruned(pruning_k, weight_k)
    return Logits(pruned, query * key.transpose(), same)


def _nothing_pruned(pruning: NDArray[Any], weight: NDArray[Any]) -> bool:
    return bool(((pruning == 1) | (weight == 0)).all())


def row_blocks(n: int) -> Iterator[slice]:
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def rows_of(matrix: arb_mat, block: slice) -> arb_mat:
    columns = matrix.ncols()
    return arb_mat(
        block.stop - block.start,
        columns,
        [matrix[i, j] for i in range(block.start, block.stop) for j in range(columns)],
    )


def softmax_rows(logits: arb_mat, allowed: NDArray[np.bool_]) -> list[list[arb]]:
    return [
        _softmax(row, np.flatnonzero(positions).tolist())
        for row, positions in zip(logits.tolist(), allowed, strict=True)
    ]


def _softmax(row: list[arb], positions: list[int]) -> list[arb]:
    # Any exact shift leaves the softmax unchanged; the middle of the largest logit keeps the exponentials near 1.
    weights = [arb(0)] * len(row)
    if len(positions) == 1:
        weights[positions[0]] = arb(1)
        return weights
    shift = max((row[j] for j in positions), key=float).mid()
    exponentials = [(row[j] - shift).exp() for j in positions]
    inverse = 1 / sum(exponentials, arb(0))
    for j, exponential in zip(positions, exponentials, strict=True):
        weights[j] = exponential * inverse
    return weights


class _Block(NamedTuple):
    tokens: arb_mat
    f: list[list[arb]]
    c: list[list[arb]]


def _residual_blocks(logits: Logits, tokens: arb_mat, allowed: NDArray[np.bool_]) -> Iterator[_Block]:
    pruned_keys = logits.pruned * tokens.transpose()
    dense_keys = logits.dense * tokens.transpose()
    for block in row_blocks(len(allowed)):
        rows = rows_of(tokens, block)
        f = softmax_rows(rows * pruned_keys, allowed[block])
        if logits.same:  # then c is exactly 0, not merely a ball around 0
            yield _Block(rows, f, [[arb(0)] * len(row) for row in f])
        else:
            dense = softmax_rows(rows * dense_keys, allowed[block])
            yield _Block(rows, f, [[a - b for a, b in zip(*both, strict=True)] for both in zip(f, dense, strict=True)])


def attention_term(logits: Logits, samples: NDArray[Any], allowed: NDArray[np.bool_]) -> arb:
    total = arb(0)
    for tokens in map(as_balls, samples):
        for block in _residual_blocks(logits, tokens, allowed):
            total += sum((c * c for row in block.c for c in row), arb(0))
    return total / (2 * len(samples))


def inner_gradient(logits: Logits, sample: NDArray[Any], allowed: NDArray[np.bool_]) -> arb_mat:
    tokens = as_balls(sample)
    total = arb_mat(tokens.ncols(), tokens.ncols())
    for block in _residual_blocks(logits, tokens, allowed):
        p = []
        for f, c in zip(block.f, block.c, strict=True):
            r = sum((a * b for a, b in zip(c, f, strict=True)), arb(0))
            p += [b * (a - r) for a, b in zip(c, f, strict=True)]
        total += block.tokens.transpose() * (arb_mat(len(block.f), len(allowed), p) * tokens)
    return total


def inner_product(logits: Logits, moved: arb_mat, sample: NDArray[Any], allowed: NDArray[np.bool_]) -> arb_mat:
    tokens = as_balls(sample)
    moved_keys = moved * tokens.transpose()
    total = arb_mat(tokens.ncols(), tokens.ncols())
    for block in _residual_blocks(logits, tokens, allowed):
        dp: list[arb] = []
        for f, c, dz in zip(block.f, block.c, (block.tokens * moved_keys).tolist(), strict=True):
            average = sum((a * b for a, b in zip(f, dz, strict=True)), arb(0))
            df = [a * (b - average) for a, b in zip(f, dz, strict=True)]
            r = sum((a * b for a, b in zip(c, f, strict=True)), arb(0))
            first = [(a + b) * e for a, b, e in zip(f, c, df, strict=True)]
            s = sum(first, arb(0))
            dp += [a - s * b - r * e for a, b, e in zip(first, f, df, strict=True)]
        total += block.tokens.transpose() * (arb_mat(len(block.f), len(allowed), dp) * tokens)
    return total


def mean(terms: Iterator[arb_mat]) -> arb_mat:
    matrices = list(terms)
    total = matrices[0]
    for matrix in matrices[1:]:
        total += matrix
    return total / len(matrices)


def square(matrix: arb_mat) -> arb:
    return sum((entry * entry for entry in matrix.entries()), arb(0))
