"""A right kernel with every modifier of the contract, head by head in tiles of keys; wrong ones are edits of it."""

import numpy as np

FRAMEWORK = "numpy"
TILE = 32


def wide(a):
    return a if a.dtype == np.float64 else a.astype(np.float32)


def may_attend(n, length, causal, mask, window):
    i, j = np.arange(n)[:, None], np.arange(length)
    allowed = np.ones((n, length), bool) if mask is None else np.array(mask)
    if causal:
        allowed &= j <= i
    if window is not None:
        allowed &= (i - j if causal else abs(i - j)) < window
    return allowed


def scores(q, k, scale, softcap, slope):
    s = (q @ k.T) * q.dtype.type(scale)
    bend = np.ones_like(s)
    if softcap is not None:
        t = np.tanh(s / q.dtype.type(softcap))
        s, bend = q.dtype.type(softcap) * t, 1 - t * t
    if slope is not None:
        s = s - q.dtype.type(slope) * abs(np.arange(len(q))[:, None] - np.arange(len(k))).astype(q.dtype)
    return s, bend


def forward_head(q, k, v, allowed, scale, softcap, slope):
    s = scores(q, k, scale, softcap, slope)[0]
    s = np.where(allowed, s, -np.inf)
    top = np.full((len(q), 1), -np.inf, q.dtype)
    total, acc = np.zeros_like(top), np.zeros((len(q), v.shape[1]), q.dtype)
    for a in range(0, len(k), TILE):
        part = s[:, a : a + TILE]
        new = np.maximum(top, part.max(axis=1, keepdims=True))
        shift = np.where(np.isfinite(new), new, 0).astype(q.dtype)
        p = np.exp(part - shift)
        old = np.exp(top - shift)
        total = total * old + p.sum(axis=1, keepdims=True)
        acc = acc * old + p @ v[a : a + TILE]
        top = new
    return acc / total, top + np.log(total)


def backward_head(q, k, v, do, allowed, scale, softcap, slope):
    o, lse = forward_head(q, k, v, allowed, scale, softcap, slope)
    s, bend = scores(q, k, scale, softcap, slope)
    p = np.where(allowed, np.exp(np.where(allowed, s - lse, 0)), 0)
    dp = do @ v.T
    ds = p * (dp - (do * o).sum(axis=1, keepdims=True)) * bend
    factor = q.dtype.type(scale)
    return factor * (ds @ k), factor * (ds.T @ q), p.T @ do


def attention(q, k, v, *, causal=False, scale=None, mask=None, window=None, softcap=None, alibi=None):
    batch, heads, n, m = q.shape
    length, group = k.shape[2], heads // k.shape[1]
    scale = m**-0.5 if scale is None else scale
    allowed = may_attend(n, length, causal, mask, window)
    o = np.zeros((batch, heads, n, v.shape[3]), q.dtype)
    for b in range(batch):
        for h in range(heads):
            g = h // group
            slope = None if alibi is None else alibi[h]
            o[b, h] = forward_head(wide(q[b, h]), wide(k[b, g]), wide(v[b, g]), allowed, scale, softcap, slope)[0]
    return o


def attention_backward(q, k, v, do, *, causal=False, scale=None, mask=None, window=None, softcap=None, alibi=None):
    batch, heads, n, m = q.shape
    length, group = k.shape[2], heads // k.shape[1]
    scale = m**-0.5 if scale is None else scale
    allowed = may_attend(n, length, causal, mask, window)
    dq, dk, dv = (np.zeros(a.shape, wide(a).dtype) for a in (q, k, v))
    for b in range(batch):
        for h in range(heads):
            g = h // group
            slope = None if alibi is None else alibi[h]
            of_head = (wide(q[b, h]), wide(k[b, g]), wide(v[b, g]), wide(do[b, h]))
            found = backward_head(*of_head, allowed, scale, softcap, slope)
            dq[b, h] = found[0]
            dk[b, g] += found[1]
            dv[b, g] += found[2]
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)
