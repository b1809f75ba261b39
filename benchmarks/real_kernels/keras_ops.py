"""keras.ops.dot_product_attention with the torch backend; its arrays are (batch, n, heads, m)."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras  # noqa: E402  # after its backend is chosen
import torch  # noqa: E402

FRAMEWORK = "torch"
CAPABILITIES = ("mask_rank_3", "mask_rank_4")
CONVENTIONS = {"empty_rows": "undefined"}


def attention(q, k, v, *, causal=False, scale=None, mask=None, bias=None):
    if k.shape[1] != q.shape[1]:
        raise NotImplementedError("one key head for each query head")
    size = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    mask, bias = (None if one is None else one.expand(size) for one in (mask, bias))
    o = keras.ops.dot_product_attention(
        *(array.transpose(1, 2) for array in (q, k, v)),
        bias=bias, mask=mask, scale=scale, is_causal=causal, flash_attention=False,
    )  # fmt: skip
    return torch.as_tensor(o).transpose(1, 2)
