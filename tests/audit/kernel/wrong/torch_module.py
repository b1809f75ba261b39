"""A right kernel in torch, differentiated by autograd."""

import torch

FRAMEWORK = "torch"


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    kind, group = q.dtype, q.shape[1] // k.shape[1]
    sums = torch.float64 if kind == torch.float64 else torch.float32
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    s = (q.to(sums) @ k.to(sums).transpose(-1, -2)) * scale
    n, length = s.shape[-2:]
    if causal:
        s = s.masked_fill(~torch.ones(n, length, dtype=torch.bool).tril(), float("-inf"))
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    p = torch.softmax(s, dim=-1)
    o = p @ v.to(sums)
    return o.to(kind)
