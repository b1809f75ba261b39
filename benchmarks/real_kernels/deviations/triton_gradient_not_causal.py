"""Triton's tutorial of 2024 and flashattention2-custom-mask: without causal, the gradient is that of a causal kernel.

Both as in alexzhang13/flashattention2-custom-mask at 8170916, in the interpreter of Triton 3.6 (TRITON_INTERPRET=1).
q = k = 0, v = dO = 1: each weight is 1/n, and dV is their sum over the queries, 1. Of the tutorial it is triton#4541.
"""

import importlib
from types import SimpleNamespace

import torch
import triton

target = SimpleNamespace(backend="cuda", arch=80)
triton.runtime.driver.set_active(SimpleNamespace(get_current_target=lambda: target))
timed = triton.autotune
triton.autotune = lambda configs, key: timed(configs[:1], key)  # timing more of them needs a GPU

attention = importlib.import_module("fa2_original").attention
masked = importlib.import_module("fa2_custom_mask.fa2_custom_mask").flash_attention_custom_mask

n = 256
for name, called in (
    ("tutorial", lambda q, k, v: attention(q, k, v, False, 0.125)),
    ("custom mask, none given", lambda q, k, v: masked(q, k, v, None, 0.125)),
):
    q, k = torch.zeros(2, 1, 1, n, 64, dtype=torch.float16, requires_grad=True)
    v = torch.ones(1, 1, n, 64, dtype=torch.float16, requires_grad=True)
    o = called(q, k, v)
    (dv,) = torch.autograd.grad(o, v, torch.ones_like(o))
    print(f"{name}: dV of key 0 and key {n - 1}: {dv[0, 0, 0, 0].item():.3f} {dv[0, 0, -1, 0].item():.3f}, right: 1, 1")
