"""The BERT family: learnt positions, biases, layer norms after each half of a block, attention in both directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer import AttentionLayer
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.network import activation, attend
from attnprune_verify.pretrained.tensors import Tensors

__all__ = ["Bert"]


class Bert:
    """A `Family`."""

    def __init__(self, config: Config, tensors: Tensors) -> None:
        config.must_be("position_embedding_type", "absolute")
        config.must_be("is_decoder", False)
        tensors.strip("bert.", probe="embeddings.word_embeddings.weight")
        self._tensors = tensors
        self.vocabulary = config.count("vocab_size")
        self.longest = config.count("max_position_embeddings")
        self.depth = config.count("num_hidden_layers")
        self._d = config.count("hidden_size")
        self._inner = config.count("intermediate_size")
        self._heads = config.count("num_attention_heads")
        self._types = config.count("type_vocab_size", 2)
        self._eps = config.number("layer_norm_eps", 1e-12)
        self._activation = activation(config.text("hidden_act", "gelu"))

    def embed(self, ids: NDArray[np.int64]) -> Array:
        words = self._tensors.rows("embeddings.word_embeddings.weight", ids, self.vocabulary, self._d)
        positions = self._tensors("embeddings.position_embeddings.weight", self.longest, self._d)
        types = self._tensors("embeddings.token_type_embeddings.weight", self._types, self._d)
        return self._norm("embeddings.LayerNorm", words + positions[: ids.shape[1]] + types[0])

    def attention_input(self, index: int, hidden: Array) -> Array:
        return hidden

    def attention_layer(self, index: int) -> AttentionLayer:
        (W_Q, b_Q), (W_K, b_K) = (
            self._dense(f"{_name(index)}.attention.self.{part}", self._d, self._d) for part in ("query", "key")
        )
        return AttentionLayer(W_Q, W_K, b_Q, b_K, heads=self._heads)

    def block(self, index: int, hidden: Array, X: Array, layer: AttentionLayer) -> Array:
        name = _name(index)
        values = self._apply(f"{name}.attention.self.value", X, self._d)
        mixed = self._apply(f"{name}.attention.output.dense", attend(layer, X, values), self._d)
        hidden = self._norm(f"{name}.attention.output.LayerNorm", hidden + mixed)
        inner = self._activation(self._apply(f"{name}.intermediate.dense", hidden, self._inner))
        outer = self._apply(f"{name}.output.dense", inner, self._d)
        return self._norm(f"{name}.output.LayerNorm", hidden + outer)

    def finish(self, hidden: Array) -> Array:
        return hidden

    def _dense(self, name: str, inputs: int, outputs: int) -> tuple[Array, Array]:
        return self._tensors(f"{name}.weight", outputs, inputs).T, self._tensors(f"{name}.bias", outputs)

    def _apply(self, name: str, rows: Array, outputs: int) -> Array:
        weight, bias = self._dense(name, rows.shape[-1], outputs)
        return rows @ weight + bias

    def _norm(self, name: str, rows: Array) -> Array:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + rows.dtype.type(self._eps))
        scaled: Array = centred / spread * self._tensors(f"{name}.weight", self._d)
        return scaled + self._tensors(f"{name}.bias", self._d)


def _name(index: int) -> str:
    return f"encoder.layer.{index}"
