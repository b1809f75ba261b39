"""The Llama family (Llama, Qwen2, Mistral): rotary positions, grouped keys, norms before each half, causal mask."""

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import Block
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.pieces import Linear, RMSNorm, activation
from attnprune_verify.pretrained.tensors import Place, Tensors

_HEAD = "lm_head.weight"
_PLACES = {
    "Q": "self_attn.q_proj", "K": "self_attn.k_proj", "V": "self_attn.v_proj", "O": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}  # fmt: skip
_NORMS = ("input_layernorm", "post_attention_layernorm")


class Llama:
    """A `Family`."""

    predicts = True

    def __init__(self, config: Config, tensors: Tensors) -> None:
        self.vocabulary = config.count("vocab_size")
        self.longest = config.count("max_position_embeddings")
        self.depth = config.count("num_hidden_layers")
        self.width, self._inner = config.count("hidden_size"), config.count("intermediate_size")
        self._heads = config.count("num_attention_heads")
        self._kv_heads = config.count("num_key_value_heads", self._heads)
        if self._heads % self._kv_heads:
            raise InvalidInstance(
                f"num_key_value_heads must divide num_attention_heads; got {self._kv_heads} and {self._heads}"
            )
        self._m = config.count("head_dim", self.width // self._heads or None)
        config.must_be("partial_rotary_factor", 1)
        self._rope = config.rope()
        self._eps = config.number("rms_norm_eps", 1e-6)
        self._activation = activation(config.text("hidden_act", "silu"))
        self._tied = config.flag("tie_word_embeddings", False)
        self._biased = self._biased_maps(config)
        self._windows = self._sliding_windows(config)
        config.refuse_rest()
        tensors.strip("model.", probe="embed_tokens.weight")
        tensors.expect(
            self._shapes(), optional={_HEAD: (self.vocabulary, self.width)}, ignored=("rotary_emb.inv_freq",)
        )
        self._tensors = tensors

    def _biased_maps(self, config: Config) -> set[str]:
        """Return the roles of the maps that have a bias."""
        attention, rest = config.flag("attention_bias", False), config.flag("mlp_bias", False)
        return set("QKVO" if attention else ()) | set(("gate", "up", "down") if rest else ())

    def _sliding_windows(self, config: Config) -> list[int | None]:
        """Return the window of every block: the tokens that a token sees, itself included; None for all."""
        return [None] * self.depth

    def _sizes(self) -> dict[str, tuple[int, int]]:
        """(out, in) of every map."""
        d, inner, wide, narrow = self.width, self._inner, self._heads * self._m, self._kv_heads * self._m
        return {
            "Q": (wide, d), "K": (narrow, d), "V": (narrow, d), "O": (d, wide),
            "gate": (inner, d), "up": (inner, d), "down": (d, inner),
        }  # fmt: skip

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor of the network by name."""
        shapes: dict[str, tuple[int, ...]] = {
            "embed_tokens.weight": (self.vocabulary, self.width),
            "norm.weight": (self.width,),
        }
        for index in range(self.depth):
            shapes |= {f"layers.{index}.{norm}.weight": (self.width,) for norm in _NORMS}
            for role, size in self._sizes().items():
                shapes[f"{_place(index, role)}.weight"] = size
                if role in self._biased:
                    shapes[f"{_place(index, role)}.bias"] = size[:1]
        return shapes

    def weight_place(self, index: int, role: str) -> Place:
        """Return the place of a map's weight in the files."""
        return self._tensors.place(f"{_place(index, role)}.weight")

    def embed(self, ids: NDArray[np.int64]) -> Array:
        return self._tensors.rows("embed_tokens.weight", ids)

    def block(self, index: int) -> Block:
        maps = {role: self._linear(index, role) for role in _PLACES}
        first, second = (RMSNorm(self._tensors(f"layers.{index}.{norm}.weight"), self._eps) for norm in _NORMS)
        return Block(
            self._attention(index, maps.pop("Q"), maps.pop("K")), maps, (first, second), self._activation, True
        )

    def attention_layer(self, index: int) -> AttentionLayer:
        return self._attention(index, self._linear(index, "Q"), self._linear(index, "K"))

    def finish(self, hidden: Array) -> Array:
        return self._last_norm()(hidden)

    def pull_back(self, hidden: Array, upstream: Array) -> Array:
        return self._last_norm().pull_back(hidden, upstream)

    def _last_norm(self) -> RMSNorm:
        return RMSNorm(self._tensors("norm.weight"), self._eps)

    def logits(self, finished: Array) -> Array:
        return self.head()(finished)

    def head(self) -> Linear:
        name = "embed_tokens.weight" if self._tied else _HEAD
        if name not in self._tensors:
            raise InvalidInstance(f"predicting needs the tensor {_HEAD!r}, which the model's files do not hold")
        if self._tied and _HEAD in self._tensors and not self._tensors.equal(_HEAD, name):
            raise InvalidInstance(f"tie_word_embeddings is true, but {_HEAD!r} differs from {name!r}")
        return Linear(self._tensors(name))

    def _attention(self, index: int, query: Linear, key: Linear) -> AttentionLayer:
        return AttentionLayer(
            query.weight.T,
            key.weight.T,
            query.bias,
            key.bias,
            heads=self._heads,
            kv_heads=self._kv_heads,
            rope=self._rope,
            mask="causal",
            window=self._windows[index],
        )

    def _linear(self, index: int, role: str) -> Linear:
        place = _place(index, role)
        bias = self._tensors(f"{place}.bias") if role in self._biased else None
        return Linear(self._tensors(f"{place}.weight"), bias)


class Qwen2(Llama):
    """Biases on queries, keys and values; a window in the layers named by config.json."""

    def _biased_maps(self, config: Config) -> set[str]:
        return set("QKV")

    def _sliding_windows(self, config: Config) -> list[int | None]:
        used, first = config.flag("use_sliding_window", False), config.count("max_window_layers", 28)
        given = config.count_or_none("sliding_window")
        window = given if used else None
        kinds = config.texts("layer_types")
        if kinds is None:
            kinds = [
                "sliding_attention" if used and index >= first else "full_attention" for index in range(self.depth)
            ]
        return _windows_of(kinds, window, self.depth)


class Mistral(Llama):
    """A window in every layer, unless the file has none."""

    def _biased_maps(self, config: Config) -> set[str]:
        return set()

    def _sliding_windows(self, config: Config) -> list[int | None]:
        return [config.count_or_none("sliding_window")] * self.depth


def _windows_of(kinds: list[str], window: int | None, depth: int) -> list[int | None]:
    if len(kinds) != depth or not set(kinds) <= {"full_attention", "sliding_attention"}:
        raise InvalidInstance(
            f"layer_types must name full_attention or sliding_attention for each of {depth} layers; "
            f"got {len(kinds)} entries of kinds {', '.join(sorted(set(kinds)))[:60]}"
        )
    if window is None and "sliding_attention" in kinds:
        raise InvalidInstance("layer_types names sliding_attention, but config.json gives no sliding_window in use")
    return [window if kind == "sliding_attention" else None for kind in kinds]


def _place(index: int, role: str) -> str:
    return f"layers.{index}.{_PLACES[role]}"
