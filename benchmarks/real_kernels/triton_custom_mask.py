"""alexzhang13/flashattention2-custom-mask; its masks are (batch, heads, n, l)."""

from attnprune_verify.triton import interpreted

fa2 = interpreted("fa2_custom_mask.fa2_custom_mask")
FRAMEWORK, SCALE = "torch", "required"
SIZES = {"n": (128, 256), "n=l": True, "m": (32, 64), "mv": "m", "group": 1}


def attention(q, k, v, *, scale, mask=None):
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2]).contiguous()
    return fa2.flash_attention_custom_mask(q.contiguous(), k.contiguous(), v.contiguous(), mask, scale)
