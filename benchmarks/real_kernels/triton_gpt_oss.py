"""openai/gpt-oss: keys before the first query are a cached prefix. Its model always passes sinks."""

import torch

from attnprune_verify.triton import interpreted

kernel = interpreted("gpt_oss.triton.attention")
FRAMEWORK, LAYOUT, SCALE, CAPABILITIES = "torch", "bnhm", "required", ("causal_only", "forward_only")
CONVENTIONS, SIZES = {"causal_alignment": "bottom-right"}, {"m": (64, 128), "mv": "m"}


def attention(q, k, v, *, scale, sinks=None, window=None):
    if k.shape[1] < q.shape[1]:
        raise NotImplementedError("keys start with a cached prefix")
    start = torch.tensor([k.shape[1] - q.shape[1]], dtype=torch.int32)
    return kernel.attention(q.unflatten(2, (k.shape[2], -1)), k, v, sinks, scale, window, start).view(q.shape)
