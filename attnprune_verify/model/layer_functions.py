"""The functions of a real layer, and of one head with separate masks on W_Q and W_K (eq:new_loss).

As printed, eq:new_loss has no lam in front of its regulariser although the experiments set one; the repaired form
(lam/2)(||M_Q||_F^2 + ||M_K||_F^2) is meant here. With lam = 1 it is the printed one. Head by head the steps are those
of the fused weight, with c, p as in `attnprune_verify.model.objective`::

    L = (1/k) sum_samples sum_h 1/2 ||F~^h - F^h||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)
    dQr^h = scale p^h Kr^g,    dKr^g = scale sum_{h in g} (p^h)^T Qr^h          (Qr, Kr: rotated queries and keys)
    dL/dM_Q^h = W_Q^h * (X^T dQ^h) + lam M_Q^h,    dL/dM_K^g = W_K^g * (X^T dK^g) + lam M_K^g     (dQ, dK: turned back)
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.functions import attention_matrices
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.objective import Objective
from attnprune_verify.model.softmax import softmax_block
from attnprune_verify.values import as_lam


def factored_loss(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> float:
    """The pruning loss with separate masks on the query and key weights (eq:new_loss, repaired).

    ::

        L(M_Q, M_K) = (1/k) sum_j 1/2 ||F_j(M_Q, M_K) - F_j(1, 1)||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)
        F_j(M_Q, M_K) = softmax(X_j (M_Q * W_Q) (M_K * W_K)^T X_j^T)

    Parameters
    ----------
    M_Q, M_K : (d, m) arrays
    X : (n, d) or (k, n, d) array
    W_Q, W_K : (d, m) arrays
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1

    Returns
    -------
    float

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> factored_loss(ones, ones, np.eye(2), ones, ones, lam=0.5)  # nothing pruned: only the regulariser
    1.0
    """
    problem, masks = Heads.of_pair(X, W_Q, W_K, mask, M_Q=M_Q, M_K=M_K)
    return Objective.of(problem, as_lam(lam), keep_dense=False).loss_at(masks)


def factored_gradient(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
) -> tuple[Array, Array]:
    """The gradient of `factored_loss` in M_Q and M_K (ours: the chain rule through thm:mat_view_l).

    ::

        dL/dM_Q = W_Q * (X^T p   X (M_K * W_K)) + lam M_Q
        dL/dM_K = W_K * (X^T p^T X (M_Q * W_Q)) + lam M_K

    Parameters
    ----------
    M_Q, M_K : (d, m) arrays
    X : (n, d) or (k, n, d) array
    W_Q, W_K : (d, m) arrays
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1

    Returns
    -------
    (d, m) array, (d, m) array

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((2, 1))
    >>> grad_Q, grad_K = factored_gradient(0 * ones, ones, np.eye(2), ones, np.array([[1.0], [-1.0]]))
    >>> grad_Q.round(6).tolist(), grad_K.tolist()
    ([[-0.380797], [-0.380797]], [[0.0], [0.0]])
    """
    problem, masks = Heads.of_pair(X, W_Q, W_K, mask, M_Q=M_Q, M_K=M_K)
    grad_Q, grad_K = Objective.of(problem, as_lam(lam), keep_dense=False).loss_and_gradient_at(masks)[1]
    return grad_Q, grad_K


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
    problem, _ = Heads.at_the_door(layer, X)
    F = attention_matrices(problem).reshape(problem.k, problem.heads, problem.n, problem.n)
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
    problem, masks = Heads.at_the_door(layer, X, M_Q=M_Q, M_K=M_K)
    return Objective.of(problem, as_lam(lam), keep_dense=False).loss_at(masks)


def layer_gradient(
    layer: AttentionLayer, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0
) -> tuple[Array, Array]:
    """The gradient of `layer_loss` in M_Q and M_K (ours: the chain rule through thm:mat_view_l).

    Without RoPE, for head h of group g::

        dL/dM_Q^h = scale W_Q^h * (X^T p^h (X (M_K * W_K)^g + 1 b_K^g)) + lam M_Q^h
        dL/dM_K^g = scale W_K^g * (sum_{h in g} X^T (p^h)^T (X (M_Q * W_Q)^h + 1 b_Q^h)) + lam M_K^g

    Parameters
    ----------
    layer : AttentionLayer
    M_Q, M_K : (d, heads*m) and (d, kv_heads*m) arrays
        Pruning masks; any real entries.
    X : (n, d) or (k, n, d) array
    lam : float
        Regularisation strength, >= 0. As printed, eq:new_loss has 1 here.

    Returns
    -------
    (d, heads*m) array, (d, kv_heads*m) array

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer([[1.0]], [[1.0]], scale=1.0)
    >>> grad_Q, grad_K = layer_gradient(layer, [[0.0]], [[1.0]], [[0.0], [1.0]])
    >>> grad_Q.round(6).tolist(), grad_K.tolist()
    ([[-0.115529]], [[0.0]])
    """
    problem, masks = Heads.at_the_door(layer, X, M_Q=M_Q, M_K=M_K)
    grad_Q, grad_K = Objective.of(problem, as_lam(lam), keep_dense=False).loss_and_gradient_at(masks)[1]
    return grad_Q, grad_K


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
    problem, masks = Heads.at_the_door(layer, X, M_Q=M_Q, M_K=M_K, V_Q=V_Q, V_K=V_K)
    objective = Objective.of(problem, as_lam(lam), keep_dense=False)
    along_Q, along_K = objective.hessian_vector_product(masks[:2], masks[2:])
    return along_Q, along_K


def layer_relative_error(dense: AttentionLayer, pruned: AttentionLayer, X: ArrayLike) -> Array:
    """Relative error of the attention of each head of `pruned` against `dense` on the tokens X.

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
    problem, other = (Heads.at_the_door(layer, X)[0] for layer in (dense, pruned))
    error, size = np.zeros((2, problem.count))
    for F, changed in _matched_rows(problem, other):
        changed -= F
        error += np.einsum("bij,bij->b", changed, changed)
        size += np.einsum("bij,bij->b", F, F)
    relative: Array = error.reshape(problem.k, -1).sum(axis=0) / size.reshape(problem.k, -1).sum(axis=0)
    return relative


def _matched_rows(problem: Heads, other: Heads) -> Iterator[tuple[Array, Array]]:
    """F of both, by blocks of rows where one mask serves both: nothing of size n x n is kept then."""
    if problem.visible != other.visible:
        yield attention_matrices(problem), attention_matrices(other)
        return
    sides, changed = (each.sides(list(each.weights.values())) for each in (problem, other))
    for block in problem.blocks():
        F = softmax_block(*sides, block, modifiers=problem.modifiers)
        yield F, softmax_block(*changed, block, modifiers=other.modifiers)
