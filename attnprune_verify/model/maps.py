"""A problem is a map from pruning masks to queries and keys, with its transpose for derivatives.

`Fused` is the paper's: the queries are X (M * W), the keys the tokens themselves. `Heads` is a layer's, with a mask for
W_Q and one for W_K; it holds all code about heads, grouped keys, biases, scale and rotations. The steps from queries
and keys to the loss are the same for both (`attnprune_verify.model.objective`).

Everything of size (k, heads, n, .) is kept with the first two axes folded into one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.mask import Mask, MaskLike, RowBlock, as_mask
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.scores import ScoreModifier
from attnprune_verify.instance.validate import Array, as_reals, check_shapes
from attnprune_verify.model.softmax import quiet
from attnprune_verify.model.threads import Crew, alone


class Problem(ABC):
    """Interface between a problem and the objective. `weights` are by name; W, W_Q, W_K have masks M, M_Q, M_K.

    Attributes
    ----------
    moves_keys : bool
        True if the keys depend on the masks.
    weights : mapping of name to array
    k, heads, n : int
        Samples, heads, tokens.
    flat : (k*n, d) array
        The tokens of all samples below each other.
    visible : Mask
    modifiers : sequence of ScoreModifier
    """

    moves_keys: ClassVar[bool]
    forms: ClassVar[Mapping[str, tuple[str, ...]]]
    X: Array
    flat: Array
    weights: Mapping[str, Array]
    k: int
    n: int
    heads: int
    visible: Mask
    modifiers: Sequence[ScoreModifier] = ()

    def _set_up(self, X: Array, weights: Mapping[str, Array], visible: Mask) -> None:
        self.X = np.ascontiguousarray(X if X.ndim == 3 else X[np.newaxis])
        self.flat = self.X.reshape(-1, self.X.shape[-1])
        self.weights, self.visible = weights, visible
        self.k, self.n = self.X.shape[:2]

    @property
    def count(self) -> int:
        """Number of attention matrices."""
        return self.k * self.heads

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Floating-point type of all computations."""
        return self.X.dtype

    def blocks(self) -> list[RowBlock]:
        """The blocks of rows that all matrices are cut into."""
        return list(self.visible.blocks(self.count, self.n))

    @property
    def work(self) -> float:
        """Estimate of a gradient's operations: the products with the tokens, and those of size n x n."""
        columns = sum(int(weight.shape[1]) for weight in self.weights.values())
        m = columns / len(self.weights) / self.heads if self.moves_keys else columns
        return 4.0 * float(self.X.size) * columns + 4.0 * float(self.count * self.n**2) * m * (1 + self.moves_keys)

    @abstractmethod
    def sides(
        self, weights: Sequence[Array], *, bias: bool = True, crew: Crew = alone, room: Array | None = None
    ) -> tuple[Array, Array]:
        """Queries and keys, (k*heads, n, m), for any weights of the problem's shapes. A direction has no bias.

        The fused weight's queries are written into `room`, (k*n, d), if it is given.
        """

    @abstractmethod
    def pull_back(self, d_queries: Array, d_keys: Array | None, *, crew: Crew = alone) -> list[Array]:
        """The transpose of `sides`: derivatives in the weights from those in queries and keys."""


class Fused(Problem):
    """Logits X (M * W) X^T of one fused weight (def:attn_prun).

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    visible : Mask
        All validated, in one dtype: by `Instance`, or by `Fused.at_the_door`.
    """

    moves_keys = False
    forms = {"X": ("n", "d"), **dict.fromkeys(("W", "M", "V"), ("d", "d"))}
    heads = 1

    def __init__(self, X: Array, W: Array, visible: Mask) -> None:
        self._set_up(X, {"W": W}, visible)

    @classmethod
    def at_the_door(
        cls, X: ArrayLike, W: ArrayLike, mask: MaskLike, **matrices: ArrayLike
    ) -> tuple[Fused, tuple[Array, ...]]:
        """Bring all arrays to one dtype and check them against each other."""
        names = ("X", "W", *matrices)
        X, W, *others = arrays = as_reals(X=X, W=W, **matrices)
        n = check_shapes(cls.forms, dict(zip(names, arrays, strict=True)))["n"]
        return cls(X, W, as_mask(mask, n)), tuple(others)

    @classmethod
    def of(cls, instance: Instance) -> Fused:
        """The problem of an instance, which is validated already."""
        return cls(instance.X, instance.W, instance.visible)

    def sides(
        self, weights: Sequence[Array], *, bias: bool = True, crew: Crew = alone, room: Array | None = None
    ) -> tuple[Array, Array]:
        queries = crew.product(self.flat, weights[0], np.empty_like(self.flat) if room is None else room)
        return queries.reshape(self.X.shape), self.X

    def pull_back(self, d_queries: Array, d_keys: Array | None, *, crew: Crew = alone) -> list[Array]:
        d = self.flat.shape[1]
        return [crew.product(self.flat.T, d_queries.reshape(-1, d), np.empty((d, d), self.flat.dtype))]


