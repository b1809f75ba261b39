"""torch.nn.functional.scaled_dot_product_attention, by backend: `math`, `flash` (the fused CPU kernel), `default`."""

from types import SimpleNamespace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

FRAMEWORK = "torch"


def _called(backends, q, k, v, causal, scale, mask):
    if causal and mask is not None:
        mask, causal = mask & torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(), False
    options = {"attn_mask": mask, "is_causal": causal, "scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
    if backends is None:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    with sdpa_kernel(backends):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def _kernel(backends):
    def attention(q, k, v, *, causal=False, scale=None, mask=None):
        return _called(backends, q, k, v, causal, scale, mask)

    return SimpleNamespace(attention=attention)


math, flash, default = _kernel([SDPBackend.MATH]), _kernel([SDPBackend.FLASH_ATTENTION]), _kernel(None)
