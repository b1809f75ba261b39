"""A right kernel in NumPy, textbook style, from which wrong ones are made by replacing lines."""

import numpy as np

FRAMEWORK = "numpy"


def wide(a):
    return a if a.dtype == np.float64 else a.astype(np.float32)


def of_group(a, group):
    return np.repeat(a, group, axis=1)


def per_group(a, group):
    return a.reshape(a.shape[0], a.shape[1] // group, group, *a.shape[2:]).sum(axis=2)


def turned(a):
    return np.swapaxes(a, -1, -2)


def positions(n, length, causal, mask):
    allowed = np.ones((n, length), dtype=bool)
    if causal:
        allowed = allowed & np.tri(n, length, dtype=bool)
    if mask is not None:
        allowed = allowed & mask
    return allowed


def weights(q, k, causal, scale, mask):
    n, length = q.shape[2], k.shape[2]
    s = (q @ turned(k)) * q.dtype.type(scale)
    s = np.where(positions(n, length, causal, mask), s, -np.inf)
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    kind, group = q.dtype, q.shape[1] // k.shape[1]
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, k, v = wide(q), of_group(wide(k), group), of_group(wide(v), group)
    p = weights(q, k, causal, scale, mask)
    o = p @ v
    return o.astype(kind)


def attention_backward(q, k, v, do, *, causal=False, scale=None, mask=None):
    kind, group = q.dtype, q.shape[1] // k.shape[1]
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, k, v, do = wide(q), of_group(wide(k), group), of_group(wide(v), group), wide(do)
    p = weights(q, k, causal, scale, mask)
    dp = do @ turned(v)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    factor = q.dtype.type(scale)
    dq = factor * (ds @ k)
    dk = factor * per_group(turned(ds) @ q, group)
    dv = per_group(turned(p) @ do, group)
    return dq.astype(kind), dk.astype(kind), dv.astype(kind)
