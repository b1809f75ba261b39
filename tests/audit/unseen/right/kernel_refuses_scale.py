"""A torch kernel that has no scale, and says so as if it had no derivative."""

import torch

FRAMEWORK = "torch"


def attention(q, k, v, *, causal=False, scale=None):
    if scale is not None:
        raise NotImplementedError("only the usual scale")
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
