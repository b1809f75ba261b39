"""jax.nn.dot_product_attention, whose arrays are (batch, n, heads, m)."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    q, k, v = (jnp.swapaxes(array, 1, 2) for array in (q, k, v))
    mask = None if mask is None else mask[None, None]
    return jnp.swapaxes(jax.nn.dot_product_attention(q, k, v, mask=mask, scale=scale, is_causal=causal), 1, 2)
