"""The Llama family: rotary positions, grouped keys, root-mean-square norms before each half of a block, causal mask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer import AttentionLayer
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.network import activation, attend
from attnprune_verify.pretrained.tensors import Tensors

__all__ = ["Llama"]


class Llama:
    """A `Family`."""

    def __init__(self, config: Config, tensors: Tensors) -> None:
        tensors.strip("model.", probe="embed_tokens.weight")
        self._tensors = tensors
        self.vocabulary = config.count("vocab_size")
        self.longest = config.count("max_position_embeddings")
        self.depth = config.count("num_hidden_layers")
        self._d = config.count("hidden_size")
        self._inner = config.count("intermediate_size")
        self._heads = config.count("num_attention_heads")
        self._kv_heads = config.count("num_key_value_heads", self._heads)
        if self._heads % self._kv_heads:
            raise InvalidInstance(
                f"num_key_value_heads must divide num_attention_heads; got {self._kv_heads} and {self._heads}"
            )
        self._m = config.count("head_dim", self._d // self._heads or None)
        self._rope = config.rope()
        self._eps = config.number("rms_norm_eps", 1e-6)
        self._activation = activation(config.text("hidden_act", "silu"))

    def embed(self, ids: NDArray[np.int64]) -> Array:
        return self._tensors.rows("embed_tokens.weight", ids, self.vocabulary, self._d)

    def attention_input(self, index: int, hidden: Array) -> Array:
        return self._norm(f"layers.{index}.input_layernorm", hidden)

    def attention_layer(self, index: int) -> AttentionLayer:
        name = f"layers.{index}.self_attn"
        W_Q, b_Q = self._dense(f"{name}.q_proj", self._d, self._heads * self._m)
        W_K, b_K = self._dense(f"{name}.k_proj", self._d, self._kv_heads * self._m)
        return AttentionLayer(
            W_Q, W_K, b_Q, b_K, heads=self._heads, kv_heads=self._kv_heads, rope=self._rope, mask="causal"
        )

    def block(self, index: int, hidden: Array, X: Array, layer: AttentionLayer) -> Array:
        name = f"layers.{index}"
        values = self._apply(f"{name}.self_attn.v_proj", X, self._kv_heads * self._m)
        hidden = hidden + self._apply(f"{name}.self_attn.o_proj", attend(layer, X, values), self._d)
        rows = self._norm(f"{name}.post_attention_layernorm", hidden)
        gate = self._activation(self._apply(f"{name}.mlp.gate_proj", rows, self._inner))
        return hidden + self._apply(
            f"{name}.mlp.down_proj", gate * self._apply(f"{name}.mlp.up_proj", rows, self._inner), self._d
        )

    def finish(self, hidden: Array) -> Array:
        return self._norm("norm", hidden)

    def _dense(self, name: str, inputs: int, outputs: int) -> tuple[Array, Array | None]:
        bias = self._tensors(f"{name}.bias", outputs) if f"{name}.bias" in self._tensors else None
        return self._tensors(f"{name}.weight", outputs, inputs).T, bias

    def _apply(self, name: str, rows: Array, outputs: int) -> Array:
        weight, bias = self._dense(name, rows.shape[-1], outputs)
        product = rows @ weight
        return product if bias is None else product + bias

    def _norm(self, name: str, rows: Array) -> Array:
        size = np.sqrt(np.square(rows).mean(axis=-1, keepdims=True) + rows.dtype.type(self._eps))
        normed: Array = rows / size * self._tensors(f"{name}.weight", self._d)
        return normed
