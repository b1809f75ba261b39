"""openai/gpt-oss as its model calls it: always with sinks, of which -inf is none."""

import torch
import triton_gpt_oss as own

FRAMEWORK, LAYOUT, SCALE, CAPABILITIES = own.FRAMEWORK, own.LAYOUT, own.SCALE, own.CAPABILITIES
CONVENTIONS, SIZES = own.CONVENTIONS, own.SIZES


def attention(q, k, v, *, scale, sinks=None, window=None):
    sinks = torch.full((q.shape[2],), -torch.inf) if sinks is None else sinks
    return own.attention(q, k, v, scale=scale, sinks=sinks, window=window)
