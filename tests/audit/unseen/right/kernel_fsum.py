"""Sums to the last bit, one number after the other; no groups, no other sizes of values."""

import math

import numpy as np


def attention(q, k, v, *, causal=False, mask=None):
    if q.shape[1] != k.shape[1] or v.shape[3] != q.shape[3]:
        raise ValueError("one key head a query head, and equal sizes")
    o, factor = np.empty_like(q), q.shape[3] ** -0.5
    for b, h, i in np.ndindex(q.shape[:3]):
        query, keys, values = q[b, h, i].tolist(), k[b, h].tolist(), v[b, h].tolist()
        seen = [j for j in range(k.shape[2]) if not (causal and j > i) and (mask is None or mask[i, j])]
        s = [factor * math.fsum(x * y for x, y in zip(query, keys[j], strict=True)) for j in seen]
        e = [math.exp(x - max(s)) for x in s]
        total = math.fsum(e)
        for c in range(q.shape[3]):
            o[b, h, i, c] = math.fsum(w * values[j][c] for w, j in zip(e, seen, strict=True)) / total
    return o
