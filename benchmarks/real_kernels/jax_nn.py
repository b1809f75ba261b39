"""jax.nn.dot_product_attention, whose arrays are (batch, n, heads, m) and whose window has two sides."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"
CAPABILITIES = ("mask_rank_3", "mask_rank_4")
CONVENTIONS = {"empty_rows": "undefined"}


def attention(q, k, v, *, causal=False, scale=None, mask=None, window=None, bias=None, return_lse=False):
    q, k, v = (jnp.swapaxes(array, 1, 2) for array in (q, k, v))
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    sides = None if window is None else (window - 1, 0 if causal else window - 1)
    found = jax.nn.dot_product_attention(
        q, k, v, bias, mask, scale=scale, is_causal=causal, local_window_size=sides, return_residual=return_lse
    )
    return tuple(jnp.swapaxes(one, 1, 2) for one in found) if return_lse else jnp.swapaxes(found, 1, 2)
