"""torch.nn.attention.flex_attention, not compiled; its mask is a block mask."""

import warnings

from torch.nn.attention.flex_attention import create_block_mask, flex_attention

FRAMEWORK = "torch"


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    warnings.filterwarnings("ignore")

    def allowed(b, h, i, j):
        return (i >= j if causal else i >= 0) & (mask[i, j] if mask is not None else j >= 0)

    block = None
    if causal or mask is not None:
        block = create_block_mask(allowed, None, None, q.shape[2], k.shape[2], device="cpu")
    return flex_attention(q, k, v, block_mask=block, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
