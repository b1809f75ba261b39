"""The paper's functions of one fused weight: attention, loss, closed-form gradient, Hessian-vector product.

Each is one evaluation of the `Objective` of its problem, without keeping F(1).
"""

from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.instance.memory import require_memory
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Fused, Problem
from attnprune_verify.model.objective import Objective
from attnprune_verify.model.softmax import largest_norm, quiet, shift_is_needed, softmax_block
from attnprune_verify.values import as_count, as_lam


def causal_mask(n: SupportsIndex) -> NDArray[np.float64]:
    """The causal attention mask: 1 where i >= j, else 0 (def:mask).

    Parameters
    ----------
    n : int
        Number of tokens, >= 1.

    Returns
    -------
    (n, n) array

    Raises
    ------
    InvalidInstance
        If n is not an integer >= 1, or the mask does not fit into the memory budget.

    Examples
    --------
    >>> causal_mask(3)
    array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]])
    """
    size = as_count("n", n, least=1)
    require_memory(f"a mask with n = {size!r:.30}", 9 * size**2)  # float64, and bool before it
    return np.tri(size)


def attention(X: ArrayLike, W: ArrayLike, mask: MaskLike = None) -> Array:
    """Softmax attention of the fused weight (def:attn_matrix; with a mask, def:attn_prun_causal).

    ::

        F[i, j] = exp(A[i, j]) / sum_k exp(A[i, k]),   A = X W X^T,   j and k over the allowed positions

    There is no 1/sqrt(d): the paper's definition has none. The row maximum is subtracted first, which leaves F
    unchanged and keeps exp from overflowing.

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    mask : None, "causal" or (n, n) array of 0 and 1

    Returns
    -------
    (n, n) or (k, n, n) array
        Rows sum to 1; entries are 0 where the mask forbids.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> attention(np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]]))
    array([[0.33333333, 0.66666667],
           [0.66666667, 0.33333333]])
    """
    problem, _ = Fused.at_the_door(X, W, mask)
    F = attention_matrices(problem)
    return F if np.ndim(X) == 3 else F[0]


