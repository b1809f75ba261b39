"""hkproj/triton-flash-attention."""

from attnprune_verify.triton import interpreted

flash_attention = interpreted("flash_attention")
FRAMEWORK, SCALE = "torch", "required"
SIZES = {"n": (128, 256), "n=l": True, "m": (32, 64), "mv": "m", "group": 1}


def attention(q, k, v, *, causal=False, scale):
    return flash_attention.TritonAttention.apply(q.contiguous(), k.contiguous(), v.contiguous(), causal, scale)
