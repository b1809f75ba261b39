"""The loss, its closed-form gradient and Hessian-vector product, for a fused weight or a layer (thm:mat_view_l).

Everything is computed by blocks of rows, so that no n x n array is needed. The steps read as in the paper::

    f = F(1),  f~ = F(M)                       (def:soft_prob_func)
    c = f~ - f                                 (def:one_unit_loss)
    p = c * f~ - diag((c * f~) 1) f~           (def:p)
    L = 1/2 ||c||_F^2 + (lam / 2) ||M||_F^2    (def:loss_func)
    dQ = p K,  dK = p^T Q                      for logits u(Q K^T); p * u' in place of p where scores are modified
    G = W * (map's transpose of dQ, dK) + lam M        = W * (X^T p X) + lam M for the fused weight (thm:mat_view_l)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import MaskLike, RowBlock
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.scores import Bend
from attnprune_verify.instance.validate import Array, as_real, check_shapes
from attnprune_verify.model.maps import Fused, Heads, Problem
from attnprune_verify.model.softmax import bent_softmax, largest_norm, quiet, row_dots, rows_of_p, shift_is_needed
from attnprune_verify.values import as_lam

__all__ = ["Objective"]


class Rows(NamedTuple):
    """f~ and c on a block of rows, and how the modified scores bend there. The arrays live until the next block."""

    block: RowBlock
    F: Array
    c: Array
    bend: Bend | None


class Objective:
    """The loss of one problem at many pruning masks: validates the data once and keeps F(1).

    ``Objective(X, W, lam, mask)`` is the paper's problem, with one mask M. ``Objective(layer, X, lam)`` is that of a
    layer, with masks M_Q and M_K; ``Objective(instance)`` that of an `Instance` or `LayerInstance`. Over a batch of k
    samples the attention term is averaged, over heads it is summed. Everything is computed in the dtype of the data.

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
    W : (d, d) array
    lam : float
        Regularisation strength, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1
    keep_dense : bool
        Keep F(1), k n^2 numbers a head, between calls (the default); False computes it again, block by block, each
        time.

    Raises
    ------
    InvalidInstance
        As `attention` or `layer_attention`.

    Examples
    --------
    >>> import numpy as np
    >>> objective = Objective(np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]]))
    >>> value, grad = objective.loss_and_gradient(np.zeros((2, 2)))
    >>> round(value, 6), grad.round(6).tolist()
    (0.055556, [[0.0, -0.057762], [-0.057762, 0.0]])
    >>> layer = AttentionLayer([[1.0]], [[1.0]], scale=1.0)
    >>> value, (grad_Q, grad_K) = Objective(layer, [[0.0], [1.0]]).loss_and_gradient([[0.0]], [[1.0]])
    >>> grad_Q.round(6).tolist(), grad_K.tolist()
    ([[-0.115529]], [[0.0]])
    """

    @overload
    def __init__(
        self, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, *, keep_dense: bool = True
    ) -> None: ...
    @overload
    def __init__(
        self, X: AttentionLayer, W: ArrayLike, lam: float = 0.0, mask: None = None, *, keep_dense: bool = True
    ) -> None: ...
    @overload
    def __init__(self, X: Instance | LayerInstance, *, keep_dense: bool = True) -> None: ...

    def __init__(
        self, X: Any, W: Any = None, lam: float = 0.0, mask: MaskLike = None, *, keep_dense: bool = True
    ) -> None:
        problem: Problem
        if isinstance(X, Instance | LayerInstance):
            if W is not None or mask is not None:
                raise InvalidInstance("an instance holds its weight and mask; give nothing beside it")
            problem, lam = Fused.of(X) if isinstance(X, Instance) else Heads.of(X), X.lam
        elif isinstance(X, AttentionLayer):
            if mask is not None:
                raise InvalidInstance(f"a layer holds its own mask; got mask = {mask!r:.60} beside it")
            problem = Heads.at_the_door(X, W)[0]
        else:
            problem = Fused.at_the_door(X, W, mask)[0]
        self._set_up(problem, as_lam(lam), keep_dense)

    @classmethod
    def of(cls, problem: Problem, lam: float, *, keep_dense: bool = True) -> Objective:
        """The objective of a problem whose data are validated."""
        objective = cls.__new__(cls)
        objective._set_up(problem, lam, keep_dense)
        return objective

    @quiet()
    def _set_up(self, problem: Problem, lam: float, keep_dense: bool) -> None:
        self.problem, self.lam = problem, lam
        self.blocks = problem.blocks()
        self._largest = max(problem.count * math.prod(block.shape) for block in self.blocks)
        self._spare: list[Array] = []  # a call takes what lies here and puts it back: threads never share a buffer
        self._dense = problem.sides(list(problem.weights.values()))
        self._key_norm = largest_norm(self._dense[1])
        self._kept: list[Array] | None = None
        if keep_dense:
            buffer = np.empty(self._largest, problem.dtype)
            self._kept = [F.copy() for F, _ in self._softmaxes(self._dense, buffer)]

    @property
    def X(self) -> Array:
        """The samples, (k, n, d)."""
        return self.problem.X

    @property
    def W(self) -> Array:
        """The weight of a problem with one."""
        (weight,) = self.problem.weights.values()
        return weight

    @property
    def k(self) -> int:
        """Number of samples."""
        return self.problem.k

    def loss(self, *masks: ArrayLike) -> float:
        """L(M) = (1/k) sum_j sum_h 1/2 ||F_j(M) - F_j(1)||_F^2 + (lam/2) ||M||_F^2 (def:loss_func, eq:new_loss)."""
        return self.loss_at(self._checked("M", masks))

    def loss_and_gradient(self, *masks: ArrayLike) -> tuple[float, Any]:
        """L(M) and W * (X^T p X) + lam M, from one pass over the rows (thm:mat_view_l); two gradients for a layer."""
        value, gradients = self.loss_and_gradient_at(self._checked("M", masks))
        return value, _alone(gradients)

    def hessian_vector_product(self, masks: Any, directions: Any) -> Any:
        """The derivative of the gradient at M in direction V; for a layer at (M_Q, M_K) along (V_Q, V_K).

        With ds the logits' derivative, row by row: df~ = f~ * (ds - <f~, ds>), dc = df~ and
        dp = dc * f~ + c * df~ - (<dc, f~> + <c, df~>) f~ - <c, f~> df~. For the fused weight ds = X (V * W) X^T and the
        result is W * (X^T dp X) + lam V.
        """
        return self.hessian_operator(masks, keep_rows=False)(directions)

    def hessian_operator(self, masks: Any, *, keep_rows: bool = True) -> Callable[[Any], Any]:
        """The map V -> Hessian(M) V for many directions at one M: keeps F(M) and c, 2 k n^2 numbers a head."""
        times = self.hessian_operator_at(self._checked("M", self._several(masks)), keep_rows=keep_rows)
        return lambda directions: _alone(times(self._checked("V", self._several(directions))))

    def hessian_operator_at(
        self, masks: Sequence[Array], *, keep_rows: bool = True
    ) -> Callable[[Sequence[Array]], list[Array]]:
        """`hessian_operator` for masks and directions that are validated, as lists."""
        with quiet():
            at = self._sides(masks)
            kept = [Rows(block, F.copy(), c.copy(), bend) for block, F, c, bend in self._rows(at)] if keep_rows else []
        return lambda directions: self._hessian_times(directions, at, kept if keep_rows else self._rows(at))

    def relative_error(self, *masks: ArrayLike) -> Any:
        """||F(M) - F(1)||_F^2 / ||F(1)||_F^2 (Section 6.1).

        For the fused weight the mean over the samples, a number; for a layer, per head, the sum of the numerators over
        the sum of the denominators.
        """
        error, size = self.errors_at(self._checked("M", masks))
        if self.problem.moves_keys:
            return error.sum(axis=0) / size.sum(axis=0)
        return float((error / size).mean())

    @quiet()
    def loss_at(self, masks: Sequence[Array]) -> float:
        """`loss` for masks that are validated."""
        return self._value(sum(float(np.vdot(c, c)) for _, _, c, _ in self._rows(self._sides(masks))), masks)

    @quiet()
    def loss_and_gradient_at(self, masks: Sequence[Array]) -> tuple[float, list[Array]]:
        """`loss_and_gradient` for masks that are validated; the gradients as a list."""
        queries, keys = at = self._sides(masks)
        d_queries, d_keys = self._slopes(at)
        total = 0.0
        for block, F, c, bend in self._rows(at):
            total += float(np.vdot(c, c))
            p = rows_of_p(F, c)
            if bend is not None:
                p *= bend.slope
            if d_keys is not None:
                d_keys[:, block.columns] += p.swapaxes(-1, -2) @ queries[:, block.rows]
            np.matmul(p, keys[:, block.columns], out=d_queries[:, block.rows])
        return self._value(total, masks), self._finished(d_queries, d_keys, masks)

    @quiet()
    def errors_at(self, masks: Sequence[Array]) -> tuple[Array, Array]:
        """||F(M) - F(1)||_F^2 and ||F(1)||_F^2 for each sample and head, (k, heads), for masks that are validated."""
        error, size = np.zeros((2, self.problem.count))
        for _, F, c, _ in self._rows(self._sides(masks)):
            error += np.einsum("bij,bij->b", c, c)
            F -= c
            size += np.einsum("bij,bij->b", F, F)
        return error.reshape(self.problem.k, -1), size.reshape(self.problem.k, -1)

    @quiet()
    def _hessian_times(self, directions: Sequence[Array], at: tuple[Array, Array], rows: Iterable[Rows]) -> list[Array]:
        queries, keys = at
        moved_queries, moved_keys = self._sides(directions, bias=False)
        d_queries, d_keys = np.empty_like(queries), np.zeros_like(keys) if self.problem.moves_keys else None
        for block, F, c, bend in rows:
            q, k = queries[:, block.rows], keys[:, block.columns]
            ds = moved_queries[:, block.rows] @ k.swapaxes(-1, -2)
            if d_keys is not None:
                ds += q @ moved_keys[:, block.columns].swapaxes(-1, -2)
            dp = _dp(F, c, ds if bend is None else ds * bend.slope)
            if d_keys is not None or bend is not None:
                p = rows_of_p(F, c.copy())
            if bend is not None:
                dp = dp * bend.slope + p * ds * bend.curve
                p *= bend.slope
            np.matmul(dp, k, out=d_queries[:, block.rows])
            if d_keys is not None:
                d_queries[:, block.rows] += p @ moved_keys[:, block.columns]
                d_keys[:, block.columns] += dp.swapaxes(-1, -2) @ q
                d_keys[:, block.columns] += p.swapaxes(-1, -2) @ moved_queries[:, block.rows]
        return self._finished(d_queries, d_keys, directions)

    def _several(self, masks: Any) -> Sequence[ArrayLike]:
        """One array for the fused weight; a pair for a layer."""
        if not self.problem.moves_keys:
            return (masks,)
        if not isinstance(masks, tuple | list) or len(masks) != 2:
            raise InvalidInstance(f"a layer needs a pair of arrays, for W_Q and W_K; got {type(masks).__name__}")
        return masks

    def _checked(self, letter: str, matrices: Sequence[ArrayLike]) -> list[Array]:
        """`matrices` as masks (letter M) or directions (V) of the problem's weights."""
        problem = self.problem
        if len(matrices) != len(problem.weights):
            wanted = ", ".join(name.replace("W", letter) for name in problem.weights)
            raise InvalidInstance(f"give {wanted}; got {len(matrices)} arrays")
        names = [name.replace("W", letter) for name in problem.weights]
        arrays = {name: as_real(name, matrix) for name, matrix in zip(names, matrices, strict=True)}
        check_shapes(problem.forms, {**problem.weights, **arrays})
        return [array.astype(problem.dtype, copy=False) for array in arrays.values()]

    def _sides(self, masks: Sequence[Array], *, bias: bool = True) -> tuple[Array, Array]:
        pruned = [M * W for M, W in zip(masks, self.problem.weights.values(), strict=True)]
        return self.problem.sides(pruned, bias=bias)

    def _slopes(self, at: tuple[Array, Array]) -> tuple[Array, Array | None]:
        """Where p K and p^T Q go; without the latter, rows of queries that have served their purpose make room."""
        queries, keys = at
        return (np.empty_like(queries), np.zeros_like(keys)) if self.problem.moves_keys else (queries, None)

    def _softmaxes(self, sides: tuple[Array, Array], buffer: Array) -> Iterator[tuple[Array, Bend | None]]:
        """F by blocks of rows, each written over the last."""
        queries, keys = sides
        key_norm = largest_norm(keys) if self.problem.moves_keys else self._key_norm
        shift = shift_is_needed(largest_norm(queries), key_norm, queries.dtype, self.problem.modifiers)
        for block in self.blocks:
            yield bent_softmax(queries, keys, block, shift, self._cut(buffer, block), self.problem.modifiers)

    def _cut(self, buffer: Array, block: RowBlock) -> Array:
        count = self.problem.count
        return buffer[: count * math.prod(block.shape)].reshape(count, *block.shape)

    def _rows(self, sides: tuple[Array, Array]) -> Iterator[Rows]:
        """f~ and c by blocks of rows: two buffers serve them all, and later calls."""
        buffers = self._spare.pop() if self._spare else np.empty((2, self._largest), self.problem.dtype)
        dense = (f for f, _ in self._softmaxes(self._dense, buffers[1])) if self._kept is None else iter(self._kept)
        for block, (F, bend), f in zip(self.blocks, self._softmaxes(sides, buffers[0]), dense, strict=True):
            yield Rows(block, F, np.subtract(F, f, out=self._cut(buffers[1], block)), bend)
        self._spare.append(buffers)

    def _value(self, total: float, masks: Sequence[Array]) -> float:
        # where lam = 0, ||M||_F^2 may overflow: nobody asks for it
        regular = 0.5 * self.lam * sum(float(np.vdot(M, M)) for M in masks) if self.lam else 0.0
        value = total / (2 * self.problem.k) + regular
        if not math.isfinite(value):
            names = " + ".join(f"||{name.replace('W', 'M')}||_F^2" for name in self.problem.weights)
            raise InvalidInstance(f"the loss must be finite in {self.problem.dtype}; {names} overflows")
        return float(value)

    def _finished(self, d_queries: Array, d_keys: Array | None, masks: Sequence[Array]) -> list[Array]:
        """W * (what the map's transpose makes of the slopes), averaged over the batch, plus lam M."""
        slopes = self.problem.pull_back(d_queries, d_keys)
        for slope, W, M in zip(slopes, self.problem.weights.values(), masks, strict=True):
            if self.problem.k > 1:
                slope /= self.problem.k
            slope *= W
            slope += self.lam * M
        if not all(np.isfinite(slope).all() for slope in slopes):
            raise InvalidInstance(f"the gradient must be finite in {self.problem.dtype}; it overflows")
        return slopes


def _dp(F: Array, c: Array, ds: Array) -> Array:
    """The derivative of p when the logits move by ds, which is used up: dp replaces it."""
    both = F + c
    ds -= row_dots(F, ds)
    ds *= F  # now df~
    weight = row_dots(both, ds)
    both -= row_dots(c, F)
    ds *= both
    ds -= weight * F
    return ds


def _alone(arrays: list[Array]) -> Any:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
