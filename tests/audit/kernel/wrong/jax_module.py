"""A right kernel in jax, differentiated by jax."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    kind, group = q.dtype, q.shape[1] // k.shape[1]
    sums = jnp.float64 if kind == jnp.float64 else jnp.float32
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    k, v = jnp.repeat(k, group, axis=1), jnp.repeat(v, group, axis=1)
    s = jnp.einsum("bhic,bhjc->bhij", q.astype(sums), k.astype(sums)) * scale
    n, length = s.shape[-2:]
    if causal:
        s = jnp.where(jnp.tri(n, length, dtype=bool), s, -jnp.inf)
    if mask is not None:
        s = jnp.where(mask, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("bhij,bhjc->bhic", p, v.astype(sums))
    return o.astype(kind)
