"""Softmax attention and its gradients in float64, with every intermediate an error analysis asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnprune_verify.audit.kernel.sample import Array, Mask, Sample

__all__ = ["Steps", "evaluate"]


@dataclass(frozen=True, eq=False)
class Steps:
    """Per query head, shapes (batch, heads, ...); dk and dv are summed over groups.

    Attributes
    ----------
    raw, s : logits before and after softcap and ALiBi
    slope : ds / d raw
    p, dp, mean, ds : softmax, dO V^T, (P * dP) 1, and the gradient by s
    k, v : keys and values as each query head reads them
    """

    allowed: Mask
    raw: Array
    s: Array
    slope: Array
    top: Array
    p: Array
    o: Array
    dp: Array
    mean: Array
    ds: Array
    k: Array
    v: Array
    dq: Array
    dk: Array
    dv: Array


def evaluate(sample: Sample) -> Steps:
    """All steps, once per sample."""
    if "steps" not in sample.memo:
        with np.errstate(all="ignore"):
            sample.memo["steps"] = _evaluate(sample)
    found: Steps = sample.memo["steps"]
    return found


def _evaluate(sample: Sample) -> Steps:
    allowed, scale = sample.allowed, sample.factor
    k, v = sample.grouped(sample.k), sample.grouped(sample.v)
    raw = scale * (sample.q @ _turned(k))
    s, slope = raw, np.ones_like(raw)
    if sample.softcap is not None:
        tanh = np.tanh(raw / sample.softcap)
        s, slope = sample.softcap * tanh, 1 - tanh**2
    if sample.alibi is not None:
        n, length = allowed.shape
        s = s - sample.alibi[:, None, None] * np.abs(np.arange(n)[:, None] - np.arange(length))
    top = np.where(allowed, s, -np.inf).max(axis=-1, keepdims=True)
    exponentials = np.where(allowed, np.exp(np.where(allowed, s - top, 0.0)), 0.0)
    p = exponentials / exponentials.sum(axis=-1, keepdims=True)
    dp = np.where(allowed, sample.do @ _turned(v), 0.0)
    mean = (p * dp).sum(axis=-1, keepdims=True)
    ds = p * (dp - mean)
    through = ds * slope
    dk, dv = scale * (_turned(through) @ sample.q), _turned(p) @ sample.do
    return Steps(
        allowed, raw, s, slope, top, p, p @ v, dp, mean, ds, k, v,
        scale * (through @ k), sample.per_key_head(dk), sample.per_key_head(dv),
    )  # fmt: skip


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)
