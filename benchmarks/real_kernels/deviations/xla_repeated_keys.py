"""jax's compiler on CPUs, XLA: dq and dk of a blockwise attention are wrong where keys are repeated for grouped heads.

The audit of a correct kernel showed it. Evaluated operation by operation, or without YNNPACK fusions, both are right.
"""

import jax
import jax.numpy as jnp
import numpy as np

CHUNK = 8  # chosen: 1, 2, 4, 7, 14 and 28 show it as well; 56, all keys at once, is right


def head(q, k, v):
    """Online softmax of one head, chunk by chunk: output and log sum exp."""

    def step(state, chunk):
        top, total, acc = state
        keys, values = chunk
        s = q @ keys.T
        new = jnp.maximum(top, s.max(1))
        e, keep = jnp.exp(s - new[:, None]), jnp.exp(top - new)
        return (new, total * keep + e.sum(1), acc * keep[:, None] + e @ values), None

    start = jnp.full(len(q), -jnp.inf), jnp.zeros(len(q)), jnp.zeros((len(q), v.shape[1]))
    chunks = k.reshape(-1, CHUNK, k.shape[1]), v.reshape(-1, CHUNK, v.shape[1])
    (top, total, acc), _ = jax.lax.scan(step, start, chunks)
    return acc / total[:, None], top + jnp.log(total)


def query_gradient(q, k, v, do):
    """dQ with weights computed anew, two query heads for one key head."""
    k, v = jnp.repeat(k, 2, 0), jnp.repeat(v, 2, 0)
    o, lse = jax.vmap(head)(q, k, v)
    p = jnp.exp(q @ k.swapaxes(1, 2) - lse[..., None])
    dp = do @ v.swapaxes(1, 2)
    return (p * (dp - (o * do).sum(-1, keepdims=True))) @ k


rng = np.random.default_rng(0)
shapes = (2, 56, 8), (1, 56, 8), (1, 56, 64), (2, 56, 64)
arrays = [jnp.asarray(rng.standard_normal(shape) / 2, jnp.float32) for shape in shapes]
right = query_gradient(*arrays)
lowered = jax.jit(query_gradient).lower(*arrays)
for options in ({}, {"xla_cpu_experimental_ynn_fusion_type": ""}):
    error = float(abs(lowered.compile(options)(*arrays) - right).max() / abs(right).max())
    print(options, "right" if error < 1e-5 else "wrong", "by less than 1e-5" if error < 1e-5 else "by more than 0.1")
    assert error < 1e-5 or error > 0.1
