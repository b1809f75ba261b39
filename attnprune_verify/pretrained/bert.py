"""The BERT family: learnt positions, biases, layer norms after each half of a block, attention in both directions."""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import Block
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.pieces import LayerNorm, Linear, activation
from attnprune_verify.pretrained.tensors import Place, Tensors

_EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_PLACES = {
    "Q": "attention.self.query", "K": "attention.self.key", "V": "attention.self.value",
    "O": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense",
}  # fmt: skip
_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
_OTHER_HEADS = ("pooler.", "cls.", "classifier.", "qa_outputs.", "position_ids")


class Bert:
    """A `Family`."""

    predicts = False

    def __init__(self, config: Config, tensors: Tensors) -> None:
        config.must_be("position_embedding_type", "absolute")
        config.must_be("is_decoder", False)
        config.flag("tie_word_embeddings", True)  # read, so that it is not refused; there is no head to tie
        self.vocabulary = config.count("vocab_size")
        self.longest = config.count("max_position_embeddings")
        self.depth = config.count("num_hidden_layers")
        self.width, self._inner = config.count("hidden_size"), config.count("intermediate_size")
        self._heads = config.count("num_attention_heads")
        self._types = config.count("type_vocab_size", 2)
        self._eps = config.number("layer_norm_eps", 1e-12)
        self._activation = activation(config.text("hidden_act", "gelu"))
        config.refuse_rest()
        tensors.strip("bert.", probe="embeddings.word_embeddings.weight")
        tensors.expect(self._shapes(), ignored=_OTHER_HEADS)
        self._tensors = tensors

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor of the network by name."""
        d, inner = self.width, self._inner
        rows = zip(_EMBEDDINGS, (self.vocabulary, self.longest, self._types), strict=True)
        shapes: dict[str, tuple[int, ...]] = {f"embeddings.{name}.weight": (count, d) for name, count in rows}
        norms = ["embeddings.LayerNorm"] + [f"{_name(i)}.{norm}" for i in range(self.depth) for norm in _NORMS]
        shapes |= {f"{norm}.{part}": (d,) for norm in norms for part in ("weight", "bias")}
        for index in range(self.depth):
            for role in _PLACES:
                out, into = {"up": (inner, d), "down": (d, inner)}.get(role, (d, d))
                place = f"{_name(index)}.{_PLACES[role]}"
                shapes |= {f"{place}.weight": (out, into), f"{place}.bias": (out,)}
        return shapes

    def weight_place(self, index: int, role: str) -> Place:
        """Return the place of a map's weight in the files."""
        return self._tensors.place(f"{_name(index)}.{_PLACES[role]}.weight")

    def embed(self, ids: NDArray[np.int64]) -> Array:
        words = self._tensors.rows("embeddings.word_embeddings.weight", ids)
        positions, types = (self._tensors(f"embeddings.{name}.weight") for name in _EMBEDDINGS[1:])
        return self._norm("embeddings.LayerNorm")(words + positions[: ids.shape[1]] + types[0])

    def block(self, index: int) -> Block:
        maps = {role: self._linear(index, role) for role in _PLACES}
        first, second = (self._norm(f"{_name(index)}.{norm}") for norm in _NORMS)
        return Block(self._attention(maps.pop("Q"), maps.pop("K")), maps, (first, second), self._activation, False)

    def attention_layer(self, index: int) -> AttentionLayer:
        return self._attention(self._linear(index, "Q"), self._linear(index, "K"))

    def finish(self, hidden: Array) -> Array:
        return hidden

    def pull_back(self, hidden: Array, upstream: Array) -> Array:
        return upstream

    def logits(self, finished: Array) -> NoReturn:
        self.head()

    def head(self) -> NoReturn:
        raise InvalidInstance("an encoder of model_type 'bert' predicts no next token: it has no logits")

    def _attention(self, query: Linear, key: Linear) -> AttentionLayer:
        return AttentionLayer(query.weight.T, key.weight.T, query.bias, key.bias, heads=self._heads)

    def _linear(self, index: int, role: str) -> Linear:
        place = f"{_name(index)}.{_PLACES[role]}"
        return Linear(self._tensors(f"{place}.weight"), self._tensors(f"{place}.bias"))

    def _norm(self, name: str) -> LayerNorm:
        return LayerNorm(self._tensors(f"{name}.weight"), self._tensors(f"{name}.bias"), self._eps)


def _name(index: int) -> str:
    return f"encoder.layer.{index}"
