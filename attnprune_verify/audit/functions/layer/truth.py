"""Right results of functions of a layer, and the error a correct program may have; never computed by the subject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attnprune_verify.audit.functions.layer.sample import LayerSample
from attnprune_verify.model import layer_functions
from attnprune_verify.oracle import ball, running_error

Matrix = NDArray[np.float64]


def layer_enclosures(function: str, sample: LayerSample) -> tuple[ball.Enclosure, ...]:
    """Enclosures of every part, by ball arithmetic."""
    if function == "layer_attention":
        return (ball.layer_attention(sample.layer, sample.X),)
    if function == "layer_loss":
        return (ball.layer_loss(sample.layer, sample.M_Q, sample.M_K, sample.X, sample.lam),)
    if function == "layer_gradient":
        return ball.layer_gradient(sample.layer, sample.M_Q, sample.M_K, sample.X, sample.lam)
    return (_relative_error(sample),)


def _relative_error(sample: LayerSample) -> ball.Enclosure:
    """Interval arithmetic on the enclosures of both attention matrices, which are within a rounding of the truth."""
    if all(np.array_equal(*pair) for pair in _both_weights(sample)):
        return ball.Enclosure(np.zeros(sample.heads), np.zeros(sample.heads))
    dense, pruned = (ball.layer_attention(layer, sample.X) for layer in (sample.dense, sample.pruned))
    low, high = pruned.lower - dense.upper, pruned.upper - dense.lower
    least = np.where(low > 0, low, np.where(high < 0, -high, 0.0)) ** 2
    most = np.maximum(np.abs(low), np.abs(high)) ** 2
    few = 1 + (least.size + 8) * 2.0**-51  # rounding of the differences, squares and sums
    size = np.maximum(dense.lower, 0.0) ** 2, dense.upper**2
    sums = [_over_samples(part) for part in (least, most, *size)]
    return ball.Enclosure(sums[0] / sums[3] / few**2, sums[1] / sums[2] * few**2)


def _both_weights(sample: LayerSample) -> tuple[tuple[Any, Any], ...]:
    return (sample.dense.W_Q, sample.pruned.W_Q), (sample.dense.W_K, sample.pruned.W_K)


def _over_samples(entries: Matrix) -> Matrix:
    """Sums over everything but the heads."""
    per_head = entries if entries.ndim == 4 else entries[None]
    return np.asarray(per_head.sum(axis=(0, 2, 3)))


def layer_bounds(function: str, sample: LayerSample, u: float) -> tuple[Any, ...]:
    """The running-error bound of every part."""
    at = (sample.layer, sample.M_Q, sample.M_K, sample.X, sample.lam)
    if function == "layer_attention":
        return (running_error.layer_attention_bound(sample.layer, sample.X, u),)
    if function == "layer_loss":
        return (running_error.layer_loss_bound(*at, u),)
    if function == "layer_gradient":
        return running_error.layer_gradient_bound(*at, u)
    return (_relative_error_bound(sample, u),)


def _relative_error_bound(sample: LayerSample, u: float) -> Matrix:
    """|c^ - c| <= e: both sums are off by 2 |c| e + e^2 and their own roundings, the quotient by both."""
    layers = (sample.dense, sample.pruned)
    F, G = (layer_functions.layer_attention(layer, sample.X).astype(float) for layer in layers)
    off_F, off_G = (running_error.layer_attention_bound(layer, sample.X, u) for layer in layers)
    own = sum(running_error.layer_attention_bound(layer, sample.X) for layer in layers)
    c = np.abs(G - F) + own
    e = off_F + off_G + u * c
    rounding = (c.size + 8) * u
    misfit, size = _over_samples(c * c), _over_samples(F * F)
    off_misfit = _over_samples(2 * c * e + e * e) + rounding * misfit
    off_size = _over_samples(2 * F * off_F + off_F**2) / size + rounding
    return np.asarray(1.01 * (off_misfit + misfit * (off_size + 4 * u)) / size)


def layer_loops(function: str, sample: LayerSample, u: float) -> tuple[Any, ...]:
    """Bound the cost of adding up all positions index by index: n^2 u times the sum of absolute values."""
    if function != "layer_gradient":
        return (0.0,)
    batch = sample.X if sample.X.ndim == 3 else sample.X[None]
    count = len(batch) * sample.n**2 * sample.heads + sample.n + sample.d + 8
    weights = [M.astype(float) * W for M, W in ((sample.M_Q, sample.W_Q), (sample.M_K, sample.W_K))]
    pruned = sample.recast(np.float64).changed(W_Q=weights[0], W_K=weights[1], M_Q=sample.M_Q, M_K=sample.M_K).layer
    dense = sample.recast(np.float64).layer
    totals = [np.zeros(part.shape) for part in weights]
    m, group = sample.m, sample.heads // sample.kv_heads
    for tokens in batch.astype(np.float64):
        F, G = (layer_functions.layer_attention(layer, tokens) for layer in (dense, pruned))
        c = np.abs(G - F)
        p = c * G + (c * G).sum(axis=-1, keepdims=True) * G
        sizes = [
            np.abs(tokens) @ np.abs(A) + (0.0 if b is None else np.abs(b))
            for A, b in zip(weights, (sample.b_Q, sample.b_K), strict=True)
        ]
        turned = 2.0 if sample.rope is not None else 1.0  # |R| |R| in norm, once each way
        for h in range(sample.heads):
            query, key = slice(h * m, (h + 1) * m), slice(h // group * m, (h // group + 1) * m)
            totals[0][:, query] += turned * sample.factor * np.abs(tokens).T @ p[h] @ sizes[1][:, key]
            totals[1][:, key] += turned * sample.factor * np.abs(tokens).T @ p[h].T @ sizes[0][:, query]
    given = zip((sample.W_Q, sample.W_K), totals, (sample.M_Q, sample.M_K), strict=True)
    return tuple(1.01 * count * u * (np.abs(W) * total / len(batch) + sample.lam * np.abs(M)) for W, total, M in given)


def layer_trusted(function: str, sample: LayerSample) -> tuple[NDArray[Any], ...]:
    """The library's own floating-point result, in float32 unless the sample is in float64."""
    dtype = np.float64 if sample.unit_roundoff < 2.0**-40 else np.float32
    cast = sample.recast(dtype)
    if function == "layer_attention":
        value: Any = layer_functions.layer_attention(cast.layer, cast.X)
    elif function == "layer_relative_error":
        # what was rounded to the precision stays as it is
        value = layer_functions.layer_relative_error(
            cast.layer, cast.layer.with_weights(*_weights(sample, dtype)), cast.X
        )
    else:
        value = getattr(layer_functions, function)(cast.layer, cast.M_Q, cast.M_K, cast.X, cast.lam)
    return tuple(np.asarray(part) for part in value) if isinstance(value, tuple) else (np.asarray(value),)


