"""jax.experimental.pallas.ops.gpu.attention.mha, interpreted."""

from jax.experimental.pallas.ops.gpu.attention import mha

FRAMEWORK, LAYOUT, SCALE = "jax", "bnhm", "required"
SIZES = {"m": (16, 32, 64, 128), "mv": "m", "group": 1}


def attention(q, k, v, *, scale, causal=False):
    return mha(q, k, v, None, scale, causal, interpret=True)
