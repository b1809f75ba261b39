"""A layer taken apart for the oracles: plain per-head arrays, allowed positions, and rotation matrices written out.

The layer is any object with the attributes of an attention layer (W_Q, W_K, b_Q, b_K, heads, kv_heads, scale, rope,
mask); its own methods are never used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Mask, as_mask

__all__ = ["LayerLike", "LayerParts", "layer_parts", "mask_blocks", "rotation_matrices"]


class LayerLike(Protocol):
    """What the oracles read of a layer."""

    W_Q: Any
    W_K: Any
    b_Q: Any
    b_K: Any
    heads: int
    kv_heads: int
    scale: float
    rope: Any
    mask: Mask


class LayerParts(NamedTuple):
    """Everything by heads: W_Q and b_Q lists over heads of (d, m) and (m,), W_K and b_K over kv_heads."""

    W_Q: list[NDArray[np.float64]]
    W_K: list[NDArray[np.float64]]
    b_Q: list[NDArray[np.float64]]
    b_K: list[NDArray[np.float64]]
    samples: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    group: int
    scale: float
    rope: Any


def layer_parts(layer: LayerLike, X: ArrayLike) -> LayerParts:
    """Cut a layer into heads and bring X to (k, n, d).

    Raises
    ------
    InvalidInstance
        If X does not fit the layer.
    """
    tokens = np.asarray(X, dtype=np.float64)
    samples = tokens if tokens.ndim == 3 else tokens[np.newaxis]
    if samples.ndim != 3 or samples.shape[2] != np.shape(layer.W_Q)[0]:
        raise InvalidInstance(f"X must be (n, d) or (k, n, d) with d = {np.shape(layer.W_Q)[0]}; got {tokens.shape}")
    n = samples.shape[1]
    mask = as_mask(layer.mask, n)
    allowed = np.ones((n, n), dtype=np.bool_) if mask is None else np.tri(n, dtype=np.bool_)
    if isinstance(mask, np.ndarray):
        allowed = mask
    return LayerParts(
        mask_blocks(layer.W_Q, layer.heads),
        mask_blocks(layer.W_K, layer.kv_heads),
        _bias_blocks(layer.b_Q, np.shape(layer.W_Q)[1], layer.heads),
        _bias_blocks(layer.b_K, np.shape(layer.W_K)[1], layer.kv_heads),
        samples,
        allowed,
        layer.heads // layer.kv_heads,
        float(layer.scale),
        layer.rope,
    )


def mask_blocks(matrix: ArrayLike, heads: int) -> list[NDArray[np.float64]]:
    """(d, heads*m) as a list of (d, m)."""
    return np.split(np.asarray(matrix, dtype=np.float64), heads, axis=1)


def rotation_matrices(rope: Any, n: int, m: int) -> NDArray[np.float64]:
    """R_0 .. R_{n-1} written out, acting on columns; (n, m, m). Without RoPE they are identities."""
    matrices = np.broadcast_to(np.eye(m), (n, m, m)).copy()
    if rope is None:
        return matrices
    for pair in range(m // 2):
        first, second = (pair, pair + m // 2) if rope.layout == "half" else (2 * pair, 2 * pair + 1)
        for position in range(n):
            angle = position * _frequency(rope, pair, m)
            matrices[position, first, first] = matrices[position, second, second] = math.cos(angle)
            matrices[position, first, second] = -math.sin(angle)
            matrices[position, second, first] = math.sin(angle)
    return matrices


def _frequency(rope: Any, pair: int, m: int) -> float:
    """The angle per position; long waves slowed down where the layer scales its rotations."""
    frequency = 1.0 / rope.theta ** (2 * pair / m)
    if rope.scaling is None:
        return float(frequency)
    slow = frequency / rope.scaling["factor"]
    if rope.scaling["rope_type"] == "linear":
        return float(slow)
    wavelength = 2 * math.pi / frequency
    original = rope.scaling["original_max_position_embeddings"]
    low, high = rope.scaling["low_freq_factor"], rope.scaling["high_freq_factor"]
    if wavelength < original / high:
        return float(frequency)
    if wavelength > original / low:
        return float(slow)
    smooth = (original / wavelength - low) / (high - low)
    return float((1 - smooth) * slow + smooth * frequency)


def _bias_blocks(bias: Any, size: int, heads: int) -> list[NDArray[np.float64]]:
    return np.split(np.zeros(size) if bias is None else np.asarray(bias, dtype=np.float64), heads)
