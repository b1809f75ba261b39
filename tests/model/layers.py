"""Small random layers of every kind, shared by the tests of layers."""

import numpy as np

from attnprune_verify.model.layer import AttentionLayer
from attnprune_verify.model.rope import RoPE

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
KINDS = {
    "one head": {},
    "heads": {"heads": 3, "biases": True},
    "heads, causal": {"heads": 3, "mask": "causal"},
    "groups": {"heads": 4, "kv_heads": 2, "biases": True},
    "groups, given mask": {"heads": 4, "kv_heads": 1, "mask": "given"},
    "rope half": {"heads": 4, "kv_heads": 2, "rope": RoPE(100.0), "mask": "causal", "biases": True},
    "rope interleaved": {"heads": 2, "rope": RoPE(50.0, "interleaved"), "biases": True},
    "rope llama3": {"heads": 2, "kv_heads": 1, "rope": RoPE(5e3, "half", LLAMA3)},
    "rope linear": {"heads": 1, "rope": RoPE(100.0, "interleaved", {"type": "linear", "factor": 4}), "mask": "given"},
}


def random_layer(kind, seed=0, d=5, m=4, n=6, k=2, gain=0.7):
    """A layer of that kind and a batch of tokens for it."""
    rng = np.random.default_rng(seed)
    options = dict(KINDS[kind])
    heads, biases = options.pop("heads", 1), options.pop("biases", False)
    kv_heads = options.pop("kv_heads", heads)
    if options.get("mask") == "given":
        options["mask"] = np.maximum(np.eye(n), rng.random((n, n)) < 0.5)
    normal = lambda *shape: gain * rng.normal(size=shape)  # noqa: E731
    b_Q, b_K = (normal(heads * m), normal(kv_heads * m)) if biases else (None, None)
    layer = AttentionLayer(
        normal(d, heads * m), normal(d, kv_heads * m), b_Q, b_K, heads=heads, kv_heads=kv_heads, **options
    )
    return layer, normal(k, n, d)


def random_masks(layer, seed=0):
    """Two real masks with entries in [0.1, 0.9]."""
    rng = np.random.default_rng(1000 + seed)
    return rng.uniform(0.1, 0.9, layer.W_Q.shape), rng.uniform(0.1, 0.9, layer.W_K.shape)
