"""jax's Pallas `mha` for GPUs (interpreted): gradients at 33 or 70 rows, and a causal output of few keys, are nan.

Blocks of 32 rows in the backward pass are not compared with the number of rows; at 33 and 70 the output is right.
Where there are more queries than keys, the loop of a causal call reads keys that are not there.
"""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu.attention import mha


def called(n, length, causal):
    q, do = jax.random.normal(jax.random.key(0), (2, 1, n, 1, 16))
    k, v = jax.random.normal(jax.random.key(1), (2, 1, length, 1, 16))
    o, pullback = jax.vjp(lambda *arrays: mha(*arrays, None, 0.25, causal, interpret=True), q, k, v)
    s = jnp.einsum("bqhm,bkhm->bqk", q, k) / 4
    s = jnp.where(jnp.tri(n, length, dtype=bool) | (not causal), s, -jnp.inf)
    right = jnp.allclose(o, jnp.einsum("bqk,bkhm->bqhm", jax.nn.softmax(s), v), atol=1e-5)
    return f"output {'right' if right else 'wrong'}", pullback, do


for n in (32, 33, 70, 128):
    said, pullback, do = called(n, n, causal=False)
    wrong = sum(bool(jnp.isnan(gradient).any()) for gradient in pullback(do))
    print(f"{n} queries and keys: {said}, {wrong} of 3 gradients have nan")
for n, length, causal in ((17, 9, False), (17, 9, True), (9, 17, True)):
    print(f"{n} queries, {length} keys, {'causal' if causal else 'not causal'}: {called(n, length, causal)[0]}")
