"""The eager attention of transformers' models; masks are their own: 0, and the dtype's least number where forbidden.

Queries of causal attention stand at the last positions, as in a model that has a cache: the mask ends at the last key.
"""

from types import SimpleNamespace

import torch
from transformers import masking_utils
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

FRAMEWORK = "torch"
MEANT = {"causal_alignment": "bottom-right", "empty_rows": "undefined"}


def masked(q, k, causal, mask, window):
    """The mask that a model of transformers makes of its positions, and a given one of rank 2 to 4 beside it."""
    (batch, heads, n, _), length = q.shape, k.shape[2]
    if not causal and window is not None:
        raise NotImplementedError("windows of decoders are causal")
    if causal and n > length:
        raise NotImplementedError("a decoder has a key for every query")
    if not causal and mask is None:
        return None
    offset = length - n if causal else 0
    kind = masking_utils.causal_mask_function if causal else masking_utils.bidirectional_mask_function
    if window is not None:
        kind = masking_utils.sliding_window_causal_mask_function(window)
    if mask is not None:
        given = mask.expand(batch, heads, n, length)
        kind = masking_utils.and_masks(kind, lambda b, h, i, j: given[b, 0, i - offset, j])
        if (given != given[:, :1]).any():
            raise NotImplementedError("one mask for all heads")
    return masking_utils.eager_mask(batch, n, length, q_offset=offset, mask_function=kind, dtype=q.dtype)


def _called(model, q, k, v, added, scale, **options):
    module = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], training=False, **options.pop("module", {}))
    scaling = q.shape[3] ** -0.5 if scale is None else scale
    return model.eager_attention_forward(module, q, k, v, added, scaling=scaling, **options)[0].transpose(1, 2)


def _windowed(model):
    def attention(q, k, v, *, causal=False, scale=None, mask=None, window=None):
        return _called(model, q, k, v, masked(q, k, causal, mask, window), scale)

    return attention


def _gpt2(q, k, v, *, causal=False, scale=None, mask=None):
    if q.shape[1] != k.shape[1]:
        raise NotImplementedError("one key head for each query head")
    return _called(modeling_gpt2, q, k, v, masked(q, k, causal, mask, None), scale)


def _gemma2(q, k, v, *, causal=False, scale=None, mask=None, window=None, softcap=None):
    return _called(modeling_gemma2, q, k, v, masked(q, k, causal, mask, window), scale, softcap=softcap)


def _gpt_oss(q, k, v, *, causal=False, scale=None, mask=None, window=None, sinks=None):
    absent = torch.full((q.shape[1],), torch.finfo(q.dtype).min, dtype=q.dtype)
    own = {"module": {"sinks": absent if sinks is None else sinks}}
    return _called(modeling_gpt_oss, q, k, v, masked(q, k, causal, mask, window), scale, **own)


def _kernel(attention):
    return SimpleNamespace(attention=attention, CAPABILITIES=("mask_rank_3", "mask_rank_4"), CONVENTIONS=MEANT)


llama, qwen3 = _kernel(_windowed(modeling_llama)), _kernel(_windowed(modeling_qwen3))
gpt2, gemma2, gpt_oss = _kernel(_gpt2), _kernel(_gemma2), _kernel(_gpt_oss)
