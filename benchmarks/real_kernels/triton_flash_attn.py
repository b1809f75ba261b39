"""Dao-AILab/flash-attention, flash_attn/flash_attn_triton.py."""

from attnprune_verify.triton import interpreted

flash_attn_triton = interpreted("flash_attn.flash_attn_triton")
FRAMEWORK, LAYOUT, SCALE = "torch", "bnhm", "required"
SIZES = {"m": (16, 40, 64), "mv": "m", "group": 1}


def attention(q, k, v, *, scale, causal=False, bias=None):
    return flash_attn_triton.flash_attn_func(q, k, v, bias, causal, scale)
