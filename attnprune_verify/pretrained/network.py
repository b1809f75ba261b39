"""Parts common to all families: token embeddings, a stack of blocks, and the stack's output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import Block
from attnprune_verify.pretrained.likelihood import mean_loss, token_losses
from attnprune_verify.pretrained.pieces import Linear
from attnprune_verify.pretrained.tensors import Place


class Family(Protocol):
    """Interface of one kind of network: the names of its tensors and their computation."""

    predicts: bool
    vocabulary: int
    width: int
    longest: int
    depth: int

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Token ids (k, n) to hidden states (k, n, d)."""

    def block(self, index: int) -> Block:
        """Block `index`, read from the files."""

    def attention_layer(self, index: int) -> AttentionLayer:
        """The query and key side of block `index` alone."""

    def finish(self, hidden: Array) -> Array:
        """Hidden states after the last block to the network's output."""

    def pull_back(self, hidden: Array, upstream: Array) -> Array:
        """The transposed derivative of `finish` at `hidden`."""

    def logits(self, finished: Array) -> Array:
        """The output to the logits of the next token."""

    def head(self) -> Linear:
        """The map from the output to the logits of the next token; InvalidInstance where there is none."""

    def weight_place(self, index: int, role: str) -> Place:
        """Return the place of a map's weight in the files."""


class PretrainedModel:
    """A network whose blocks are read from their files one at a time, and whose weights can be exchanged.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer or None
        The tokenizer of the folder.
    family : Family
        The architecture: it reads the blocks, the embeddings and the head from the files.
    """

    def __init__(
        self,
        family: Family,
        tokenizer: Any = None,
        layers: Mapping[int, AttentionLayer] | None = None,
        weights: Mapping[tuple[int, str], Array] | None = None,
    ) -> None:
        self.family = family
        self.tokenizer = tokenizer
        self._layers, self._weights = dict(layers or {}), dict(weights or {})

    def __repr__(self) -> str:
        family = self.family
        counts = {"layer": len(self._layers), "weight": len(self._weights)}
        changed = ", ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items() if count)
        return (
            f"<{type(family).__name__}: {family.depth} blocks, width {family.width}, vocabulary {family.vocabulary}, "
            f"at most {family.longest} tokens{'; exchanged: ' * bool(changed)}{changed}>"
        )

    @property
    def longest(self) -> int:
        """The largest number of tokens of one sequence."""
        return self.family.longest

    @property
    def depth(self) -> int:
        """The number of blocks."""
        return self.family.depth

    @cached_property
    def layers(self) -> tuple[AttentionLayer, ...]:
        """The attention layers of all blocks."""
        return tuple(
            self._layers.get(index) or self.family.attention_layer(index)
            if not {(index, "Q"), (index, "K")} & set(self._weights)
            else self.block(index).layer
            for index in range(self.depth)
        )

    def block(self, index: int) -> Block:
        """Return block `index` with its exchanged weights."""
        block = self.family.block(index)
        if index in self._layers:
            block = replace(block, layer=self._layers[index])
        changed = {role: W for (at, role), W in self._weights.items() if at == index}
        return block.with_weights(changed) if changed else block

    def with_layers(self, layers: Sequence[AttentionLayer]) -> PretrainedModel:
        """Return the network with other attention layers."""
        if len(layers) != self.depth:
            raise InvalidInstance(f"the model has {self.depth} layers; got {len(layers)}")
        others = {key: W for key, W in self._weights.items() if key[1] not in "QK"}
        return PretrainedModel(self.family, self.tokenizer, dict(enumerate(layers)), others)

    def with_weights(self, weights: Mapping[tuple[int, str], Array]) -> PretrainedModel:
        """Return the network with other (out, in) weights at (block, role), roles as in `Block`."""
        return PretrainedModel(self.family, self.tokenizer, self._layers, {**self._weights, **weights})

    def logits(self, ids: ArrayLike) -> Array:
        """Logits of the next token (k, n, vocabulary), of a network that predicts one.

        Parameters
        ----------
        ids : (n,) or (k, n) integer array
            Token ids of sequences of one length, without padding.

        Raises
        ------
        InvalidInstance
            If the network is an encoder, or the ids do not fit it.
        """
        return self.family.logits(self.output(ids))

    def token_losses(self, ids: ArrayLike) -> Array:
        """``-log p(token | the tokens before it)`` in nats, (k, n - 1): the first token of a sequence is given."""
        return np.concatenate([token_losses(self.logits(part), part) for part in self._parts(ids)])

    def perplexity(self, ids: ArrayLike) -> float:
        """exp of the mean of `token_losses`.

        Parameters
        ----------
        ids : (n,) or (k, n) integer array
            n >= 2.
        """
        return float(np.exp(mean_loss(self.token_losses(ids))))

    def _parts(self, ids: ArrayLike) -> Iterator[NDArray[np.int64]]:
        """Yield some sequences at a time, so that their logits stay small."""
        checked = self.checked_ids(ids)
        if checked.shape[1] < 2:
            raise InvalidInstance(f"a sequence must have at least 2 tokens to predict one; got {checked.shape[1]}")
        step = max(1, _LARGEST // (checked.shape[1] * self.family.vocabulary))
        for start in range(0, len(checked), step):
            yield checked[start : start + step]

    def attention_inputs(self, ids: ArrayLike) -> list[Array]:
        """For every layer the X (k, n, d) that its W_Q and W_K act on.

        Parameters
        ----------
        ids : (n,) or (k, n) integer array
            Token ids of sequences of one length, without padding.
        """
        hidden, inputs = self.family.embed(self.checked_ids(ids)), []
        for index in range(self.depth):
            trace = self.block(index)(hidden)
            inputs.append(trace.x)
            hidden = trace.output
        return inputs

    def output(self, ids: ArrayLike) -> Array:
        """The last hidden states (k, n, d), after the final norm where the family has one."""
        return self.family.finish(self.hidden_states(ids)[-1])

    def hidden_states(self, ids: ArrayLike) -> list[Array]:
        """The hidden states before every block and after the last one (before a final norm)."""
        states = [self.family.embed(self.checked_ids(ids))]
        for index in range(self.depth):
            states.append(self.block(index)(states[-1]).output)
        return states

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
        if array.min() < 0 or array.max() >= self.family.vocabulary:
            raise InvalidInstance(f"ids must be in 0..{self.family.vocabulary - 1}; got {array.min()} to {array.max()}")
        if array.shape[1] > self.longest:
            raise InvalidInstance(f"a sequence may have at most {self.longest} tokens; got {array.shape[1]}")
        return array.astype(np.int64)


_LARGEST = 2**24  # logits at a time
