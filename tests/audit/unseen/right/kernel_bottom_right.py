"""Causal is aligned at the last key where keys are more than queries, as it declares."""

import numpy as np

CONVENTIONS = {"causal_alignment": "bottom-right", "empty_rows": "undefined"}


def attention(q, k, v, *, causal=False, mask=None):
    n, length = q.shape[2], k.shape[2]
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[3] ** -0.5)
    if causal:
        if length < n:
            raise ValueError("fewer keys than queries")
        s = np.where(np.tri(n, length, length - n, dtype=bool), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ v
