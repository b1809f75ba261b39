"""mlx.core.fast.scaled_dot_product_attention on the CPU."""

import mlx.core as mx

SCALE, CONVENTIONS = "required", {"causal_alignment": "bottom-right", "empty_rows": "undefined"}


def attention(q, k, v, *, scale, causal=False, mask=None):
    if causal and mask is not None:
        raise NotImplementedError("one mask")
    mask = "causal" if causal else None if mask is None else mx.array(mask)
    return mx.fast.scaled_dot_product_attention(*map(mx.array, (q, k, v)), scale=scale, mask=mask)


def attention_backward(q, k, v, do, *, scale, causal=False, mask=None):
    called = lambda *arrays: attention(*arrays, scale=scale, causal=causal, mask=mask)  # noqa: E731  # one line
    return mx.vjp(called, list(map(mx.array, (q, k, v))), [mx.array(do)])[1]
