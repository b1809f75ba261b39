"""Softmax attention and its gradients in float64, with every intermediate that the error analysis uses.

A sink is one more key of every head: its logit is given, its key and its value are 0.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask
from attnprune_verify.audit.kernel.truth.split_product import wide_product


class KernelSteps:
    """Intermediates by query head, (batch, heads, ...); dk and dv are summed over groups; a sink is the last column.

    Those of the backward pass are computed on first use.

    Attributes
    ----------
    raw, s : logits before and after softcap, bias and ALiBi
    slope, by_bias : ds / d raw and ds / d bias
        A float, 1, without softcap.
    kept : Array or float
        What dropout multiplies weights by, 1 where there is none.
    p, dp, mean, ds : Array
        Softmax, kept * dO V^T, (P * dP) 1, and the gradient by s.
    inner : Array
        DP - mean, plus the cotangent of log sum exp.
    k, v : Array
        Keys and values as each query head reads them.
    """

    def __init__(self, sample: KernelSample) -> None:
        self.sample, self.length, self.kept = sample, sample.k.shape[2], sample.kept
        self.k, self.v = sample.grouped(sample.k), sample.grouped(sample.v)
        self.raw: Array = sample.factor * wide_product(sample.q, _turned(self.k))
        self.s, self.slope, self.by_bias, self.allowed = _scores(sample, self.raw)
        if sample.sinks is not None:
            self._add_sinks(sample.sinks)
        found = self.allowed.any(axis=-1, keepdims=True)
        self.top: Array = np.where(found, np.where(self.allowed, self.s, -np.inf).max(axis=-1, keepdims=True), 0.0)
        self.p: Array = np.exp(np.where(self.allowed, self.s - self.top, -np.inf))
        total = self.p.sum(axis=-1, keepdims=True)
        self.p /= np.where(found, total, 1.0)
        self.o: Array = wide_product(self.p * self.kept, self.v)
        self.lse: Array = np.where(found, self.top + np.log(total), -np.inf)[..., 0] / sample.unit

    def _add_sinks(self, sinks: Array) -> None:
        sink = np.broadcast_to(sinks[:, None, None], (*self.s.shape[:3], 1))
        self.raw, self.s = (np.concatenate([x, sink], axis=-1) for x in (self.raw, self.s))
        self.slope, self.by_bias = (
            x if isinstance(x, float) else np.concatenate([x, np.ones_like(sink)], axis=-1)
            for x in (self.slope, self.by_bias)
        )
        self.k, self.v = (np.concatenate([x, np.zeros_like(x[:, :, :1])], axis=2) for x in (self.k, self.v))
        self.allowed = np.concatenate([self.allowed, np.ones_like(self.allowed[..., :1])], axis=-1)
        if not isinstance(self.kept, float):
            kept = self.kept * np.ones((*self.s.shape[:3], self.length))
            self.kept = np.concatenate([kept, np.ones_like(sink)], axis=-1)

    @cached_property
    def terms(self) -> Array:
        """The number of keys of each row."""
        return np.asarray(self.allowed.sum(axis=-1, keepdims=True))

    @cached_property
    def dp_size(self) -> Array:
        """The products of dO and values, of absolute values."""
        return np.asarray(np.abs(self.sample.do) @ np.abs(_turned(self.v)))

    @cached_property
    def size(self) -> Array:
        """The products of queries and keys, of absolute values."""
        return np.asarray(np.abs(self.sample.q) @ np.abs(_turned(self.k)))

    @cached_property
    @np.errstate(divide="ignore")
    def lower(self) -> Array:
        """log(1/p): how far a logit is below log sum exp; 0 where nothing is allowed."""
        return np.where(self.p > 0, -np.log(self.p), self.top - self.s) * self.allowed

    @cached_property
    @np.errstate(all="ignore")
    def dp(self) -> Array:
        return np.where(self.allowed, self.kept * wide_product(self.sample.do, _turned(self.v)), 0.0)

    @cached_property
    @np.errstate(all="ignore")
    def mean(self) -> Array:
        return np.asarray((self.p * self.dp).sum(axis=-1, keepdims=True))

    @cached_property
    @np.errstate(all="ignore")
    def inner(self) -> Array:
        inner = self.dp - self.mean
        return inner if self.sample.pull is None else inner + self.sample.pull[..., None]

    @cached_property
    @np.errstate(all="ignore")
    def ds(self) -> Array:
        return self.p * self.inner

    @cached_property
    @np.errstate(all="ignore")
    def dq(self) -> Array:
        return self.sample.factor * wide_product(self.ds * self.slope, self.k)

    @cached_property
    @np.errstate(all="ignore")
    def dk(self) -> Array:
        by_head = self.sample.factor * wide_product(_turned(self.ds * self.slope), self.sample.q)
        return self.sample.per_key_head(by_head)[:, :, : self.length]

    @cached_property
    @np.errstate(all="ignore")
    def dv(self) -> Array:
        return self.sample.per_key_head(wide_product(_turned(self.p * self.kept), self.sample.do))[:, :, : self.length]

    @cached_property
    @np.errstate(all="ignore")
    def dbias(self) -> Array:
        return spread_over(self.sample, (self.ds * self.by_bias)[..., : self.length])

    @cached_property
    @np.errstate(all="ignore")
    def dsinks(self) -> Array:
        return np.asarray(self.ds[..., self.length :].sum(axis=(0, 2, 3)))


def evaluate(sample: KernelSample) -> KernelSteps:
    """All steps, once per sample."""
    if "steps" not in sample.memo:
        with np.errstate(all="ignore"):
            sample.memo["steps"] = KernelSteps(sample)
    found: KernelSteps = sample.memo["steps"]
    return found


def spread_over(sample: KernelSample, array: Array) -> Array:
    """Something per bias entry, summed over what the bias was broadcast along."""
    if sample.bias is None:
        return np.zeros(0)
    axes = tuple(axis for axis, size in enumerate(sample.bias.shape) if size == 1 and array.shape[axis] > 1)
    return np.asarray(array.sum(axis=axes, keepdims=True))


def _scores(sample: KernelSample, raw: Array) -> tuple[Array, Array | float, Array | float, Mask]:
    """The logits in the declared order, their derivatives by the scaled products and by the bias, and what is allowed.

    A mask that comes before the softcap forbids nothing: those logits are -c, and constant.
    """
    scale, allowed = sample.factor, sample.allowed
    scaled = sample.conventions.order[0] == "scale"
    s = raw if scaled else raw / scale
    slope: Array | float = 1.0
    by_bias: Array | float = 1.0
    biased = False
    for step in sample.conventions.order:
        if step == "scale" and not scaled:
            s, scaled = s * scale, True
            by_bias = by_bias * scale if biased else by_bias
        elif step == "softcap" and sample.softcap is not None:
            tanh = np.tanh(s / sample.softcap)
            s, slope = sample.softcap * tanh, slope * (1 - tanh**2)
            by_bias = by_bias * (1 - tanh**2) if biased else by_bias
        elif step == "bias" and sample.bias is not None:
            s, biased = s + sample.bias, True
        elif step == "alibi" and sample.alibi is not None:
            s = s - sample.alibi[:, None, None] * np.abs(sample.distance)
        elif step == "mask" and sample.softcap is not None and sample.conventions.mask_first:
            s, allowed = np.where(allowed, s, -np.inf), np.ones_like(allowed)
    return s, slope, by_bias, allowed


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)
