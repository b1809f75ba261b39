"""The arguments of bounds on one map, brought to one form: a problem, its masks, and which of them moves."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.gap.one_map import OneMap
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.memory import require_memory
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.validate import Array, as_real, as_reals
from attnprune_verify.model.maps import Fused, Heads
from attnprune_verify.oracle import inputs
from attnprune_verify.values import as_count, as_ratio

_ARRAYS = 6
"""Arrays of size (samples, heads, n, n) that are held at once."""


class Posed(NamedTuple):
    """A problem in float64, which holds the given numbers exactly."""

    source: Instance | AttentionLayer
    X: Array
    masks: tuple[Array, ...]
    place: int

    @property
    def mask(self) -> Array:
        """The mask of the map that moves, as given or all ones."""
        return self.masks[self.place]

    def divergence(self) -> OneMap:
        """The KL as a function of that mask, in float64."""
        dense = self.dense()
        weights = tuple(dense.weights.values())
        given = tuple(np.asarray(mask * weight) for mask, weight in zip(self.masks, weights, strict=True))
        return OneMap(dense, given, self.place, weights[self.place])

    def dense(self) -> Fused | Heads:
        """The problem without masks."""
        if isinstance(self.source, Instance):
            return Fused(self.X, np.asarray(self.source.W, dtype=np.float64), self.source.visible)
        return Heads(self.source, self.X)

    def at(self, mask: Array) -> inputs.OracleInput:
        """The point with this mask on the map that moves, for balls."""
        masks = tuple(mask if i == self.place else given for i, given in enumerate(self.masks))
        if isinstance(self.source, Instance):
            return inputs.fused(masks[0], self.X, self.source.W, 0.0, self.source.visible)
        return inputs.layered(self.source, masks[0], masks[1], self.X)


class Refitted(NamedTuple):
    """A problem in float64 whose weights were changed, one of which moves on its support."""

    before: Posed
    weights: tuple[Array, ...]

    @property
    def place(self) -> int:
        """The number of the weight that moves."""
        return self.before.place

    @property
    def moved(self) -> Array:
        """The moving weight as given."""
        return self.weights[self.place]

    @property
    def support(self) -> NDArray[np.bool_]:
        """The entries of the moving weight that are not 0."""
        return np.asarray(self.moved != 0)

    @property
    def dense_weight(self) -> Array:
        """The moving weight before it was changed."""
        return tuple(self.before.dense().weights.values())[self.place]

    def divergence(self) -> OneMap:
        """The KL as a function of that weight, in float64."""
        return OneMap(self.before.dense(), self.weights, self.place, self.support.astype(np.float64))

    def at(self, weight: Array | None) -> inputs.OracleInput:
        """The point with this weight as the one that moves, or the dense problem, for balls."""
        dense = self.before.at(np.ones(self.moved.shape))
        dense = dense._replace(masks=tuple(np.ones(W.shape) for W in self.weights))
        if weight is None:
            return dense
        return dense._replace(weights=tuple(weight if i == self.place else W for i, W in enumerate(self.weights)))


def posed_refit(given: Any, X: ArrayLike | None, weights: Any, on: Any) -> Refitted:
    """Check all arguments of a refit.

    Raises
    ------
    InvalidInstance
        If anything does not fit, or logits are not linear in a weight (a softcap).
    """
    if isinstance(given, Instance):
        dense, changed = {"W": given.W}, as_reals(W=weights)
    else:
        layer = as_layer(given.layer if isinstance(given, LayerInstance) else given)
        if not (isinstance(weights, tuple | list) and len(weights) == 2):
            raise InvalidInstance(f"weights of a layer must be a pair (W_Q, W_K); got {type(weights).__name__}")
        dense, changed = {"W_Q": layer.W_Q, "W_K": layer.W_K}, as_reals(W_Q=weights[0], W_K=weights[1])
    for (name, W), V in zip(dense.items(), changed, strict=True):
        if V.shape != W.shape:
            raise InvalidInstance(f"{name} of weights must have the shape of the dense one, {W.shape}; got {V.shape}")
    before = posed(given, X, changed if len(changed) == 2 else changed[0], on)
    weights = tuple(np.asarray(V, dtype=np.float64) for V in before.masks)
    return Refitted(before._replace(masks=tuple(np.ones(V.shape) for V in weights)), weights)


def posed(given: Any, X: ArrayLike | None, masks: Any, on: Any) -> Posed:
    """Check everything but the number of ones.

    Raises
    ------
    InvalidInstance
        If anything does not fit, or logits are not linear in a mask (a softcap).
    """
    if isinstance(given, Instance | LayerInstance):
        if X is not None:
            raise InvalidInstance("X stands in the instance already; leave it out")
        X = given.X
        source: Instance | AttentionLayer = given if isinstance(given, Instance) else given.layer
        if masks is None and isinstance(given, LayerInstance) and given.M_Q is not None:
            masks = (given.M_Q, given.M_K)
        elif masks is None and isinstance(given, Instance):
            masks = given.M
    elif X is None:
        raise InvalidInstance(f"a layer comes with its tokens X, an instance holds them; got {type(given).__name__}")
    else:
        source = as_layer(given)
    tokens = np.asarray(as_real("X", X), dtype=np.float64)
    if isinstance(source, Instance):
        found = _of_instance(source, tokens, masks, on)
    else:
        found = _of_layer(source, tokens, masks, on)
    heads = found.source.heads if isinstance(found.source, AttentionLayer) else 1
    k, n = (1, *tokens.shape)[-3:-1]
    require_memory(f"attention of {k * heads} matrices of {n} tokens", 8 * _ARRAYS * k * heads * n * n)
    return found


def _of_instance(source: Instance, X: Array, mask: Any, on: Any) -> Posed:
    if on not in ("Q", "W"):
        raise InvalidInstance(f"a fused weight has one map, on='W'; got {on!r:.60}")
    (M,) = (np.ones(source.W.shape),) if mask is None else as_reals(M=mask)
    M = np.asarray(source.with_M(M).M, dtype=np.float64)
    return Posed(source, X, (M,), 0)


def _of_layer(source: AttentionLayer, X: Array, masks: Any, on: Any) -> Posed:
    if source.bending:
        raise InvalidInstance(f"the {source.bending} bends the logits: they are not linear in a mask")
    side, head = on if isinstance(on, tuple) and len(on) == 2 else (on, None)
    if side not in ("Q", "K"):
        raise InvalidInstance(f"on must be 'Q', 'K', or one of them with a head, ('Q', 0); got {on!r:.60}")
    if masks is not None and not (isinstance(masks, tuple | list) and len(masks) == 2):
        raise InvalidInstance(f"masks of a layer must be a pair (M_Q, M_K); got {type(masks).__name__}")
    both = (np.ones(source.W_Q.shape), np.ones(source.W_K.shape)) if masks is None else masks
    _, pair = Heads.at_the_door(source, X, M_Q=both[0], M_K=both[1])
    place = "QK".index(side)
    given = tuple(np.asarray(mask, dtype=np.float64) for mask in pair)
    if head is None:
        return Posed(source, X, given, place)
    return Posed(*_one_head(source, X, given, place, head))


def _one_head(
    layer: AttentionLayer, X: Array, masks: tuple[Array, ...], place: int, head: Any
) -> tuple[AttentionLayer, Array, tuple[Array, ...], int]:
    """The layer of one query head with its keys, or of one key head with all its query heads."""
    most = (layer.heads, layer.kv_heads)[place]
    index = as_count("the head of on", head)
    if index >= most:
        raise InvalidInstance(f"the head of on must be below {most}; got {index}")
    queries = [index] if place == 0 else list(range(index * layer.group, (index + 1) * layer.group))
    key = queries[0] // layer.group
    m = layer.m
    columns = slice(queries[0] * m, (queries[-1] + 1) * m), slice(key * m, (key + 1) * m)

    def cut(arrays: tuple[Array | None, ...]) -> tuple[Any, ...]:
        return tuple(None if A is None else A[..., part] for A, part in zip(arrays, columns, strict=True))

    W_Q, W_K = cut((layer.W_Q, layer.W_K))
    alone = AttentionLayer(
        W_Q,
        W_K,
        *cut((layer.b_Q, layer.b_K)),
        heads=len(queries),
        kv_heads=1,
        scale=layer.scale,
        rope=layer.rope,
        mask=layer.mask,
        window=layer.window,
        alibi=None if layer.alibi is None else layer.alibi[queries],
    )
    return alone, X, cut(masks), place


def as_ones(mask: Array, given: bool, rho: float | None, keep: int | None) -> int:
    """The number of ones: of the given mask, of floor(rho size) zeros, or the number given."""
    told = [name for name, value in (("masks", given or None), ("rho", rho), ("keep", keep)) if value is not None]
    if len(told) != 1:
        raise InvalidInstance(f"exactly one of masks, rho and keep says how many ones; got {', '.join(told) or 'none'}")
    if rho is not None:
        return int(mask.size - pruned_count(as_ratio(rho), mask.size))
    if keep is not None:
        if as_count("keep", keep) > mask.size:
            raise InvalidInstance(f"keep must be at most the {mask.size} entries of the map; got {keep}")
        return int(keep)
    if not np.isin(mask, (0.0, 1.0)).all():
        raise InvalidInstance(f"the mask that is judged must be of 0 and 1; got {mask[~np.isin(mask, (0.0, 1.0))][0]}")
    return int(mask.sum())
