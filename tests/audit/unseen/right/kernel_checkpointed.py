"""A torch kernel whose forward pass runs again in the backward pass; autograd.grad is refused there."""

import torch
from torch.utils.checkpoint import checkpoint

FRAMEWORK = "torch"


def attend(q, k, v, allowed, scale):
    s = (q @ k.transpose(-1, -2)) * scale
    return torch.softmax(s.masked_fill(~allowed, float("-inf")), dim=-1) @ v


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    allowed = allowed.tril() if causal else allowed
    allowed = allowed if mask is None else allowed & mask
    return checkpoint(attend, q, k, v, allowed, q.shape[-1] ** -0.5 if scale is None else scale, use_reentrant=True)
