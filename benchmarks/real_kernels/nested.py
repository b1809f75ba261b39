"""torch's scaled_dot_product_attention of nested tensors (jagged), which is what torch has for packed ones on a CPU."""

import logging

import torch

FRAMEWORK = "torch"
logging.getLogger("torch").setLevel(logging.ERROR)  # it lists the backends that it has not at every call
CONVENTIONS = {"empty_rows": "undefined"}


def attention(q, k, v, *, causal=False, scale=None, cu_seqlens_q=None, cu_seqlens_k=None):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    if cu_seqlens_q is None:
        return sdpa(q, k, v, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    of_keys = cu_seqlens_k.long()
    nested = [
        torch.nested.nested_tensor_from_jagged(array, ends).transpose(1, 2)
        for array, ends in ((q, cu_seqlens_q.long()), (k, of_keys), (v, of_keys))
    ]
    return sdpa(*nested, is_causal=causal, scale=scale).transpose(1, 2).values()