def loss(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> float:
    """The pruning loss (def:loss_func; def:attn_prun, with a mask def:attn_prun_causal).

    ::

        L(M) = (1/k) sum_j 1/2 ||F_j(M) - F_j(1)||_F^2 + (lam/2) ||M||_F^2,   F_j(M) = softmax(X_j (M * W) X_j^T)

    Parameters
    ----------
    M : (d, d) array
        Pruning mask; any real entries, 1 = kept, 0 = pruned.
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1

    Returns
    -------
    float
        At most n + (lam/2) ||M||_F^2.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> X, W = np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]])
    >>> loss(np.ones((2, 2)), X, W)  # nothing pruned
    0.0
    >>> round(loss(np.zeros((2, 2)), X, W), 12)  # 1/2 * 4 * (1/6)^2
    0.055555555556
    """
    problem, masks = Fused.at_the_door(X, W, mask, M=M)
    return Objective.of(problem, as_lam(lam), keep_dense=False).loss_at(masks)


def gradient(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> Array:
    """The closed-form gradient of `loss` in M (thm:mat_view_l).

    ::

        dL/dM = W * (X^T p X) + lam M,   p = c * F(M) - diag((c * F(M)) 1) F(M),   c = F(M) - F(1)

    Parameters
    ----------
    M : (d, d) array
        Pruning mask; any real entries, 1 = kept, 0 = pruned.
    X : (n, d) or (k, n, d) array
        Tokens, or a batch of k samples over which the attention term is averaged.
    W : (d, d) array
        Fused weight W_Q W_K^T.
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1
        Attention mask: 1 where row i may see column j; None allows every position.

    Returns
    -------
    (d, d) array
        float32 if every array is, else float64.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> X, W = np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]])
    >>> gradient(np.zeros((2, 2)), X, W).round(8)
    array([[ 0.        , -0.05776227],
           [-0.05776227,  0.        ]])
    """
    return loss_and_gradient(M, X, W, lam, mask)[1]


def loss_and_gradient(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None
) -> tuple[float, Array]:
    """L(M) and W * (X^T p X) + lam M for little more than the cost of one (def:loss_func, thm:mat_view_l).

    For many masks on the same X, W and mask use `Objective`, which keeps F(1).

    Parameters
    ----------
    M : (d, d) array
        Pruning mask; any real entries, 1 = kept, 0 = pruned.
    X : (n, d) or (k, n, d) array
        Tokens, or a batch of k samples over which the attention term is averaged.
    W : (d, d) array
        Fused weight W_Q W_K^T.
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1
        Attention mask: 1 where row i may see column j; None allows every position.

    Returns
    -------
    float, (d, d) array
        The results of `loss` and of `gradient`.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> value, grad = loss_and_gradient(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5)
    >>> value, grad.tolist()
    (1.0, [[0.5, 0.5], [0.5, 0.5]])
    """
    problem, masks = Fused.at_the_door(X, W, mask, M=M)
    value, (G,) = Objective.of(problem, as_lam(lam), keep_dense=False).loss_and_gradient_at(masks)
    return value, G


def hessian_vector_product(
    M: ArrayLike, V: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None
) -> Array:
    """The derivative of `gradient` at M in direction V, without forming the d^2 x d^2 Hessian.

    ::

        df~ = f~ * (ds - <f~, ds>),   dp = dc * f~ + c * df~ - (<dc, f~> + <c, df~>) f~ - <c, f~> df~,   row by row
        H V = W * (X^T dp X) + lam V,   with ds = X (V * W) X^T and dc = df~          (ours: thm:mat_view_l derived)

    Parameters
    ----------
    M, V : (d, d) arrays
        The point (1 = kept, 0 = pruned) and the direction; any real entries.
    X : (n, d) or (k, n, d) array
        Tokens, or a batch of k samples over which the attention term is averaged.
    W : (d, d) array
        Fused weight W_Q W_K^T.
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1
        Attention mask: 1 where row i may see column j; None allows every position.

    Returns
    -------
    (d, d) array

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, lam < 0, or a logit or the result
        overflows.

    Examples
    --------
    >>> import numpy as np
    >>> X, W = np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> hessian_vector_product(np.ones((2, 2)), np.eye(2), X, W, lam=0.25).round(6)
    array([[0.272047, 0.022047],
           [0.022047, 0.272047]])
    """
    problem, (M, V) = Fused.at_the_door(X, W, mask, M=M, V=V)
    product: Array = Objective.of(problem, as_lam(lam), keep_dense=False).hessian_vector_product(M, V)
    return product


def relative_error(M: ArrayLike, X: ArrayLike, W: ArrayLike, mask: MaskLike = None) -> float:
    """||F(M) - F(1)||_F^2 / ||F(1)||_F^2, the measure of Section 6.1; averaged over a batch.

    Parameters
    ----------
    M : (d, d) array
        Pruning mask; any real entries, 1 = kept, 0 = pruned.
    X : (n, d) or (k, n, d) array
        Tokens, or a batch of k samples over which the attention term is averaged.
    W : (d, d) array
        Fused weight W_Q W_K^T.
    mask : None, "causal" or (n, n) array of 0 and 1
        Attention mask: 1 where row i may see column j; None allows every position.

    Returns
    -------
    float
        Between 0 and 2 n / ||F(1)||_F^2.

    Raises
    ------
    InvalidInstance
        If shapes disagree, an input is not finite and real, a mask row is empty, or a logit overflows.

    Examples
    --------
    >>> import numpy as np
    >>> round(relative_error(np.zeros((2, 2)), np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]])), 12)
    0.1
    """
    problem, masks = Fused.at_the_door(X, W, mask, M=M)
    error, size = Objective.of(problem, 0.0, keep_dense=False).errors_at(masks)
    return float((error / size).mean())


@quiet()
def attention_matrices(problem: Problem) -> Array:
    """F(1) of every sample and head, (k*heads, n, n)."""
    sides = problem.sides(list(problem.weights.values()))
    F = np.zeros((problem.count, problem.n, problem.n), problem.dtype)
    shift = shift_is_needed(largest_norm(sides[0]), largest_norm(sides[1]), problem.dtype, problem.modifiers)
    for block in problem.blocks():
        F[:, block.rows, block.columns] = softmax_block(*sides, block, shift, modifiers=problem.modifiers)
    return F
