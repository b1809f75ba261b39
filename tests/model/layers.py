"""Small random layers of every kind, shared by the tests of layers."""

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE

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
    "window": {"heads": 2, "window": 3},
    "window, causal": {"heads": 4, "kv_heads": 2, "window": 2, "mask": "causal", "biases": True},
    "rope linear": {"heads": 1, "rope": RoPE(100.0, "interleaved", {"type": "linear", "factor": 4}), "mask": "given"},
}

MODIFIED = {
    "softcap": {"heads": 2, "kv_heads": 1, "softcap": 0.8, "biases": True},
    "alibi": {"heads": 2, "alibi": [0.5, 0.125], "mask": "causal"},
    "softcap, alibi, rope": {
        "heads": 4,
        "kv_heads": 2,
        "softcap": 1.5,
        "alibi": [1.0, -0.5, 0.25, 0.0],
        "rope": RoPE(100.0),
        "mask": "given",
        "window": 4,
        "biases": True,
    },
}


def random_layer(kind, seed=0, d=5, m=4, n=6, k=2, gain=0.7):
    """A layer of that kind and a batch of tokens for it."""
    rng = np.random.default_rng(seed)
    options = dict((KINDS | MODIFIED)[kind])
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


def rotations(rope, n, m):
    """R_0 .. R_{n-1} written out, acting on columns; identities without RoPE."""
    turns = np.tile(np.eye(m), (n, 1, 1))
    for pair, wave in enumerate([] if rope is None else rope.frequencies(m)):
        a, b = (pair, pair + m // 2) if rope.layout == "half" else (2 * pair, 2 * pair + 1)
        for i in range(n):
            cos, sin = np.cos(i * wave), np.sin(i * wave)
            turns[i][np.ix_([a, b], [a, b])] = [[cos, -sin], [sin, cos]]
    return turns
