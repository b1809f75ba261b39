"""torch.nn.functional.scaled_dot_product_attention, by backend: `math`, `flash` (the fused CPU kernel), `default`.

`math_dropout` and `flash_lse` are the operators behind them: of dropout whose mask is given, and with log sum exp.
"""

from types import SimpleNamespace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

FRAMEWORK = "torch"
READ = ("mask_rank_3", "mask_rank_4", "float_mask")  # masks that all of them take


def added(q, k, causal, mask, bias):
    """Whether torch's own causal flag is given, and the one mask that it takes beside no flag."""
    if mask is None and bias is None:
        return causal, None
    if causal:
        future = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
        bias = torch.zeros_like(future, dtype=q.dtype).masked_fill(future, -torch.inf) + (0 if bias is None else bias)
    if bias is None:
        return False, mask
    if mask is not None:
        bias = bias.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else bias + mask
    return False, bias


def _kernel(backends, **declared):
    def attention(q, k, v, *, causal=False, scale=None, mask=None, bias=None):
        causal, mask = added(q, k, causal, mask, bias)
        options = {"attn_mask": mask, "is_causal": causal, "scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
        if backends is None:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        with sdpa_kernel(backends):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return SimpleNamespace(attention=attention, CAPABILITIES=READ, CONVENTIONS=declared)


def _as_float(q, causal, mask):
    """What the public function makes of a bool mask before it calls an operator."""
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    return causal, mask


def _with_dropout(q, k, v, *, causal=False, scale=None, mask=None, bias=None, dropout_mask=None, dropout_keep=1.0):
    causal, mask = _as_float(q, *added(q, k, causal, mask, bias))
    grouped = q.shape[1] != k.shape[1]
    operator = torch.ops.aten._scaled_dot_product_attention_math
    return operator(q, k, v, mask, 1 - dropout_keep, causal, dropout_mask, scale=scale, enable_gqa=grouped)[0]


def _with_lse(q, k, v, *, causal=False, scale=None, mask=None, bias=None, return_lse=False):
    causal, mask = _as_float(q, *added(q, k, causal, mask, bias))
    if q.shape[1] != k.shape[1]:
        raise NotImplementedError("one key head for each query head")
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k, v = (one.contiguous() for one in (q, k, v))  # the public function sees to that
    o, lse = operator(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
    return (o, lse) if return_lse else o


math, default = _kernel([SDPBackend.MATH]), _kernel(None)
flash = _kernel([SDPBackend.FLASH_ATTENTION])
math_dropout = SimpleNamespace(attention=_with_dropout, CAPABILITIES=READ)
flash_lse = SimpleNamespace(attention=_with_lse, CAPABILITIES=READ, CONVENTIONS={"empty_rows": "undefined"})