def stored_attention_error(sample: LayerSample) -> float:
    """Return u ||F|| ||F' - F||: what layer_loss is off by where both attention matrices are rounded once.

    The library's own errors may be smaller by far: where logits are tiny, both matrices are rounded alike.
    """
    attention = layer_functions.layer_attention(sample.layer, sample.X)
    change = layer_functions.layer_attention(sample.pruned, sample.X) - attention
    return float(sample.unit_roundoff * np.linalg.norm(attention) * np.linalg.norm(change))


def _weights(sample: LayerSample, dtype: Any) -> tuple[Any, Any]:
    return sample.pruned.W_Q.astype(dtype), sample.pruned.W_K.astype(dtype)


def permuted_layer(
    sample: LayerSample, rng: Generator
) -> tuple[LayerSample, Callable[[str, tuple[Matrix, ...]], tuple[Matrix, ...]]]:
    """The sample with features, and what else has no order, in another order; and how to bring results back."""
    features = rng.permutation(sample.d)
    inner = np.arange(sample.m) if sample.rope is not None else rng.permutation(sample.m)
    tokens = np.arange(sample.n) if sample.positional else rng.permutation(sample.n)
    columns = [
        np.concatenate([h * sample.m + inner for h in range(count)]) for count in (sample.heads, sample.kv_heads)
    ]
    places = {side: np.ix_(features, own) for side, own in zip("QK", columns, strict=True)}
    biases = {
        f"b_{side}": None if (b := getattr(sample, f"b_{side}")) is None else b[own]
        for side, own in zip("QK", columns, strict=True)
    }
    moved = sample.changed(
        X=sample.X[..., tokens, :][..., features],
        mask=None if sample.mask is None else sample.mask[np.ix_(tokens, tokens)],
        **{f"{letter}_{side}": getattr(sample, f"{letter}_{side}")[places[side]] for letter in "WM" for side in "QK"},
        **biases,
    )

    def back(function: str, parts: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
        if function == "layer_attention":
            target = np.empty_like(np.asarray(parts[0]))
            target[..., tokens[:, None], tokens] = parts[0]
            return (target,)
        if function != "layer_gradient":
            return parts
        restored = []
        for part, side in zip(parts, "QK", strict=True):
            whole = np.empty_like(np.asarray(part))
            whole[places[side]] = part
            restored.append(whole)
        return tuple(restored)

    return moved, back
