"""L(M), its closed-form gradient and Hessian-vector product (def:loss_func, def:p, thm:mat_view_l).

Everything is computed by blocks of rows, so that no n x n array is needed. The steps read as in the paper::

    f = F(1),  f~ = F(M)                       (def:soft_prob_func)
    c = f~ - f                                 (def:one_unit_loss)
    p = c * f~ - diag((c * f~) 1) f~           (def:p)
    L = 1/2 ||c||_F^2 + (lam / 2) ||M||_F^2    (def:loss_func)
    G = W * (X^T p X) + lam M                  (thm:mat_view_l)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, Mask, MaskLike, as_lam, as_mask, as_real, as_reals, check_shapes
from attnprune_verify.model.attention import RowBlock, product, row_blocks, shift_is_needed, softmax_block

__all__ = [
    "Objective",
    "gradient",
    "hessian_vector_product",
    "loss",
    "loss_and_gradient",
    "relative_error",
    "rows_of_p",
]

_FORMS = {"X": ("n", "d"), "W": ("d", "d"), "M": ("d", "d"), "V": ("d", "d")}


class Objective:
    """The loss of one problem at many pruning masks: validates X, W and mask once and keeps F(1).

    Over a batch of k samples the attention term is averaged. Everything is computed in the dtype of X and W.

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1
    keep_dense : bool
        Keep F(1), k n^2 numbers, between calls (the default); False computes it again, block by block, each time.

    Raises
    ------
    InvalidInstance
        As `attention`.

    Examples
    --------
    >>> import numpy as np
    >>> objective = Objective(np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]]))
    >>> value, grad = objective.loss_and_gradient(np.zeros((2, 2)))
    >>> round(value, 6), grad.round(6).tolist()
    (0.055556, [[0.0, -0.057762], [-0.057762, 0.0]])
    """

    def __init__(
        self, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, *, keep_dense: bool = True
    ) -> None:
        X, self.W = as_reals(X=X, W=W)
        self.lam = as_lam(lam)
        sizes = check_shapes(_FORMS, {"X": X, "W": self.W})
        self.X = X if X.ndim == 3 else X[np.newaxis]
        self.mask: Mask = as_mask(mask, sizes["n"])
        self.k, self.n = self.X.shape[:2]
        self._blocks = list(row_blocks(self.k, self.n, self.mask))
        self._largest = max(self.k * math.prod(block.shape) for block in self._blocks)
        self._dense_queries = product(self.X, self.W)
        self._dense_blocks: list[Array] | None = None
        if keep_dense:
            shift = shift_is_needed(self._dense_queries, self.X)
            self._dense_blocks = [softmax_block(self._dense_queries, self.X, block, shift) for block in self._blocks]

    def loss(self, M: ArrayLike) -> float:
        """L(M) = (1/k) sum_j 1/2 ||F_j(M) - F_j(1)||_F^2 + (lam/2) ||M||_F^2 (def:loss_func)."""
        M = self._checked("M", M)
        total = 0.0
        for _, _, c in self._rows(self._queries(M)):
            total += float(np.vdot(c, c))
        return self._loss(total, M)

    def loss_and_gradient(self, M: ArrayLike) -> tuple[float, Array]:
        """L(M) and W * (X^T p X) + lam M, from one pass over the rows (thm:mat_view_l)."""
        M = self._checked("M", M)
        total = 0.0
        queries = self._queries(M)
        for block, F, c in self._rows(queries):
            total += float(np.vdot(c, c))
            pX = queries[:, block.rows]  # these rows have served their purpose; p X takes their place
            np.matmul(rows_of_p(F, c), self.X[:, block.columns], out=pX)
        return self._loss(total, M), self._pull_back(queries, M)

    def hessian_vector_product(self, M: ArrayLike, V: ArrayLike) -> Array:
        """The derivative of the gradient at M in direction V.

        With ds = X (V * W) X^T, row by row: df~ = f~ * (ds - <f~, ds>), dc = df~ and
        dp = dc * f~ + c * df~ - (<dc, f~> + <c, df~>) f~ - <c, f~> df~. The result is W * (X^T dp X) + lam V.
        """
        return self._hessian_times(self._checked("V", V), self._rows(self._queries(self._checked("M", M))))

    def hessian_operator(self, M: ArrayLike) -> Callable[[ArrayLike], Array]:
        """The map V -> Hessian(M) V for many directions at one M: keeps F(M) and c, 2 k n^2 numbers."""
        rows = [(block, F.copy(), c.copy()) for block, F, c in self._rows(self._queries(self._checked("M", M)))]
        return lambda V: self._hessian_times(self._checked("V", V), rows)

    def _hessian_times(self, V: Array, rows: Iterable[tuple[RowBlock, Array, Array]]) -> Array:
        direction = self._queries(V)
        dpX = np.empty_like(self.X)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is reported by the gradient it reaches
            for block, F, c in rows:
                ds = direction[:, block.rows] @ self.X[:, block.columns].swapaxes(-1, -2)
                sum_Fc = F + c
                ds -= _row_dot(F, ds)
                ds *= F  # now df~
                weight = _row_dot(sum_Fc, ds)
                sum_Fc -= _row_dot(c, F)
                ds *= sum_Fc
                ds -= weight * F  # now dp
                np.matmul(ds, self.X[:, block.columns], out=dpX[:, block.rows])
        return self._pull_back(dpX, V)

    def relative_error(self, M: ArrayLike) -> float:
        """||F(M) - F(1)||_F^2 / ||F(1)||_F^2, averaged over the samples (Section 6.1)."""
        M = self._checked("M", M)
        error, size = np.zeros(self.k), np.zeros(self.k)
        for _, F, c in self._rows(self._queries(M)):
            error += (c**2).sum(axis=(1, 2))
            size += ((F - c) ** 2).sum(axis=(1, 2))
        return float((error / size).mean())

    def _checked(self, name: str, matrix: ArrayLike) -> Array:
        array = as_real(name, matrix)
        check_shapes(_FORMS, {"W": self.W, name: array})
        return array.astype(self.W.dtype, copy=False)

    def _rows(self, queries: Array) -> Iterator[tuple[RowBlock, Array, Array]]:
        """Blocks of rows with f~ and c on them. The arrays live until the next block: two buffers serve them all."""
        shift = shift_is_needed(queries, self.X)
        dense_shift = self._dense_blocks is None and shift_is_needed(self._dense_queries, self.X)
        buffers = np.empty((2, self._largest), self.X.dtype)
        for index, block in enumerate(self._blocks):
            F, c = buffers[:, : self.k * math.prod(block.shape)].reshape(2, self.k, *block.shape)
            softmax_block(queries, self.X, block, shift, out=F)
            if self._dense_blocks is None:
                softmax_block(self._dense_queries, self.X, block, dense_shift, out=c)
                np.subtract(F, c, out=c)
            else:
                np.subtract(F, self._dense_blocks[index], out=c)
            yield block, F, c

    def _queries(self, M: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is reported by the logits it reaches
            return product(self.X, M * self.W)

    def _loss(self, total: float, M: Array) -> float:
        # where lam = 0, ||M||_F^2 may overflow: nobody asks for it
        value = total / (2 * self.k) + (0.5 * self.lam * float(np.vdot(M, M)) if self.lam else 0.0)
        if not math.isfinite(value):
            raise InvalidInstance(f"the loss must be finite in {M.dtype}; ||M||_F^2 overflows")
        return float(value)

    def _pull_back(self, pX: Array, M: Array) -> Array:
        """W * (X^T p X), averaged over the batch, plus lam M."""
        d = self.X.shape[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            XpX = product(self.X.reshape(-1, d).T, pX.reshape(-1, d))
            if self.k > 1:
                XpX /= self.k
            XpX *= self.W
            XpX += self.lam * M
        if not np.isfinite(XpX).all():
            raise InvalidInstance(f"the gradient must be finite in {XpX.dtype}; it overflows")
        return XpX


def rows_of_p(F: Array, c: Array) -> Array:
    """p = c * f~ - diag((c * f~) 1) f~ on a block of rows (def:p). Uses up both arguments: they are overwritten."""
    c *= F
    F *= c.sum(axis=-1, keepdims=True)
    c -= F
    return c


def _row_dot(a: Array, b: Array) -> Array:
    dots: Array = np.einsum("kij,kij->ki", a, b)[..., np.newaxis]
    return dots


def _objective(
    X: ArrayLike, W: ArrayLike, lam: float, mask: MaskLike, **matrices: ArrayLike
) -> tuple[Objective, list[Array]]:
    """Bring all arrays to one dtype, check them against each other, and evaluate without keeping F(1)."""
    names = ("X", "W", *matrices)
    arrays = as_reals(X=X, W=W, **matrices)
    check_shapes(_FORMS, dict(zip(names, arrays, strict=True)))
    return Objective(arrays[0], arrays[1], lam, mask, keep_dense=False), arrays[2:]


def loss(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> float:
    """The pruning loss (def:loss_func; def:attn_prun, with a mask def:attn_prun_causal).

    ::

        L(M) = (1/k) sum_j 1/2 ||F_j(M) - F_j(1)||_F^2 + (lam/2) ||M||_F^2,   F_j(M) = softmax(X_j (M * W) X_j^T)

    Parameters
    ----------
    M : (d, d) array
        Pruning mask; any real entries.
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
    objective, (M,) = _objective(X, W, lam, mask, M=M)
    return objective.loss(M)


