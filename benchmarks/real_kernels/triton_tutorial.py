"""Triton's tutorial on fused attention, as alexzhang13/flashattention2-custom-mask copied it in 2024."""

from attnprune_verify.triton import interpreted

fa2_original = interpreted("fa2_original")
FRAMEWORK, SCALE = "torch", "required"
SIZES = {"n": (128, 256), "n=l": True, "m": (32, 64), "mv": "m", "group": 1}


def attention(q, k, v, *, causal=False, scale):
    return fa2_original.attention(q.contiguous(), k.contiguous(), v.contiguous(), causal, scale)
