"""What the two families have in common: token embeddings, a stack of blocks, and the attention layers in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, expit

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer import AttentionLayer
from attnprune_verify.model.layer_objective import layer_attention

__all__ = ["Family", "PretrainedModel", "activation", "attend"]


class Family(Protocol):
    """One kind of network: how its blocks compute."""

    vocabulary: int
    longest: int
    depth: int

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Token ids (k, n) to hidden states (k, n, d)."""

    def attention_input(self, index: int, hidden: Array) -> Array:
        """What block `index` multiplies by W_Q and W_K."""

    def attention_layer(self, index: int) -> AttentionLayer:
        """The query and key side of block `index`, without masks for padding."""

    def block(self, index: int, hidden: Array, X: Array, layer: AttentionLayer) -> Array:
        """Hidden states after block `index`, whose attention is that of `layer` on X."""

    def finish(self, hidden: Array) -> Array:
        """Hidden states after the last block to the model's output."""


class PretrainedModel:
    """A network whose attention layers can be taken out, pruned and put back.

    Attributes
    ----------
    layers : tuple of AttentionLayer
    tokenizer : the `tokenizers.Tokenizer` of the folder, or None
    """

    def __init__(self, family: Family, tokenizer: Any = None, layers: Sequence[AttentionLayer] | None = None) -> None:
        self._family = family
        self.tokenizer = tokenizer
        self.layers = tuple(layers or (family.attention_layer(index) for index in range(family.depth)))

    @property
    def longest(self) -> int:
        """The largest number of tokens of one sequence."""
        return self._family.longest

    def with_layers(self, layers: Sequence[AttentionLayer]) -> PretrainedModel:
        """The same network with other attention layers."""
        if len(layers) != len(self.layers):
            raise InvalidInstance(f"the model has {len(self.layers)} layers; got {len(layers)}")
        return PretrainedModel(self._family, self.tokenizer, layers)

    def attention_inputs(self, ids: ArrayLike) -> list[Array]:
        """For every layer the X (k, n, d) that its W_Q and W_K act on.

        Parameters
        ----------
        ids : (n,) or (k, n) integer array
            Token ids of sequences of one length, without padding.
        """
        return self._run(ids)[0]

    def output(self, ids: ArrayLike) -> Array:
        """The last hidden states (k, n, d), after the final norm where the family has one."""
        return self._run(ids)[1]

    def hidden_states(self, ids: ArrayLike) -> list[Array]:
        """The hidden states before every block and after the last one (before a final norm)."""
        return self._run(ids)[2]

    def _run(self, ids: ArrayLike) -> tuple[list[Array], Array, list[Array]]:
        hidden = self._family.embed(self.checked_ids(ids))
        inputs, states = [], [hidden]
        for index, layer in enumerate(self.layers):
            X = self._family.attention_input(index, hidden)
            hidden = self._family.block(index, hidden, X, layer)
            inputs.append(X)
            states.append(hidden)
        return inputs, self._family.finish(hidden), states

    def checked_ids(self, ids: ArrayLike) -> NDArray[np.int64]:
        """`ids` as a (k, n) array that this network can take.

        Raises
        ------
        InvalidInstance
            If they are no integers, lie outside the vocabulary, or a sequence is longer than the network's positions.
        """
        array = np.atleast_2d(np.asarray(ids))
        if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iu":
            raise InvalidInstance(f"ids must be a non-empty (k, n) integer array; got {array.dtype} {array.shape}")
        if array.min() < 0 or array.max() >= self._family.vocabulary:
            raise InvalidInstance(
                f"ids must be in 0..{self._family.vocabulary - 1}; got {array.min()} to {array.max()}"
            )
        if array.shape[1] > self.longest:
            raise InvalidInstance(f"a sequence may have at most {self.longest} tokens; got {array.shape[1]}")
        return array.astype(np.int64)


def attend(layer: AttentionLayer, X: Array, values: Array) -> Array:
    """Attention matrices times values: (k, n, kv_heads*v) -> (k, n, heads*v)."""
    k, n, _ = values.shape
    per_head = np.repeat(values.reshape(k, n, layer.kv_heads, -1).transpose(0, 2, 1, 3), layer.group, axis=1)
    mixed = layer_attention(layer, X) @ per_head
    return mixed.transpose(0, 2, 1, 3).reshape(k, n, -1)


def activation(name: str) -> Callable[[Array], Array]:
    """The pointwise function `hidden_act` of a config file names."""
    if name not in _ACTIVATIONS:
        raise InvalidInstance(f"hidden_act must be one of {', '.join(_ACTIVATIONS)}; got {name!r:.60}")
    return _ACTIVATIONS[name]


def _gelu(x: Array) -> Array:
    return np.asarray(x * (erf(x / np.sqrt(2.0).astype(x.dtype)) + 1) / 2)


def _gelu_tanh(x: Array) -> Array:
    inner = np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x**3)
    return np.asarray(x * (1 + np.tanh(inner)) / 2)


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * expit(x),
}
