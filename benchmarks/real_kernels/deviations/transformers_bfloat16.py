"""transformers' eager attention in bfloat16 rounds logits to bfloat16, 0.25 apart near 40, before the softmax."""

import math
from types import SimpleNamespace

import torch
from transformers.models.llama.modeling_llama import eager_attention_forward

q = torch.full((1, 1, 1, 64), 2.25, dtype=torch.bfloat16)
k = torch.full((1, 1, 2, 64), 2.25, dtype=torch.bfloat16)
k[0, 0, 1, :4] -= 0.0625  # exact: the logits are 40.5 and 40.5 - 4 * 2.25 * 0.0625 / 8
v = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).reshape(1, 1, 2, 1).expand(1, 1, 2, 64)
o, _ = eager_attention_forward(SimpleNamespace(num_key_value_groups=1, training=False), q, k, v, None, scaling=0.125)
print("weight of key 0:", o.flatten()[0].item())
print("right:", round(1 / (1 + math.exp(-4 * 2.25 * 0.0625 / 8)), 6), "or a neighbour in bfloat16, 0.004 apart")
