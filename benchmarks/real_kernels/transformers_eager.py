"""The eager attention of transformers' Llama; masks are added, as its models do, with the dtype's least number."""

from types import SimpleNamespace

import torch
from transformers.models.llama.modeling_llama import eager_attention_forward

FRAMEWORK = "torch"


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    n, length = q.shape[2], k.shape[2]
    allowed = torch.ones(n, length, dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    if mask is not None:
        allowed = allowed & mask
    least = torch.finfo(q.dtype).min
    added = torch.where(allowed, 0.0, least).to(q.dtype)[None, None] if causal or mask is not None else None
    module = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], training=False)
    o, _ = eager_attention_forward(module, q, k, v, added, q.shape[3] ** -0.5 if scale is None else scale)
    return o.transpose(1, 2)
