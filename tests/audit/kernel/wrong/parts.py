"""A right kernel in NumPy with every optional part of the contract; wrong ones are edits of it."""

import numpy as np

FRAMEWORK = "numpy"
CAPABILITIES = ("mask_rank_3", "mask_rank_4", "float_mask")
CONVENTIONS = {"causal_alignment": "top-left", "empty_rows": "zero", "padding": "clean"}


def wide(a):
    return None if a is None else a if a.dtype == np.float64 else a.astype(np.float32)


def turned(a):
    return np.swapaxes(a, -1, -2)


def per_group(a, group):
    return a.reshape(a.shape[0], a.shape[1] // group, group, *a.shape[2:]).sum(axis=2)


def may_attend(q, k, causal, mask, window):
    n, length = q.shape[2], k.shape[2]
    i, j = np.arange(n)[:, None], np.arange(length)
    allowed = np.ones((n, length), bool)
    if causal:
        allowed &= j <= i
    if window is not None:
        allowed &= (i - j if causal else abs(i - j)) < window
    if mask is not None:
        mask = mask if mask.dtype == bool else mask == 0
        allowed = allowed & mask
    return np.broadcast_to(allowed, (*q.shape[:3], length))


def cleaned(q, k, v, do, allowed, group):
    """What nobody reads may hold anything: it is made 0."""
    keys = per_group(allowed.any(axis=2), group) > 0
    rows = allowed.any(axis=3)
    zero = q.dtype.type(0)
    q, do = np.where(rows[..., None], q, zero), None if do is None else np.where(rows[..., None], do, zero)
    return q, np.where(keys[..., None], k, zero), np.where(keys[..., None], v, zero), do


def logits(q, k, allowed, scale, softcap, bias, alibi):
    s = (q @ turned(k)) * q.dtype.type(scale)
    slope = np.ones_like(s)
    if softcap is not None:
        t = np.tanh(s / q.dtype.type(softcap))
        s, slope = q.dtype.type(softcap) * t, 1 - t * t
    if bias is not None:
        s = s + bias
    if alibi is not None:
        far = abs(np.arange(s.shape[2])[:, None] - np.arange(s.shape[3]))
        s = s - (alibi[:, None, None] * far).astype(s.dtype)
    return np.where(allowed, s, -np.inf), slope


def softmax(s, sinks):
    """Weights and log sum exp; the sink's weight is what is missing to 1."""
    top = s.max(axis=-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    top = np.where(np.isfinite(top), top, 0).astype(s.dtype)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    lost = 0 if sinks is None else np.exp(sinks[:, None, None] - top)
    total = total + lost
    some = total > 0
    p = e / np.where(some, total, 1)
    lse = np.where(some, top + np.log(np.where(some, total, 1)), -np.inf)
    return p, lse, lost / np.where(some, total, 1)


def forward(q, k, v, scale, causal, mask, window, softcap, alibi, bias, sinks, dropout_mask, dropout_keep):
    group = q.shape[1] // k.shape[1]
    allowed = may_attend(q, k, causal, mask, window)
    q, k, v, _ = cleaned(q, k, v, None, allowed, group)
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s, _ = logits(q, k, allowed, scale, softcap, bias, alibi)
    p, lse, _ = softmax(s, sinks)
    if dropout_mask is not None:
        p = p * dropout_mask / q.dtype.type(dropout_keep)
    return p @ v, lse[..., 0]


def backward(q, k, v, do, dlse, scale, causal, mask, window, softcap, alibi, bias, sinks, dropout_mask, dropout_keep):
    group = q.shape[1] // k.shape[1]
    allowed = may_attend(q, k, causal, mask, window)
    q, k, v, do = cleaned(q, k, v, do, allowed, group)
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s, slope = logits(q, k, allowed, scale, softcap, bias, alibi)
    p, _, sunk = softmax(s, sinks)
    kept = 1 if dropout_mask is None else dropout_mask / q.dtype.type(dropout_keep)
    dp = (do @ turned(v)) * kept
    mean = (p * dp).sum(axis=-1, keepdims=True)
    if dlse is not None:
        mean = mean - dlse[..., None]
    ds = p * (dp - mean)
    factor = q.dtype.type(scale)
    dl = ds * slope
    dq, dk = factor * (dl @ k), factor * per_group(turned(dl) @ q, group)
    dv = per_group(turned(p * kept) @ do, group)
    dbias = dsinks = None
    if bias is not None:
        axes = tuple(a for a in range(4) if bias.shape[a] == 1 and ds.shape[a] > 1)
        dbias = ds.sum(axis=axes, keepdims=True)
    if sinks is not None:
        dsinks = (sunk * -mean).sum(axis=(0, 2, 3))
    return dq, dk, dv, dbias, dsinks


def sequences(q, k, starts_q, starts_k):
    """Each packed sequence as a batch of one."""
    for a, b, c, d in zip(starts_q[:-1], starts_q[1:], starts_k[:-1], starts_k[1:], strict=True):
        yield slice(a, b), slice(c, d)


def batch_of_one(a):
    return np.swapaxes(a, 0, 1)[None]


def attention(
    q,
    k,
    v,
    *,
    causal=False,
    scale=None,
    mask=None,
    window=None,
    softcap=None,
    alibi=None,
    bias=None,
    sinks=None,
    dropout_mask=None,
    dropout_keep=1.0,
    return_lse=False,
    cu_seqlens_q=None,
    cu_seqlens_k=None,
):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rest = (scale, causal, mask, window, softcap, alibi, wide(bias), wide(sinks), dropout_mask, dropout_keep)
    if cu_seqlens_q is None:
        o, lse = forward(wide(q), wide(k), wide(v), *rest)
    else:
        o = np.zeros((q.shape[0], q.shape[1], v.shape[2]), wide(q).dtype)
        lse = np.full(q.shape[1::-1], -np.inf, o.dtype)
        for a, b in sequences(q, k, cu_seqlens_q, cu_seqlens_k):
            if a.start == a.stop or b.start == b.stop:
                continue
            one = forward(*(batch_of_one(wide(x)) for x in (q[a], k[b], v[b])), *rest)
            o[a], lse[:, a] = np.swapaxes(one[0][0], 0, 1), one[1][0]
    o = o.astype(q.dtype)
    return (o, lse) if return_lse else o


def attention_backward(
    q,
    k,
    v,
    do,
    *,
    causal=False,
    scale=None,
    mask=None,
    window=None,
    softcap=None,
    alibi=None,
    bias=None,
    sinks=None,
    dropout_mask=None,
    dropout_keep=1.0,
    cu_seqlens_q=None,
    cu_seqlens_k=None,
    dlse=None,
    wanted=(),
):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rest = (scale, causal, mask, window, softcap, alibi, wide(bias), wide(sinks), dropout_mask, dropout_keep)
    if cu_seqlens_q is None:
        found = backward(wide(q), wide(k), wide(v), wide(do), dlse, *rest)
    else:
        found = [*(np.zeros(a.shape, wide(a).dtype) for a in (q, k, v)), None, None]
        for a, b in sequences(q, k, cu_seqlens_q, cu_seqlens_k):
            if a.start == a.stop or b.start == b.stop:
                continue
            pulled = None if dlse is None else dlse[None, :, a]
            one = backward(*(batch_of_one(wide(x)) for x in (q[a], k[b], v[b], do[a])), pulled, *rest)
            for total, part, place in zip(found, one, (a, b, b), strict=False):
                total[place] = np.swapaxes(part[0], 0, 1)
    more = {"dbias": found[3], "dsinks": found[4]}
    return tuple(x.astype(q.dtype) for x in (*found[:3], *(more[name] for name in wanted)))
