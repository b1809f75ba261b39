"""gpt-oss's Triton attention drops the keys of a cached prefix; where sinks are None, one more logit of 0 counts.

`gpt_oss/triton/attention.py` of openai/gpt-oss at 7b58334, in Triton's interpreter (TRITON_INTERPRET=1). Keys are read
from the first query's position on, not from 0. Its model always passes sinks, and several queries beside cached keys.
"""

import torch
from gpt_oss.triton.attention import attention

q, k, v = torch.zeros(1, 2, 1, 1, 64), torch.zeros(1, 4, 1, 64), torch.zeros(1, 4, 1, 64)
v[0, :, 0, 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])  # equal logits: the output is the mean of the values that are seen
prefix, nothing = torch.tensor([2], dtype=torch.int32), torch.tensor([0], dtype=torch.int32)
print("queries 2 and 3 of 4 keys:", attention(q, k, v, torch.tensor([-30.0]), 1.0, None, prefix)[0, :, 0].tolist())
print("right: [2.0, 2.5]")
one = attention(q[:, :1], k[:, :1], torch.ones(1, 1, 1, 64), None, 1.0, None, nothing)
print("one key with value 1, no sinks:", one[0, 0, 0].item(), "where 1.0 is right")
