"""keras.ops.dot_product_attention with the torch backend; its arrays are (batch, n, heads, m)."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras  # noqa: E402  # after its backend is chosen
import torch  # noqa: E402

FRAMEWORK = "torch"


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    if k.shape[1] != q.shape[1]:
        raise NotImplementedError("one key head for each query head")
    if mask is not None:
        mask = mask.expand(q.shape[0], q.shape[1], *mask.shape)
    o = keras.ops.dot_product_attention(
        *(array.transpose(1, 2) for array in (q, k, v)), mask=mask, scale=scale, is_causal=causal, flash_attention=False
    )
    return torch.as_tensor(o).transpose(1, 2)
