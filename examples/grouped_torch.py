"""Attention in torch with causal and other masks, a scale and grouped key heads; autodiff makes its gradients.

attnprune-verify audit-kernel examples/grouped_torch.py
"""

import torch

FRAMEWORK = "torch"


def attention(q, k, v, causal=False, scale=None, mask=None):
    group = q.shape[1] // k.shape[1]  # query heads that share a key head
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        allowed = allowed.tril()
    if mask is not None:
        allowed = allowed & mask
    return torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1) @ v
