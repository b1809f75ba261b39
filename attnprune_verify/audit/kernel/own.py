"""The library's own kernel: plain attention in a precision's arithmetic, as an honest kernel computes it.

Sums in the precision's sums; of the 16-bit types weights, dS and answers are rounded to them, to nearest or as given.
It is what other kernels' errors are measured in, and it answers the vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnprune_verify.audit.kernel.foreign import Foreign
from attnprune_verify.audit.kernel.sample import Array, Sample

__all__ = ["own_attention"]

Rounding = Callable[[Array], Array]


def own_attention(sample: Sample, weights: Rounding | None = None, answers: Rounding | None = None) -> dict[str, Array]:
    """Return o, dq, dk and dv, as float64.

    Parameters
    ----------
    sample : Sample
    weights, answers : callable, optional
        How weights and dS, and how answers are rounded; to the nearest number of the sample's precision by default.

    Examples
    --------
    >>> from attnprune_verify.audit.kernel.regimes import regimes
    >>> own_attention(regimes(0, "float32")["plain"].samples[0])["o"].shape
    (1, 1, 4, 8)
    """
    exact = sample.precision.exact
    kept, stored = weights or (exact if sample.precision.stored else _as_it_is), answers or exact
    kind: Foreign = np.float64 if sample.precision.name == "float64" else np.float32
    q, k, v, do = (getattr(sample, name).astype(kind) for name in ("q", "k", "v", "do"))
    k, v = sample.grouped(k), sample.grouped(v)
    raw = (q @ _turned(k)) * kind(sample.factor)
    s, slope = raw, np.ones_like(raw)
    if sample.softcap is not None:
        tanh = np.tanh(raw / kind(sample.softcap))
        s, slope = kind(sample.softcap) * tanh, 1 - tanh * tanh
    if sample.alibi is not None:
        n, length = sample.allowed.shape
        distance = np.abs(np.arange(n)[:, None] - np.arange(length)).astype(kind)
        s = s - sample.alibi.astype(kind)[:, None, None] * distance
    s = np.where(sample.allowed, s, -kind(np.inf))
    exponentials = np.exp(s - s.max(axis=-1, keepdims=True))
    total = exponentials.sum(axis=-1, keepdims=True)
    o = (kept(exponentials).astype(kind) @ v) / total
    p: Foreign = kept(exponentials / total).astype(kind)
    dp = do @ _turned(v)
    ds: Foreign = kept(p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * slope).astype(kind)
    dk, dv = _turned(ds) @ q * kind(sample.factor), _turned(p) @ do
    found = {
        "o": o,
        "dq": ds @ k * kind(sample.factor),
        "dk": sample.per_key_head(dk),
        "dv": sample.per_key_head(dv),
    }
    return {name: stored(np.asarray(value, dtype=np.float64)) for name, value in found.items()}


def _as_it_is(array: Array) -> Array:
    return array


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)