class Heads(Problem):
    """Logits of a layer's heads: scale (q R)^h ((k R)^g)^T, with a mask for W_Q and one for W_K (eq:new_loss).

    Parameters
    ----------
    layer : AttentionLayer
    X : (n, d) or (k, n, d) array
        Validated: by `LayerInstance`, or by `Heads.at_the_door`.
    """

    moves_keys = True
    forms = {
        "X": ("n", "d"),
        **dict.fromkeys(("W_Q", "M_Q", "V_Q"), ("d", "heads*m")),
        **dict.fromkeys(("W_K", "M_K", "V_K"), ("d", "kv_heads*m")),
    }

    def __init__(self, layer: AttentionLayer, X: Array) -> None:
        dtype = np.result_type(layer.W_Q, X)
        weights = {"W_Q": layer.W_Q.astype(dtype, copy=False), "W_K": layer.W_K.astype(dtype, copy=False)}
        self._set_up(X.astype(dtype, copy=False), weights, layer.visible)
        self.layer, self.heads, self.modifiers = layer, layer.heads, layer.modifiers

    @classmethod
    def at_the_door(cls, layer: AttentionLayer, X: ArrayLike, **matrices: ArrayLike) -> tuple[Heads, tuple[Array, ...]]:
        """Bring all arrays to one dtype and check them against each other and the layer."""
        names = ("X", *matrices)
        tokens, *others = arrays = as_reals(X=X, **matrices)
        weights = {"W_Q": as_layer(layer).W_Q, "W_K": layer.W_K}
        n = check_shapes(cls.forms, {**weights, **dict(zip(names, arrays, strict=True))})["n"]
        layer.visible.fits(n)
        problem = cls(layer, tokens)
        return problem, tuple(other.astype(problem.dtype, copy=False) for other in others)

    @classmethod
    def of_pair(
        cls, X: ArrayLike, W_Q: ArrayLike, W_K: ArrayLike, mask: MaskLike, **matrices: ArrayLike
    ) -> tuple[Heads, tuple[Array, ...]]:
        """The paper's factored weight: one head, scale 1, no positions."""
        names = ("X", "W_Q", "W_K", *matrices)
        tokens, query, key, *others = arrays = as_reals(X=X, W_Q=W_Q, W_K=W_K, **matrices)
        forms = {name: ("n", "d") if name == "X" else ("d", "m") for name in names}
        n = check_shapes(forms, dict(zip(names, arrays, strict=True)))["n"]
        return cls(AttentionLayer.of_pair(query, key, as_mask(mask, n)), tokens), tuple(others)

    @classmethod
    def of(cls, instance: LayerInstance) -> Heads:
        """The problem of an instance, which is validated already."""
        return cls(instance.layer, instance.X)

    def sides(
        self, weights: Sequence[Array], *, bias: bool = True, crew: Crew = alone, room: Array | None = None
    ) -> tuple[Array, Array]:
        return self.queries(weights[0], bias=bias, crew=crew), self.keys(weights[1], bias=bias, crew=crew)

    def pull_back(self, d_queries: Array, d_keys: Array | None, *, crew: Crew = alone) -> list[Array]:
        assert d_keys is not None  # for the type checker: the keys move
        return [self.pull_back_queries(d_queries, crew=crew), self.pull_back_keys(d_keys, crew=crew)]

    def queries(self, A_Q: Array, *, bias: bool = True, crew: Crew = alone) -> Array:
        """scale * (X A_Q + b_Q), turned by position; (k*heads, n, m). A direction has no bias."""
        turned = self._project(A_Q, self.layer.b_Q if bias else None, self.layer.heads, crew)
        turned *= self.dtype.type(self.layer.scale)
        return turned.reshape(-1, *turned.shape[2:])

    def keys(self, A_K: Array, *, bias: bool = True, crew: Crew = alone) -> Array:
        """X A_K + b_K, turned by position, repeated for the heads of a group; (k*heads, n, m)."""
        turned = self._project(A_K, self.layer.b_K if bias else None, self.layer.kv_heads, crew)
        if self.layer.group > 1:
            turned = np.repeat(turned, self.layer.group, axis=1)
        return turned.reshape(-1, *turned.shape[2:])

    def pull_back_queries(self, d_queries: Array, *, crew: Crew = alone) -> Array:
        """The transpose of `queries`: (k*heads, n, m) -> (d, heads*m)."""
        per_head = d_queries.reshape(self.k, self.layer.heads, self.n, -1)
        return self._pull_back(per_head, crew) * self.dtype.type(self.layer.scale)

    def pull_back_keys(self, d_keys: Array, *, crew: Crew = alone) -> Array:
        """The transpose of `keys`: the heads of a group add up; (k*heads, n, m) -> (d, kv_heads*m)."""
        per_head = d_keys.reshape(self.k, self.layer.kv_heads, self.layer.group, self.n, -1)
        return self._pull_back(per_head.sum(axis=2), crew)

    @quiet()
    def _project(self, A: Array, bias: Array | None, heads: int, crew: Crew) -> Array:
        rows = np.empty((self.k * self.n, A.shape[1]), self.dtype)
        crew.product(self.flat, A.astype(self.dtype, copy=False), rows)
        if bias is not None:
            rows += bias.astype(self.dtype, copy=False)
        per_head = rows.reshape(self.k, self.n, heads, -1).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(per_head) if self.layer.rope is None else self.layer.rope.rotate(per_head)

    @quiet()
    def _pull_back(self, d_rows: Array, crew: Crew) -> Array:
        if self.layer.rope is not None:
            d_rows = self.layer.rope.rotate(d_rows, back=True)
        flat = d_rows.transpose(0, 2, 1, 3).reshape(self.k * self.n, -1)
        return crew.product(self.flat.T, flat, np.empty((self.X.shape[-1], flat.shape[1]), self.dtype))
