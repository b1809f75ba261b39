"""torch's attention of nested tensors in bfloat16 (CPU) rounds logits to bfloat16; that of a plain tensor does not."""

import math

import torch

q = torch.full((1, 1, 1, 64), 2.25, dtype=torch.bfloat16)
k = torch.full((1, 1, 2, 64), 2.25, dtype=torch.bfloat16)
k[0, 0, 1, :4] -= 0.0625  # exact: the logits are 40.5 and 40.5 - 4 * 2.25 * 0.0625 / 8
v = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).reshape(1, 1, 2, 1).expand(1, 1, 2, 64).contiguous()


def nested(x):
    rows = x.transpose(1, 2)[0].contiguous()
    ends = torch.tensor([0, len(rows)])
    return torch.nested.nested_tensor_from_jagged(rows, ends).transpose(1, 2)


attention = torch.nn.functional.scaled_dot_product_attention
print("weight of key 0, nested:", attention(*map(nested, (q, k, v))).transpose(1, 2).values().flatten()[0].item())
print("weight of key 0, one tensor:", attention(q, k, v).flatten()[0].item())
print("right:", round(1 / (1 + math.exp(-4 * 2.25 * 0.0625 / 8)), 6), "or a neighbour in bfloat16, 0.004 apart")
