"""torch.nn.attention.flex_attention, not compiled; its mask is a block mask, all that changes a score its score_mod."""

import warnings

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

FRAMEWORK = "torch"
CAPABILITIES = ("mask_rank_3", "mask_rank_4")


def attention(
    q, k, v, *, causal=False, scale=None, mask=None, window=None, softcap=None, alibi=None, bias=None, return_lse=False
):
    warnings.filterwarnings("ignore")
    size = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    mask, bias = (None if one is None else one.expand(size) for one in (mask, bias))

    def allowed(b, h, i, j):
        found = (i >= j) if causal else (j >= 0)
        if window is not None:
            found = found & ((i - j if causal else (i - j).abs()) < window)
        return found if mask is None else found & mask[b, h, i, j]

    def changed(score, b, h, i, j):
        if softcap is not None:
            score = softcap * torch.tanh(score / softcap)
        if bias is not None:
            score = score + bias[b, h, i, j]
        return score if alibi is None else score - alibi[h] * (i - j).abs()

    block = None
    if causal or mask is not None or window is not None:
        block = create_block_mask(allowed, size[0], size[1], size[2], size[3], device="cpu")
    modified = changed if any(one is not None for one in (softcap, bias, alibi)) else None
    return flex_attention(
        q, k, v, modified, block, scale=scale, enable_gqa=q.shape[1] != k.shape[1], return_lse=return_lse
    )
