"""Counts of the parameters of a Llama-type network by part, from its configuration alone."""

from collections.abc import Mapping
from typing import Any

from attnprune_verify.pretrained.config import Config

LLAMA_3_2_1B: Mapping[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
"""The sizes published with the weights of the paper's model."""


def parameter_counts(config: Mapping[str, Any]) -> dict[str, int]:
    """Parameters by place: the seven maps of all blocks together, ``norms``, ``embedding`` and ``head``.

    ::

        Q = O = L d h m,   K = V = L d g m,   gate = up = down = L d f,   norms = (2 L + 1) d,   embedding = v d

    with L blocks, d features, h heads and g key heads of m, f inner features, v tokens; the head is another v d unless
    it is tied to the embedding. Networks without biases, as Llama and Mistral.

    Examples
    --------
    >>> counts = parameter_counts(LLAMA_3_2_1B)
    >>> sum(counts.values()), counts["Q"] + counts["K"]
    (1235814400, 83886080)
    """
    sizes = Config(config)
    depth, d, inner = (sizes.count(name) for name in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    heads = sizes.count("num_attention_heads")
    m = sizes.count("head_dim", d // heads)
    wide, narrow = depth * d * heads * m, depth * d * sizes.count("num_key_value_heads", heads) * m
    table = sizes.count("vocab_size") * d
    return {
        **{"Q": wide, "K": narrow, "V": narrow, "O": wide},
        **dict.fromkeys(("gate", "up", "down"), depth * d * inner),
        "norms": (2 * depth + 1) * d,
        "embedding": table,
        "head": 0 if sizes.flag("tie_word_embeddings", False) else table,
    }
