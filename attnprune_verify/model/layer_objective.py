"""The loss of pruning a real layer by masks M_Q and M_K, its gradients and Hessian-vector products (eq:new_loss).

Head by head the steps are those of the fused weight, with c, p as in `attnprune_verify.model.objective`::

    L = (1/k) sum_samples sum_h 1/2 ||F~^h - F^h||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)
    dQr^h = scale p^h Kr^g,    dKr^g = scale sum_{h in g} (p^h)^T Qr^h          (Qr, Kr: rotated queries and keys)
    dL/dM_Q^h = W_Q^h * (X^T dQ^h) + lam M_Q^h,    dL/dM_K^g = W_K^g * (X^T dK^g) + lam M_K^g     (dQ, dK: turned back)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, Mask, as_lam, as_reals, check_shapes
from attnprune_verify.model.attention import softmax_block
from attnprune_verify.model.layer import AttentionLayer, as_layer
from attnprune_verify.model.objective import rows_of_p
from attnprune_verify.model.projections import Projections

__all__ = [
    "layer_attention",
    "layer_gradient",
    "layer_hessian_vector_product",
    "layer_loss",
    "layer_relative_error",
]


def layer_attention(layer: AttentionLayer, X: ArrayLike) -> Array:
    """The attention matrix of every head (Section 6.2, with the heads, scale and positions of a real layer).

    ::

        F^h = softmax(scale (q R)^h ((k R)^g)^T) over the allowed positions

    Parameters
    ----------
    layer : AttentionLayer
    X : (n, d) or (k, n, d) array

    Returns
    -------
    (heads, n, n) or (k, heads, n, n) array
        Rows sum to 1; entries are 0 where the mask forbids.

    Raises
    ------
    InvalidInstance
        If X does not fit the layer, is not finite and real, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer([[1.0, 0.0]], [[1.0, 0.0]], heads=2, scale=1.0)
    >>> layer_attention(layer, [[0.0], [1.0]]).round(4).tolist()
    [[[0.5, 0.5], [0.2689, 0.7311]], [[0.5, 0.5], [0.5, 0.5]]]
    """
    maps = Projections(layer, X)
    F = _attention(maps, maps.queries(layer.W_Q), maps.keys(layer.W_K))
    return F if np.ndim(X) == 3 else F[0]


def layer_loss(layer: AttentionLayer, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0) -> float:
    """The pruning loss of a layer, averaged over the samples and summed over the heads (eq:new_loss, repaired).

    ::

        L = (1/k) sum_j sum_h 1/2 ||F_j^h(M_Q, M_K) - F_j^h(1, 1)||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)

    Parameters
    ----------
    layer : AttentionLayer
    M_Q, M_K : (d, heads*m) and (d, kv_heads*m) arrays
        Pruning masks; any real entries.
    X : (n, d) or (k, n, d) array
    lam : float
        Regularisation strength, >= 0. As printed, eq:new_loss has 1 here.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer([[1.0, 0.0]], [[1.0, 0.0]], heads=2, scale=1.0)
    >>> ones = np.ones((1, 2))
    >>> layer_loss(layer, ones, ones, [[0.0], [1.0]], lam=0.5)  # nothing pruned: only the regulariser
    1.0
    """
    at = _Point(layer, M_Q, M_K, X, lam)
    total = 0.0
    for block in at.maps.blocks():
        c = softmax_block(at.queries, at.keys, block) - softmax_block(at.dense_queries, at.dense_keys, block)
        total += float(np.vdot(c, c))
    sizes = float(np.vdot(at.M_Q, at.M_Q)) + float(np.vdot(at.M_K, at.M_K))
    return float(total / (2 * at.maps.k) + 0.5 * at.lam * sizes)


def layer_gradient(
    layer: AttentionLayer, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0
) -> tuple[Array, Array]:
    """The gradient of `layer_loss` in M_Q and M_K (ours: the chain rule through thm:mat_view_l).

    Without RoPE, for head h of group g::

        dL/dM_Q^h = scale W_Q^h * (X^T p^h (X (M_K * W_K)^g + 1 b_K^g)) + lam M_Q^h
        dL/dM_K^g = scale W_K^g * (sum_{h in g} X^T (p^h)^T (X (M_Q * W_Q)^h + 1 b_Q^h)) + lam M_K^g

    Parameters, errors: as `layer_loss`.

    Returns
    -------
    (d, heads*m) array, (d, kv_heads*m) array

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer([[1.0]], [[1.0]], scale=1.0)
    >>> grad_Q, grad_K = layer_gradient(layer, [[0.0]], [[1.0]], [[0.0], [1.0]])
    >>> grad_Q.round(6).tolist(), grad_K.tolist()
    ([[-0.115529]], [[0.0]])
    """
    at = _Point(layer, M_Q, M_K, X, lam)
    d_queries, d_keys = np.empty_like(at.queries), np.zeros_like(at.keys)
    for block in at.maps.blocks():
        F = softmax_block(at.queries, at.keys, block)
        p = rows_of_p(F, F - softmax_block(at.dense_queries, at.dense_keys, block))
        d_queries[:, block.rows] = p @ at.keys[:, block.columns]
        d_keys[:, block.columns] += p.swapaxes(-1, -2) @ at.queries[:, block.rows]
    return at.pull_back(d_queries, d_keys, at.M_Q, at.M_K)


def layer_hessian_vector_product(
    layer: AttentionLayer,
    M_Q: ArrayLike,
    M_K: ArrayLike,
    V_Q: ArrayLike,
    V_K: ArrayLike,
    X: ArrayLike,
    lam: float = 0.0,
) -> tuple[Array, Array]:
    """The derivative of `layer_gradient` at (M_Q, M_K) in the direction (V_Q, V_K).

    With dots for the derivatives of the rotated queries and keys::

        dS = scale (Qr. Kr^T + Qr Kr.^T),  dF = F * (dS - <F, dS>),  dp as in `hessian_vector_product`
        derivative of dQr: scale (dp Kr + p Kr.),     of dKr: scale sum_h (dp^T Qr + p^T Qr.)

    Parameters
    ----------
    layer, M_Q, M_K, X, lam
        As in `layer_loss`.
    V_Q, V_K : (d, heads*m) and (d, kv_heads*m) arrays

    Returns
    -------
    (d, heads*m) array, (d, kv_heads*m) array

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer([[1.0]], [[1.0]], scale=1.0)
    >>> along_Q, along_K = layer_hessian_vector_product(layer, [[1.0]], [[1.0]], [[1.0]], [[0.0]], [[0.0], [1.0]])
    >>> along_Q.round(6).tolist(), along_K.round(6).tolist()
    ([[0.077313]], [[0.077313]])
    """
    at = _Point(layer, M_Q, M_K, X, lam, V_Q=V_Q, V_K=V_K)
    moved_queries = at.maps.queries(at.V_Q * at.W_Q, bias=False)
    moved_keys = at.maps.keys(at.V_K * at.W_K, bias=False)
    d_queries, d_keys = np.empty_like(at.queries), np.zeros_like(at.keys)
    for block in at.maps.blocks():
        queries, keys = at.queries[:, block.rows], at.keys[:, block.columns]
        F = softmax_block(at.queries, at.keys, block)
        c = F - softmax_block(at.dense_queries, at.dense_keys, block)
        dS = moved_queries[:, block.rows] @ keys.swapaxes(-1, -2)
        dS += queries @ moved_keys[:, block.columns].swapaxes(-1, -2)
        dF = F * (dS - _row_dot(F, dS))
        dp = (F + c - _row_dot(c, F)) * dF
        dp -= _row_dot(F + c, dF) * F
        p = rows_of_p(F, c)
        d_queries[:, block.rows] = dp @ keys + p @ moved_keys[:, block.columns]
        d_keys[:, block.columns] += dp.swapaxes(-1, -2) @ queries
        d_keys[:, block.columns] += p.swapaxes(-1, -2) @ moved_queries[:, block.rows]
    return at.pull_back(d_queries, d_keys, at.V_Q, at.V_K)


def layer_relative_error(dense: AttentionLayer, pruned: AttentionLayer, X: ArrayLike) -> Array:
    """How far each head of `pruned` is from `dense` on the tokens X.

    ::

        error[h] = sum_samples ||F~^h - F^h||_F^2 / sum_samples ||F^h||_F^2

    Parameters
    ----------
    dense, pruned : AttentionLayer
        Of one number of heads; each is evaluated with its own mask, scale and positions.
    X : (n, d) or (k, n, d) array

    Returns
    -------
    (heads,) array

    Raises
    ------
    InvalidInstance
        If the numbers of heads differ, or X does not fit one of the layers.

    Examples
    --------
    >>> layer = AttentionLayer([[1.0]], [[1.0]], scale=1.0)
    >>> layer_relative_error(layer, layer.with_weights([[0.0]], [[0.0]]), [[0.0], [1.0]]).round(6)
    array([0.096475])
    """
    if as_layer(dense).heads != as_layer(pruned).heads:
        raise InvalidInstance(f"both layers must have as many heads; got {dense.heads} and {pruned.heads}")
    maps, others = Projections(dense, X), Projections(pruned, X)
    queries, keys = maps.queries(dense.W_Q), maps.keys(dense.W_K)
    other_queries, other_keys = others.queries(pruned.W_Q), others.keys(pruned.W_K)
    error, size = np.zeros(len(queries)), np.zeros(len(queries))
    if _same_mask(maps.mask, others.mask):  # by blocks of rows: nothing of size n x n is kept
        for block in maps.blocks():
            F = softmax_block(queries, keys, block)
            c = softmax_block(other_queries, other_keys, block) - F
            error += np.einsum("bij,bij->b", c, c)
            size += np.einsum("bij,bij->b", F, F)
    else:
        F = _attention(maps, queries, keys)
        c = _attention(others, other_queries, other_keys) - F
        error, size = (np.einsum("khij,khij->kh", A, A).ravel() for A in (c, F))
    relative: Array = error.reshape(maps.k, -1).sum(axis=0) / size.reshape(maps.k, -1).sum(axis=0)
    return relative


def _same_mask(mask: Mask, other: Mask) -> bool:
    if isinstance(mask, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(mask, other)
    return mask is other or (isinstance(mask, str) and isinstance(other, str))


class _Point:
    """The arguments, validated and in one dtype, with the dense and the masked queries and keys."""

    def __init__(
        self,
        layer: AttentionLayer,
        M_Q: ArrayLike,
        M_K: ArrayLike,
        X: ArrayLike,
        lam: float,
        V_Q: ArrayLike | None = None,
        V_K: ArrayLike | None = None,
    ) -> None:
        named: dict[str, object] = {"W_Q": as_layer(layer).W_Q, "W_K": layer.W_K, "X": X, "M_Q": M_Q, "M_K": M_K}
        if V_Q is not None or V_K is not None:
            named |= {"V_Q": V_Q, "V_K": V_K}
        arrays = dict(zip(named, as_reals(**named), strict=True))
        check_shapes(_FORMS, arrays)
        self.lam = as_lam(lam)
        self.W_Q, self.W_K, self.M_Q, self.M_K = (arrays[name] for name in ("W_Q", "W_K", "M_Q", "M_K"))
        self.V_Q, self.V_K = arrays.get("V_Q", self.M_Q), arrays.get("V_K", self.M_K)
        self.maps = Projections(layer, arrays["X"])
        self.dense_queries, self.dense_keys = self.maps.queries(self.W_Q), self.maps.keys(self.W_K)
        self.queries = self.maps.queries(self.M_Q * self.W_Q)
        self.keys = self.maps.keys(self.M_K * self.W_K)

    def pull_back(self, d_queries: Array, d_keys: Array, of_Q: Array, of_K: Array) -> tuple[Array, Array]:
        """Averaged over the batch, times W, plus lam times the argument of the derivative's linear part."""
        k = self.maps.k
        Q = self.W_Q * (self.maps.pull_back_queries(d_queries) / k) + self.lam * of_Q
        K = self.W_K * (self.maps.pull_back_keys(d_keys) / k) + self.lam * of_K
        if not (np.isfinite(Q).all() and np.isfinite(K).all()):
            raise InvalidInstance(f"the gradient must be finite in {Q.dtype}; it overflows")
        return Q, K


_Q, _K = ("d", "heads*m"), ("d", "kv_heads*m")
_FORMS = {"W_Q": _Q, "W_K": _K, "X": ("n", "d"), "M_Q": _Q, "M_K": _K, "V_Q": _Q, "V_K": _K}


def _attention(maps: Projections, queries: Array, keys: Array) -> Array:
    F = np.zeros((maps.k * maps.layer.heads, maps.n, maps.n), dtype=queries.dtype)
    for block in maps.blocks():
        F[:, block.rows, block.columns] = softmax_block(queries, keys, block)
    return F.reshape(maps.k, maps.layer.heads, maps.n, maps.n)


def _row_dot(a: Array, b: Array) -> Array:
    dots: Array = np.einsum("kij,kij->ki", a, b)[..., np.newaxis]
    return dots
