"""One block of a network: attention and a two-layer map, each with a norm and a residual connection.

::

    decoder (norm first)                 encoder (norm last)
    x = N1(h)                            x = h
    mixed = F(x W_Q, x W_K) (x W_V)      the same
    middle = h + mixed W_O               middle = N1(h + mixed W_O)
    y = N2(middle)                       y = middle
    inner = act(y W_gate) * (y W_up)     inner = act(y W_up)
    output = middle + inner W_down       output = N2(middle + inner W_down)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.softmax import softmax_block
from attnprune_verify.pretrained.pieces import Activation, Linear, Norm

INPUT_OF = {"Q": "x", "K": "x", "V": "x", "O": "mixed", "gate": "y", "up": "y", "down": "inner"}


@dataclass(frozen=True)
class BlockTrace:
    """Intermediate values of a block; all (k, n, features).

    Attributes
    ----------
    hidden : array
        Input of the block.
    x : array
        Input of W_Q, W_K, W_V.
    mixed : array
        Input of W_O: the heads' outputs side by side.
    middle : array
        Output of the attention half, input of the other half.
    y : array
        Input of W_gate and W_up.
    gate, up : array
        Outputs of W_gate and W_up; `gate` is None in a block without gates.
    inner : array
        Input of W_down.
    output : array
        Output of the block.
    """

    hidden: Array
    x: Array
    mixed: Array
    middle: Array
    y: Array
    gate: Array | None
    up: Array
    inner: Array
    output: Array

    def input_of(self, role: str) -> Array:
        """The input of the map "Q", "K", "V", "O", "gate", "up" or "down"."""
        rows: Array = getattr(self, INPUT_OF[role])
        return rows


@dataclass(frozen=True)
class Block:
    """A block by its maps.

    Attributes
    ----------
    layer : AttentionLayer
        The query and key side, with heads, positions and mask; its weights are (in, out).
    maps : mapping of str to Linear
        The other linear maps by role: "V", "O", "gate" (if the block has gates), "up", "down".
    norms : (Norm, Norm)
        The norm of the attention half and that of the other half.
    activation : Activation
        The pointwise function.
    norm_first : bool
        True if the norms come before the halves (decoder), False if after them (encoder).
    """

    layer: AttentionLayer
    maps: Mapping[str, Linear]
    norms: tuple[Norm, Norm]
    activation: Activation
    norm_first: bool

    def __repr__(self) -> str:
        return f"<block of {self.layer} with {', '.join(self.maps)}>"

    @property
    def roles(self) -> tuple[str, ...]:
        """The linear maps in the order in which they act."""
        return tuple(role for role in INPUT_OF if role in ("Q", "K") or role in self.maps)

    def weight(self, role: str) -> Array:
        """The weight of a map, (out, in)."""
        if role in ("Q", "K"):
            return self.layer.W_Q.T if role == "Q" else self.layer.W_K.T
        return self.maps[role].weight

    def with_weights(self, weights: Mapping[str, Array]) -> Block:
        """Return the block with other (out, in) weights of some maps; biases stay."""
        W_Q, W_K = (weights[role].T if role in weights else self.weight(role).T for role in "QK")
        changed = {role: replace(self.maps[role], weight=weights[role]) for role in self.maps if role in weights}
        return replace(self, layer=self.layer.with_weights(W_Q, W_K), maps={**self.maps, **changed})

    def __call__(self, hidden: Array) -> BlockTrace:
        """Run the block on hidden states (k, n, d)."""
        before, after = self.norms
        x = before(hidden) if self.norm_first else hidden
        mixed = attend(self.layer, x, self.maps["V"](x))
        middle: Array = hidden + self.maps["O"](mixed)
        if not self.norm_first:
            middle = before(middle)
        y = after(middle) if self.norm_first else middle
        gate = self.maps["gate"](y) if "gate" in self.maps else None
        up = self.maps["up"](y)
        inner = self.activation(up) if gate is None else self.activation(gate) * up
        output: Array = middle + self.maps["down"](inner)
        if not self.norm_first:
            output = after(output)
        return BlockTrace(hidden, x, mixed, middle, y, gate, up, inner, output)


def attend(layer: AttentionLayer, X: Array, values: Array) -> Array:
    """Attention matrices times values: (k, n, kv_heads*v) -> (k, n, heads*v); nothing of size n x n is kept."""
    k, n, _ = values.shape
    per_key_head = values.reshape(k, n, layer.kv_heads, -1).transpose(0, 2, 1, 3)
    per_head = np.repeat(per_key_head, layer.group, axis=1).reshape(k * layer.heads, n, -1)
    maps = Heads(layer, X)
    queries, keys = maps.queries(layer.W_Q), maps.keys(layer.W_K)
    mixed = np.empty_like(per_head)
    for block in maps.blocks():
        mixed[:, block.rows] = (
            softmax_block(queries, keys, block, modifiers=layer.modifiers) @ per_head[:, block.columns]
        )
    return mixed.reshape(k, layer.heads, n, -1).transpose(0, 2, 1, 3).reshape(k, n, -1)
