"""Rigorous enclosures (python-flint) of a small layer's attention, loss and gradients; rotations enclosed as well.

All numbers of the layer and of X are taken as the exact floats they are, the scale too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.oracle.ball_forms import softmax_rows
from attnprune_verify.oracle.enclosure import Enclosure, as_ball, as_balls, enclose, hadamard, working_precision
from attnprune_verify.oracle.layer_inputs import LayerLike, LayerParts, layer_parts, mask_blocks

__all__ = ["attention", "gradient", "loss"]


def attention(layer: LayerLike, X: ArrayLike, *, prec: int = 128) -> Enclosure:
    """Enclose F^h for every head; (heads, n, n) or (k, heads, n, n)."""
    parts = layer_parts(layer, X)
    k, n, heads = len(parts.samples), len(parts.allowed), len(parts.W_Q)
    with working_precision(prec):
        balls: list[arb] = []
        for tokens in parts.samples:
            for head in range(heads):
                weight_q, weight_k = as_balls(parts.W_Q[head]), as_balls(parts.W_K[head // parts.group])
                sides = _Sides(parts, head, as_balls(tokens), weight_q, weight_k)
                balls += [entry for row in softmax_rows(sides.logits(), parts.allowed) for entry in row]
        return enclose(balls, (k, heads, n, n) if np.ndim(X) == 3 else (heads, n, n))


def loss(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0, *, prec: int = 128
) -> Enclosure:
    """Enclose the layer's loss (a 0-dimensional enclosure)."""
    parts = layer_parts(layer, X)
    with working_precision(prec):
        total = arb(0)
        for tokens in parts.samples:
            for head in range(len(parts.W_Q)):
                _, _, c = _residual(parts, head, as_balls(tokens), M_Q, M_K)
                total += sum((entry * entry for row in c for entry in row), arb(0)) / 2
        sizes = sum((as_ball(m) ** 2 for M in (M_Q, M_K) for m in np.ravel(np.asarray(M, dtype=np.float64))), arb(0))
        return enclose([total / len(parts.samples) + as_ball(lam) / 2 * sizes], ())


def gradient(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0, *, prec: int = 128
) -> tuple[Enclosure, Enclosure]:
    """Enclose the gradients in M_Q and M_K."""
    parts = layer_parts(layer, X)
    heads, groups = len(parts.W_Q), len(parts.W_K)
    d, m = parts.W_Q[0].shape
    with working_precision(prec):
        of_Q = [arb_mat(d, m) for _ in range(heads)]
        of_K = [arb_mat(d, m) for _ in range(groups)]
        for sample in parts.samples:
            tokens = as_balls(sample)
            for head in range(heads):
                sides, f, c = _residual(parts, head, tokens, M_Q, M_K)
                n, share = len(f), as_ball(parts.scale) / len(parts.samples)
                slopes: list[arb] = []
                for f_row, c_row in zip(f, c, strict=True):
                    average = sum((a * b for a, b in zip(c_row, f_row, strict=True)), arb(0))
                    slopes += [share * a * (b - average) for a, b in zip(f_row, c_row, strict=True)]
                p = arb_mat(n, n, slopes)
                turned_back_q = sides.turn_rows(p * sides.turned_keys, back=True)
                turned_back_k = sides.turn_rows(p.transpose() * sides.turned_queries, back=True)
                of_Q[head] += tokens.transpose() * turned_back_q
                of_K[head // parts.group] += tokens.transpose() * turned_back_k
        return (
            _with_weights(of_Q, parts.W_Q, M_Q, lam),
            _with_weights(of_K, parts.W_K, M_K, lam),
        )


def _with_weights(slopes: list[arb_mat], weights: list[NDArray[Any]], M: ArrayLike, lam: float) -> Enclosure:
    d, m = weights[0].shape
    blocks = [
        hadamard(as_balls(W), slope) + as_balls(mask) * as_ball(lam)
        for W, slope, mask in zip(weights, slopes, mask_blocks(M, len(weights)), strict=True)
    ]
    entries = [block[p, c] for p in range(d) for block in blocks for c in range(m)]
    return enclose(entries, (d, m * len(blocks)))


def _residual(
    parts: LayerParts, head: int, tokens: arb_mat, M_Q: ArrayLike, M_K: ArrayLike
) -> tuple[_Sides, list[list[arb]], list[list[arb]]]:
    """The masked queries and keys, f~ and c."""
    weight_q, weight_k = as_balls(parts.W_Q[head]), as_balls(parts.W_K[head // parts.group])
    masked_q = hadamard(as_balls(mask_blocks(M_Q, len(parts.W_Q))[head]), weight_q)
    masked_k = hadamard(as_balls(mask_blocks(M_K, len(parts.W_K))[head // parts.group]), weight_k)
    sides = _Sides(parts, head, tokens, masked_q, masked_k)
    f = softmax_rows(sides.logits(), parts.allowed)
    dense = softmax_rows(_Sides(parts, head, tokens, weight_q, weight_k).logits(), parts.allowed)
    return sides, f, [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(f, dense, strict=True)]


class _Sides:
    """Rotated queries and keys of one head, as balls."""

    def __init__(self, parts: LayerParts, head: int, tokens: arb_mat, A_Q: arb_mat, A_K: arb_mat) -> None:
        self._rope, self._scale = parts.rope, as_ball(parts.scale)
        self._m = A_Q.ncols()
        self.turned_queries = self.turn_rows(_shifted(tokens * A_Q, parts.b_Q[head]))
        self.turned_keys = self.turn_rows(_shifted(tokens * A_K, parts.b_K[head // parts.group]))

    def logits(self) -> arb_mat:
        return self.turned_queries * self.turned_keys.transpose() * self._scale

    def turn_rows(self, rows: arb_mat, *, back: bool = False) -> arb_mat:
        if self._rope is None:
            return rows
        m = self._m
        turned = arb_mat(rows)
        for pair in range(m // 2):
            first, second = (pair, pair + m // 2) if self._rope.layout == "half" else (2 * pair, 2 * pair + 1)
            frequency = _frequency(self._rope, pair, m)
            for i in range(rows.nrows()):
                sin, cos = (frequency * i).sin(), (frequency * i).cos()
                sin = -sin if back else sin
                turned[i, first] = rows[i, first] * cos - rows[i, second] * sin
                turned[i, second] = rows[i, first] * sin + rows[i, second] * cos
        return turned


def _shifted(rows: arb_mat, bias: NDArray[np.float64]) -> arb_mat:
    return rows + arb_mat(rows.nrows(), rows.ncols(), [as_ball(b) for _ in range(rows.nrows()) for b in bias])


def _frequency(rope: Any, pair: int, m: int) -> arb:
    frequency = as_ball(rope.theta) ** (-(arb(2 * pair) / m))
    if rope.scaling is None:
        return frequency
    slow = frequency / as_ball(rope.scaling["factor"])
    if rope.scaling["rope_type"] == "linear":
        return slow
    low, high, original = (
        as_ball(rope.scaling[key])
        for key in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    turns = original * frequency / (2 * arb.pi())
    kept = ((turns - low) / (high - low)).max(0).min(1)
    return kept * frequency + (1 - kept) * slow
