"""fla-org/flash-linear-attention, parallel_attn."""

from attnprune_verify.triton import interpreted

parallel = interpreted("fla.ops.attn.parallel")
FRAMEWORK, LAYOUT, CAPABILITIES = "torch", "bnhm", ("causal_only",)
SIZES = {"n": {"least": 1, "most": 140}, "n=l": True, "m": {"least": 1, "most": 128}, "mv": {"least": 1, "most": 128}}


def attention(q, k, v, *, scale=None, window=None, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None):
    rows = [x if cu_seqlens_q is None else x[None] for x in (q, k, v)]
    o = parallel.parallel_attn(*rows, None, scale, window, cu_seqlens_q, sink_bias=sinks)
    return o if cu_seqlens_q is None else o[0]
