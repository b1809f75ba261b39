"""Online softmax in jax, key by key in a scan."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"


def attention(q, k, v, *, causal=False, mask=None):
    n, length = q.shape[2], k.shape[2]
    allowed = jnp.tri(n, length, dtype=bool) if causal else jnp.ones((n, length), bool)
    allowed = allowed if mask is None else allowed & mask
    wide = jnp.promote_types(q.dtype, jnp.float32)
    q, kind = q.astype(wide) * q.shape[-1] ** -0.5, q.dtype

    def step(kept, given):
        top, total, acc = kept
        key, value, seen = given
        s = jnp.where(seen, jnp.einsum("bhic,bhc->bhi", q, key), -1e30)
        new = jnp.maximum(top, s)
        old, p = jnp.exp(top - new), jnp.where(seen, jnp.exp(s - new), 0)
        return (new, total * old + p, acc * old[..., None] + p[..., None] * value[:, :, None]), None

    keys, values = (jnp.moveaxis(a.astype(wide), 2, 0) for a in (k, v))
    start = (
        jnp.full(q.shape[:3], -1e30, wide),
        jnp.zeros(q.shape[:3], wide),
        jnp.zeros((*q.shape[:3], v.shape[3]), wide),
    )
    (_, total, acc), _ = jax.lax.scan(step, start, (keys, values, allowed.T))
    return (acc / total[..., None]).astype(kind)
