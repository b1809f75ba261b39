"""The library's own kernel: plain attention in a precision's arithmetic, as an honest kernel computes it.

Sums in the precision's sums; of the 16-bit types weights, dS and answers are rounded to them, to nearest or as given.
It is what other kernels' errors are measured in, and it answers the vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.truth.steps import spread_over
from attnprune_verify.audit.kernel.typing import Foreign

Rounding = Callable[[Array], Array]


def own_attention(
    sample: KernelSample, weights: Rounding | None = None, answers: Rounding | None = None
) -> dict[str, Array]:
    """Results of both functions for a sample, by name, as float64, under the contract's own conventions.

    Parameters
    ----------
    sample : KernelSample
    weights, answers : callable, optional
        How weights and dS, and how answers are rounded; to the nearest number of the sample's precision by default.

    Examples
    --------
    >>> from attnprune_verify.audit.kernel.problem.regimes import regimes
    >>> own_attention(regimes(0, "float32")["plain"].samples[0])["o"].shape
    (1, 1, 4, 8)
    """
    exact = sample.precision.exact
    kept, stored = weights or (exact if sample.precision.stored else _as_it_is), answers or exact
    kind: Foreign = np.float64 if sample.precision.name == "float64" else np.float32
    q, k, v, do = (getattr(sample, name).astype(kind) for name in ("q", "k", "v", "do"))
    k, v, factor = sample.grouped(k), sample.grouped(v), kind(sample.factor)
    s, slope = _scores(sample, (q @ _turned(k)) * factor)
    sink = np.asarray(-np.inf if sample.sinks is None else sample.sinks[:, None, None]).astype(kind)
    top = np.maximum(s.max(axis=-1, keepdims=True), sink)
    top = np.where(np.isneginf(top), kind(0), top)  # of a row with nothing allowed
    exponentials = np.exp(s - top)
    total = exponentials.sum(axis=-1, keepdims=True) + np.exp(sink - top)
    divisor, dropped = np.where(total > 0, total, kind(1)), np.asarray(sample.kept).astype(kind)
    p: Foreign = kept(exponentials / divisor).astype(kind)
    dp = (do @ _turned(v)) * dropped
    mean = (p * dp).sum(axis=-1, keepdims=True)
    if sample.pull is not None:
        mean = mean - sample.pull[..., None].astype(kind)
    inner = p * (dp - mean)
    ds: Foreign = kept(inner * slope).astype(kind)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    found = {
        "o": ((kept(exponentials).astype(kind) * dropped) @ v) / divisor,
        "dq": ds @ k * factor,
        "dk": sample.per_key_head(_turned(ds) @ q * factor),
        "dv": sample.per_key_head(_turned(p * dropped) @ do),
        "lse": lse,
        "dbias": spread_over(sample, inner),
        "dsinks": (np.exp(sink - top) / divisor * -mean).sum(axis=(0, 2, 3)),
    }
    parts = (*parts_of(FORWARD, sample), *parts_of(BACKWARD, sample))
    return {name: stored(np.asarray(found[name], dtype=np.float64)) for name in parts}


def _scores(sample: KernelSample, raw: Array) -> tuple[Array, Array]:
    """Scaled products after cap, bias, slopes and mask, and the derivative of the cap."""
    kind, s, slope = raw.dtype.type, raw, np.ones_like(raw)
    if sample.softcap is not None:
        tanh = np.tanh(raw / kind(sample.softcap))
        s, slope = kind(sample.softcap) * tanh, 1 - tanh * tanh
    if sample.bias is not None:
        s = s + sample.bias.astype(kind)
    if sample.alibi is not None:
        s = s - sample.alibi.astype(kind)[:, None, None] * np.abs(sample.distance).astype(kind)
    return np.where(sample.allowed, s, -kind(np.inf)), slope


def _as_it_is(array: Array) -> Array:
    return array


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)
