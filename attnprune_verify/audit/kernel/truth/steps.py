"""Softmax attention and its gradients in float64, with every intermediate that the error analysis uses.

A sink is one more key of every head: its logit is given, its key and its value are 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask

__all__ = ["KernelSteps", "evaluate", "spread_over"]


@dataclass(frozen=True, eq=False)
class KernelSteps:
    """Intermediates by query head, (batch, heads, ...); dk and dv are summed over groups; a sink is the last column.

    Attributes
    ----------
    raw, s : logits before and after softcap, bias and ALiBi
    slope, by_bias : ds / d raw and ds / d bias
    kept : Array or float
        What dropout multiplies weights by, 1 where there is none.
    p, dp, mean, ds : Array
        Softmax, kept * dO V^T, (P * dP) 1, and the gradient by s.
    inner : Array
        DP - mean, plus the cotangent of log sum exp.
    k, v : Array
        Keys and values as each query head reads them.
    """

    allowed: Mask
    raw: Array
    s: Array
    slope: Array
    by_bias: Array
    kept: Array | float
    top: Array
    p: Array
    o: Array
    lse: Array
    dp: Array
    mean: Array
    inner: Array
    ds: Array
    k: Array
    v: Array
    dq: Array
    dk: Array
    dv: Array
    dbias: Array
    dsinks: Array


def evaluate(sample: KernelSample) -> KernelSteps:
    """All steps, once per sample."""
    if "steps" not in sample.memo:
        with np.errstate(all="ignore"):
            sample.memo["steps"] = _evaluate(sample)
    found: KernelSteps = sample.memo["steps"]
    return found


def spread_over(sample: KernelSample, array: Array) -> Array:
    """Something per bias entry, summed over what the bias was broadcast along."""
    if sample.bias is None:
        return np.zeros(0)
    axes = tuple(axis for axis, size in enumerate(sample.bias.shape) if size == 1 and array.shape[axis] > 1)
    return np.asarray(array.sum(axis=axes, keepdims=True))


def _evaluate(sample: KernelSample) -> KernelSteps:
    scale, length = sample.factor, sample.k.shape[2]
    k, v = sample.grouped(sample.k), sample.grouped(sample.v)
    raw = scale * (sample.q @ _turned(k))
    s, slope, by_bias, allowed = _scores(sample, raw)
    kept: Array | float = sample.kept
    if sample.sinks is not None:
        sink = np.broadcast_to(sample.sinks[:, None, None], (*s.shape[:3], 1))
        raw, s = np.concatenate([raw, sink], axis=-1), np.concatenate([s, sink], axis=-1)
        slope, by_bias = (np.concatenate([x, np.ones_like(sink)], axis=-1) for x in (slope, by_bias))
        k, v = (np.concatenate([x, np.zeros_like(x[:, :, :1])], axis=2) for x in (k, v))
        allowed = np.concatenate([allowed, np.ones_like(allowed[..., :1])], axis=-1)
        if sample.dropout is not None:
            kept = np.concatenate([kept * np.ones((*s.shape[:3], length)), np.ones_like(sink)], axis=-1)
    found = allowed.any(axis=-1, keepdims=True)
    top = np.where(found, np.where(allowed, s, -np.inf).max(axis=-1, keepdims=True), 0.0)
    exponentials = np.where(allowed, np.exp(np.where(allowed, s - top, 0.0)), 0.0)
    total = exponentials.sum(axis=-1, keepdims=True)
    p = exponentials / np.where(found, total, 1.0)
    dp = np.where(allowed, kept * (sample.do @ _turned(v)), 0.0)
    mean = (p * dp).sum(axis=-1, keepdims=True)
    inner = dp - mean if sample.pull is None else dp - mean + sample.pull[..., None]
    ds = p * inner
    through, used = ds * slope, p * kept
    dk, dv = scale * (_turned(through) @ sample.q), _turned(used) @ sample.do
    lse = np.where(found, top + np.log(total), -np.inf)[..., 0] / sample.conventions.unit
    return KernelSteps(
        allowed, raw, s, slope, by_bias, kept, top, p, used @ v, lse, dp, mean, inner, ds, k, v,
        scale * (through @ k), sample.per_key_head(dk)[:, :, :length], sample.per_key_head(dv)[:, :, :length],
        spread_over(sample, (ds * by_bias)[..., :length]), ds[..., length:].sum(axis=(0, 2, 3)),
    )  # fmt: skip


def _scores(sample: KernelSample, raw: Array) -> tuple[Array, Array, Array, Mask]:
    """The logits in the declared order, their derivatives by the scaled products and by the bias, and what is allowed.

    A mask that comes before the softcap forbids nothing: those logits are -c, and constant.
    """
    scale, allowed = sample.factor, sample.allowed
    s, slope, by_bias = raw / scale if sample.conventions.order[0] != "scale" else raw, np.ones_like(raw), None
    scaled = sample.conventions.order[0] == "scale"
    for step in sample.conventions.order:
        if step == "scale" and not scaled:
            s, scaled = s * scale, True
            by_bias = None if by_bias is None else by_bias * scale
        elif step == "softcap" and sample.softcap is not None:
            tanh = np.tanh(s / sample.softcap)
            s, slope = sample.softcap * tanh, slope * (1 - tanh**2)
            by_bias = None if by_bias is None else by_bias * (1 - tanh**2)
        elif step == "bias" and sample.bias is not None:
            s, by_bias = s + sample.bias, np.ones_like(raw)
        elif step == "alibi" and sample.alibi is not None:
            s = s - sample.alibi[:, None, None] * np.abs(sample.distance)
        elif step == "mask" and sample.softcap is not None and sample.conventions.mask_first:
            s, allowed = np.where(allowed, s, -np.inf), np.ones_like(allowed)
    return s, slope, np.ones_like(raw) if by_bias is None else by_bias, allowed


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)
