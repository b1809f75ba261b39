"""A right kernel in torch with a backward pass of its own."""

import torch

FRAMEWORK = "torch"


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, allowed, scale):
        s = (q @ k.transpose(-1, -2)) * scale
        s = s.masked_fill(~allowed, float("-inf"))
        p = torch.softmax(s, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        dv = p.transpose(-1, -2) @ do
        dp = do @ v.transpose(-1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        dq = ctx.scale * (ds @ k)
        dk = ctx.scale * (ds.transpose(-1, -2) @ q)
        return dq, dk, dv, None, None


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    kind, group = q.dtype, q.shape[1] // k.shape[1]
    sums = torch.float64 if kind == torch.float64 else torch.float32
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    n, length = q.shape[2], k.shape[2]
    allowed = torch.ones(n, length, dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    if mask is not None:
        allowed = allowed & mask
    k, v = (a.to(sums).repeat_interleave(group, dim=1) for a in (k, v))
    return Attention.apply(q.to(sums), k, v, allowed, scale).to(kind)
