"""From the weights of a layer to its queries and keys on given tokens, and back for derivatives.

Both maps are linear up to the biases, so this file and its transposes hold everything that is special about heads,
grouped keys and rotations; what happens to the logits is the same as for the paper's fused weight.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.instance.validate import Array, Mask, as_mask, as_reals, check_shapes
from attnprune_verify.model.attention import RowBlock, product, row_blocks
from attnprune_verify.model.layer import AttentionLayer, as_layer

__all__ = ["Projections"]

_FORMS = {"X": ("n", "d"), "W_Q": ("d", "heads*m")}


class Projections:
    """The queries and keys of `layer` on the tokens X, for any weights of the layer's shapes.

    Everything of size (k, heads, n, .) is kept with the first two axes folded into one.

    Raises
    ------
    InvalidInstance
        If X does not fit the layer or is not finite and real.
    """

    def __init__(self, layer: AttentionLayer, X: ArrayLike) -> None:
        X, W_Q = as_reals(X=X, W_Q=as_layer(layer).W_Q)
        sizes = check_shapes(_FORMS, {"W_Q": W_Q, "X": X})
        self.layer = layer
        self.X = X if X.ndim == 3 else X[np.newaxis]
        self.k, self.n = self.X.shape[:2]
        self.dtype = W_Q.dtype
        self.mask: Mask = as_mask(layer.mask, sizes["n"])

    def blocks(self) -> Iterator[RowBlock]:
        """Blocks of rows of the attention matrices."""
        return row_blocks(self.k * self.layer.heads, self.n, self.mask)

    def queries(self, A_Q: Array, *, bias: bool = True) -> Array:
        """scale * (X A_Q + b_Q), turned by position; (k*heads, n, m). A direction has no bias."""
        turned = self._project(A_Q, self.layer.b_Q if bias else None, self.layer.heads)
        turned *= self.dtype.type(self.layer.scale)
        return turned.reshape(-1, *turned.shape[2:])

    def keys(self, A_K: Array, *, bias: bool = True) -> Array:
        """X A_K + b_K, turned by position, repeated for the heads of a group; (k*heads, n, m)."""
        turned = self._project(A_K, self.layer.b_K if bias else None, self.layer.kv_heads)
        return np.repeat(turned, self.layer.group, axis=1).reshape(-1, *turned.shape[2:])

    def pull_back_queries(self, d_queries: Array) -> Array:
        """The transpose of `queries`: (k*heads, n, m) -> (d, heads*m)."""
        per_head = d_queries.reshape(self.k, self.layer.heads, self.n, -1)
        return self._pull_back(per_head) * self.dtype.type(self.layer.scale)

    def pull_back_keys(self, d_keys: Array) -> Array:
        """The transpose of `keys`: the heads of a group add up; (k*heads, n, m) -> (d, kv_heads*m)."""
        per_head = d_keys.reshape(self.k, self.layer.kv_heads, self.layer.group, self.n, -1)
        return self._pull_back(per_head.sum(axis=2))

    def _project(self, A: Array, bias: Array | None, heads: int) -> Array:
        rows = product(self.X, A.astype(self.dtype, copy=False))
        if bias is not None:
            rows += bias
        per_head = rows.reshape(self.k, self.n, heads, -1).transpose(0, 2, 1, 3)
        return per_head.copy() if self.layer.rope is None else self.layer.rope.rotate(per_head)

    def _pull_back(self, d_rows: Array) -> Array:
        if self.layer.rope is not None:
            d_rows = self.layer.rope.rotate(d_rows, back=True)
        flat = d_rows.transpose(0, 2, 1, 3).reshape(self.k * self.n, -1)
        return self.X.reshape(self.k * self.n, -1).T @ flat
