"""mlx's attention in float16 (CPU) rounds logits to float16, 0.03 apart near 48, before the softmax."""

import math

import mlx.core as mx

q, k, v = ([[[[47.96875]]]], [[[[1.0], [1.0009765625]]]], [[[[0.0], [1.0]]]])
for dtype in (mx.float16, mx.float32):
    o = mx.fast.scaled_dot_product_attention(*(mx.array(x, dtype) for x in (q, k, v)), scale=1.0)
    print(dtype, "weight of key 1:", round(o.item(), 5))
print("right:", round(1 / (1 + math.exp(-47.96875 * 0.0009765625)), 5), "or a neighbour in float16, 0.0005 apart")
