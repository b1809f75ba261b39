"""The dense layer on the calibration tokens, where every method starts, and the outcome where it ends; in float64."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.layer.heads import join_heads, split_heads
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.algorithms.matrix.two_sided import Pruned
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.scores import ScoreModifier
from attnprune_verify.instance.validate import Array, as_real
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.softmax import bent_softmax, quiet


class RowMetrics(NamedTuple):
    """A block of rows of the dense attention F, and the weights of a logit's change in the metrics.

    Where scores are modified, s -> u(s), a change ds moves the softmax by u'(s) ds: `first` is F * u', `second` is
    F * u'^2. Without modifiers all three are the same array.
    """

    block: RowBlock
    F: Array
    first: Array
    second: Array


class Calibration:
    """A layer and its calibration tokens, with the dense queries, keys and attention.

    Attributes
    ----------
    layer : AttentionLayer
        In float64.
    X : (k, n, d) array
    W_Q : (heads, d, m) array
    W_K : (kv_heads, d, m) array
    queries, keys : (k*heads, n, m) arrays
        Dense, scaled and turned by position.
    size : (k, n) array
        |x_i|^2.
    """

    def __init__(self, layer: AttentionLayer, X: ArrayLike) -> None:
        as_layer(layer)
        self.layer = layer.with_weights(layer.W_Q.astype(np.float64), layer.W_K.astype(np.float64))
        self.maps = Heads.at_the_door(self.layer, as_real("X", X).astype(np.float64))[0]
        self.X = self.maps.X
        self.k, self.n = self.maps.k, self.maps.n
        self.W_Q = split_heads(self.layer.W_Q, layer.heads)
        self.W_K = split_heads(self.layer.W_K, layer.kv_heads)
        self.queries, self.keys = self.queries_of(self.W_Q), self.keys_of(self.W_K)
        with np.errstate(over="ignore"):
            self.size: Array = np.einsum("kia,kia->ki", self.X, self.X)
        if not np.isfinite(self.size.sum()):
            raise InvalidInstance(f"X^T X must fit into float64; the largest |X| is {np.abs(self.X).max():.3g}")

    def queries_of(self, W_Q: Array) -> Array:
        """scale (X W_Q + b_Q), turned by position, for blocks (heads, d, m); (k*heads, n, m)."""
        return self.maps.queries(join_heads(W_Q))

    def keys_of(self, W_K: Array) -> Array:
        """X W_K + b_K, turned by position, for blocks (kv_heads, d, m); (k*heads, n, m)."""
        return self.maps.keys(join_heads(W_K))

    def attention(self) -> Iterator[RowMetrics]:
        """Blocks of rows of the dense attention; (k*heads, rows, columns)."""
        return self._moments(self.queries, self.keys, self.layer.modifiers)

    def attention_of(self, index: int) -> Iterator[RowMetrics]:
        """Yield blocks of rows for one (sample, head), counted sample by sample; (rows, columns)."""
        one = slice(index, index + 1)
        modifiers = [modifier.of_head(index % self.layer.heads) for modifier in self.layer.modifiers]
        for block, *weights in self._moments(self.queries[one], self.keys[one], modifiers):
            yield RowMetrics(block, *(weight[0] for weight in weights))

    def _moments(self, queries: Array, keys: Array, modifiers: Sequence[ScoreModifier]) -> Iterator[RowMetrics]:
        for block in self.maps.blocks():
            with quiet():
                F, bend = bent_softmax(queries, keys, block, modifiers=modifiers)
            first = F if bend is None else F * bend.slope
            yield RowMetrics(block, F, first, first if bend is None else first * bend.slope)

    def per_head(self, of_samples: Array) -> Array:
        """(k*heads, ...) summed over the samples: (heads, ...)."""
        total: Array = of_samples.reshape(self.k, self.layer.heads, *of_samples.shape[1:]).sum(axis=0)
        return total

    def per_group(self, of_heads: Array) -> Array:
        """(heads, ...) summed over the heads that share a key head: (kv_heads, ...)."""
        groups = of_heads.reshape(self.layer.kv_heads, self.layer.group, *of_heads.shape[1:])
        total: Array = groups.sum(axis=1)
        return total

    def for_heads(self, of_tokens: Array) -> Array:
        """(k, ...) repeated for the heads: (k*heads, ...)."""
        return np.repeat(of_tokens, self.layer.heads, axis=0)


class LayerOutcome(NamedTuple):
    """W_Q (d, heads*m) and W_K (d, kv_heads*m), each with what it keeps, and what the method chose for itself."""

    Q: Pruned
    K: Pruned
    chosen: Mapping[str, float]


def by_heads(Q: Pruned, K: Pruned, **chosen: float) -> LayerOutcome:
    """Join blocks (heads, d, m)."""
    Q, K = (Pruned(join_heads(np.where(kept, weight, 0.0)), join_heads(kept)) for weight, kept in (Q, K))
    return LayerOutcome(Q, K, chosen)


def by_masks(data: Calibration, masks: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> LayerOutcome:
    """Keep the weights in masks (heads, d, m) as they are."""
    return by_heads(Pruned(data.W_Q, masks[0]), Pruned(data.W_K, masks[1]))


def by_outputs(Q: PrunedMatrix, K: PrunedMatrix, **chosen: float) -> LayerOutcome:
    """Transpose matrices (out, in)."""
    return LayerOutcome(Pruned(Q.weight.T, Q.kept.T), Pruned(K.weight.T, K.kept.T), chosen)
