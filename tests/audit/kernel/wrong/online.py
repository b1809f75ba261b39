"""A right kernel in NumPy, online softmax in blocks of keys, backward from the stored log-sum-exp."""

import numpy as np

FRAMEWORK = "numpy"
BLOCK = 16


def wide(a):
    return a if a.dtype == np.float64 else a.astype(np.float32)


def forward(q, k, v, causal, scale, mask):
    n, length = q.shape[0], k.shape[0]
    top = np.full((n, 1), -np.inf, q.dtype)
    total = np.zeros((n, 1), q.dtype)
    acc = np.zeros((n, v.shape[1]), q.dtype)
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        s = (q @ k[start:stop].T) * q.dtype.type(scale)
        if causal:
            s = np.where(np.arange(n)[:, None] >= np.arange(start, stop), s, -np.inf)
        if mask is not None:
            s = np.where(mask[:, start:stop], s, -np.inf)
        new = np.maximum(top, s.max(axis=1, keepdims=True))
        shift = np.where(np.isfinite(new), new, 0).astype(q.dtype)
        p = np.exp(s - shift)
        alpha = np.exp(top - shift)
        total = total * alpha + p.sum(axis=1, keepdims=True)
        acc = acc * alpha + p @ v[start:stop]
        top = new
    return acc / total, top + np.log(total)


def backward(q, k, v, do, causal, scale, mask):
    n, length = q.shape[0], k.shape[0]
    o, lse = forward(q, k, v, causal, scale, mask)
    mean = (do * o).sum(axis=1, keepdims=True)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        s = (q @ k[start:stop].T) * q.dtype.type(scale)
        if causal:
            s = np.where(np.arange(n)[:, None] >= np.arange(start, stop), s, -np.inf)
        if mask is not None:
            s = np.where(mask[:, start:stop], s, -np.inf)
        p = np.exp(s - lse)
        dv[start:stop] = p.T @ do
        ds = p * (do @ v[start:stop].T - mean)
        dq += q.dtype.type(scale) * (ds @ k[start:stop])
        dk[start:stop] = q.dtype.type(scale) * (ds.T @ q)
    return dq, dk, dv


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    scale = q.shape[3] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    o = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            kv = h // group
            o[b, h] = forward(wide(q[b, h]), wide(k[b, kv]), wide(v[b, kv]), causal, scale, mask)[0]
    return o


def attention_backward(q, k, v, do, *, causal=False, scale=None, mask=None):
    scale = q.shape[3] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    dq, dk, dv = (np.zeros(a.shape, wide(a).dtype) for a in (q, k, v))
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            kv = h // group
            found = backward(wide(q[b, h]), wide(k[b, kv]), wide(v[b, kv]), wide(do[b, h]), causal, scale, mask)
            dq[b, h] = found[0]
            dk[b, kv] += found[1]
            dv[b, kv] += found[2]
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)
