"""Keys in uneven splits, joined by their log-sum-exp; one query goes another way."""

from itertools import pairwise

import numpy as np


def part(q, k, v, allowed, scale):
    s = np.where(allowed, np.einsum("bhic,bhjc->bhij", q, k) * scale, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, (e @ v) / np.where(total > 0, total, 1), 0), top + np.log(total)


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    group, kind = q.shape[1] // k.shape[1], q.dtype.type
    scale = kind(q.shape[3] ** -0.5 if scale is None else scale)
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    n, length = q.shape[2], k.shape[2]
    allowed = np.tri(n, length, dtype=bool) if causal else np.ones((n, length), bool)
    allowed = allowed if mask is None else allowed & mask
    edges = sorted({0, length, length // 3, 2 * length // 3 + 1} & set(range(length + 1)))
    with np.errstate(divide="ignore"):
        parts = [part(q, k[:, :, a:b], v[:, :, a:b], allowed[:, a:b], scale) for a, b in pairwise(edges)]
    top = np.max([one[1] for one in parts], axis=0)
    shares = [np.exp(one[1] - top) for one in parts]
    return (sum(w * o for w, (o, _) in zip(shares, parts, strict=True)) / sum(shares)).astype(q.dtype)
