"""BobMcDear/attorch's copy of the attention of triton-lang/kernels."""

from attnprune_verify.triton import interpreted

kernels = interpreted("attorch.multi_head_attention_kernels")
FRAMEWORK, SCALE = "torch", "required"
SIZES = {"n": (128, 256), "n=l": True, "m": (32, 64), "mv": "m", "group": 1}


def attention(q, k, v, *, causal=False, scale):
    return kernels._attention.apply(q.contiguous(), k.contiguous(), v.contiguous(), causal, scale)
