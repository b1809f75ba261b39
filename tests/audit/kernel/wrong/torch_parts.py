"""A right kernel in torch with optional parts, differentiated by torch."""

import torch

FRAMEWORK = "torch"
CAPABILITIES = ("mask_rank_3", "mask_rank_4", "float_mask")


def attention(q, k, v, *, causal=False, scale=None, mask=None, bias=None, sinks=None, dropout_mask=None,
              dropout_keep=1.0, return_lse=False):  # fmt: skip
    sums = torch.float64 if q.dtype == torch.float64 else torch.float32
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).to(sums), v.repeat_interleave(group, 1).to(sums)
    s = q.to(sums) @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        s = s + bias.to(sums)
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else s + mask.to(sums)
    empty = torch.isneginf(s).all(-1, keepdim=True)
    s = s.masked_fill(empty, 0.0)
    if sinks is not None:
        s = torch.cat([s, sinks.to(sums)[:, None, None].expand(*s.shape[:3], 1)], -1)
    lse = torch.logsumexp(s, -1)
    p = torch.softmax(s, -1)[..., : k.shape[2]].masked_fill(empty, 0.0)
    if dropout_mask is not None:
        p = p * dropout_mask / dropout_keep
    o = (p @ v).to(q.dtype)
    return (o, lse.masked_fill(empty[..., 0], -torch.inf)) if return_lse else o
