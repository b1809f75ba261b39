"""A right torch kernel with a backward pass of its own behind autograd; wrong ones are edits of it."""

import torch

FRAMEWORK = "torch"


def may_attend(n, length, causal, mask):
    allowed = torch.ones(n, length, dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    return allowed if mask is None else allowed & mask


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, allowed, scale, group):
        sums = torch.float64 if q.dtype == torch.float64 else torch.float32
        wide_k, wide_v = (a.to(sums).repeat_interleave(group, dim=1) for a in (k, v))
        s = (q.to(sums) @ wide_k.transpose(-1, -2)) * scale
        p = torch.softmax(s.masked_fill(~allowed, float("-inf")), dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale, ctx.group = scale, group
        return (p @ wide_v).to(q.dtype)

    @staticmethod
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        group, kind = ctx.group, p.dtype
        wide_k, wide_v = (a.to(kind).repeat_interleave(group, dim=1) for a in (k, v))
        do, wide_q = do.to(kind), q.to(kind)
        dp = do @ wide_v.transpose(-1, -2)
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))
        dq = ctx.scale * (ds @ wide_k)
        dk = ctx.scale * (ds.transpose(-1, -2) @ wide_q)
        dv = p.transpose(-1, -2) @ do
        dk, dv = (a.unflatten(1, (-1, group)).sum(dim=2) for a in (dk, dv))
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    allowed = may_attend(q.shape[2], k.shape[2], causal, mask)
    return Attention.apply(q, k, v, allowed, scale, q.shape[1] // k.shape[1])
