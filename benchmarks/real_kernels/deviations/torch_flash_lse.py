"""torch's fused CPU attention returns a log sum exp of 0 where no key is allowed; the log of an empty sum is -inf.

The operator is internal to torch and undocumented. Code that joins parts of the keys by it gets wrong weights.
"""

import torch

q, k = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 1)
left, right = torch.tensor([[3.0], [5.0]]), torch.tensor([[7.0], [9.0]])  # values of two parts of the keys
nothing = torch.full((1, 2), -torch.inf)
attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
o, lse = attention(q, k, left[None, None], attn_mask=nothing)
print("output and log sum exp of a row with nothing allowed:", o.item(), lse.item())
other, its = attention(q, k, right[None, None])
share = torch.softmax(torch.stack([lse, its]).flatten(), 0)
print("joined with a part whose output is 8:", round((share[0] * o + share[1] * other).item(), 3), "where 8 is right")