def gradient(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None) -> Array:
    """The closed-form gradient of `loss` in M (thm:mat_view_l).

    ::

        dL/dM = W * (X^T p X) + lam M,   p = c * F(M) - diag((c * F(M)) 1) F(M),   c = F(M) - F(1)

    Parameters, errors: as `loss`.

    Returns
    -------
    (d, d) array

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
    Parameters, errors: as `loss` and `gradient`.

    Returns
    -------
    float, (d, d) array

    Examples
    --------
    >>> import numpy as np
    >>> value, grad = loss_and_gradient(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5)
    >>> value, grad.tolist()
    (1.0, [[0.5, 0.5], [0.5, 0.5]])
    """
    objective, (M,) = _objective(X, W, lam, mask, M=M)
    return objective.loss_and_gradient(M)


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
        The point and the direction. The rest as in `loss`.

    Returns
    -------
    (d, d) array

    Raises
    ------
    InvalidInstance
        As `loss`, or if the result overflows.

    Examples
    --------
    >>> import numpy as np
    >>> X, W = np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> hessian_vector_product(np.ones((2, 2)), np.eye(2), X, W, lam=0.25).round(6)
    array([[0.272047, 0.022047],
           [0.022047, 0.272047]])
    """
    objective, (M, V) = _objective(X, W, lam, mask, M=M, V=V)
    return objective.hessian_vector_product(M, V)


def relative_error(M: ArrayLike, X: ArrayLike, W: ArrayLike, mask: MaskLike = None) -> float:
    """||F(M) - F(1)||_F^2 / ||F(1)||_F^2, the measure of Section 6.1; averaged over a batch.

    Parameters, errors: as `loss`.

    Returns
    -------
    float
        Between 0 and 2 n / ||F(1)||_F^2.

    Examples
    --------
    >>> import numpy as np
    >>> round(relative_error(np.zeros((2, 2)), np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]])), 12)
    0.1
    """
    objective, (M,) = _objective(X, W, 0.0, mask, M=M)
    return objective.relative_error(M)
