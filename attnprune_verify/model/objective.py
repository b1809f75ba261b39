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
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.instance.memory import estimate_memory, require_memory
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.validate import Array, all_finite, as_real, check_shapes
from attnprune_verify.model.kernel import Logits, finish, logits_of
from attnprune_verify.model.maps import Fused, Heads, Problem
from attnprune_verify.model.rows import Kept, Rows
from attnprune_verify.model.softmax import largest_norm, quiet
from attnprune_verify.model.threads import Crew, crew_for
from attnprune_verify.values import as_lam

_T = TypeVar("_T")

_WORTH_ASKING = 2**20
"""Numbers; problems below this size skip the check of the memory budget."""


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
        As `attention` or `layer_attention`; or if what is kept and the buffers do not fit into the memory budget
        (`instance.memory`), before they are allocated.

    Examples
    --------
    >>> import numpy as np
    >>> objective = Objective(np.eye(2), np.log([[1.0, 2.0], [2.0, 1.0]]))
    >>> objective
    <objective of W (2, 2): n=2, d=2, k=1, mask=None, lam=0.0, dtype=float64>
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

    def _set_up(self, problem: Problem, lam: float, keep_dense: bool) -> None:
        self.problem, self.lam = problem, lam
        if problem.X.size + problem.count * problem.n**2 > _WORTH_ASKING:
            _require_memory_for(problem, keep_dense)
        self._rooms: list[list[Array]] = []  # a call takes what lies here and puts it back, so that threads share none
        self._work = problem.work
        with quiet(), crew_for(self._work) as crew:
            sides = problem.sides(list(problem.weights.values()), crew=crew)
            self._key_norm = None if problem.moves_keys else largest_norm(sides[1])
            self._rows = Rows(problem, logits_of(*sides, self._key_norm, problem.modifiers))
            if keep_dense:
                self._rows.keep_dense(crew)

    def __repr__(self) -> str:
        problem = self.problem
        weights = ", ".join(f"{name} {weight.shape}" for name, weight in problem.weights.items())
        return (
            f"<objective of {weights}: n={problem.n}, d={problem.flat.shape[1]}, k={problem.k}, "
            f"mask={problem.visible.kind!r}, lam={self.lam}, dtype={problem.dtype}>"
        )

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
        """The map V -> Hessian(M) V for many directions at one M: keeps 2 k n^2 numbers a head."""
        times = self.hessian_operator_at(self._checked("M", self._several(masks)), keep_rows=keep_rows)
        return lambda directions: _alone(times(self._checked("V", self._several(directions))))

    def hessian_operator_at(
        self, masks: Sequence[Array], *, keep_rows: bool = True
    ) -> Callable[[Sequence[Array]], list[Array]]:
        """`hessian_operator` for masks and directions that are validated, as lists."""
        problem = self.problem
        with quiet(), crew_for(self._work) as crew:
            at = logits_of(*problem.sides(self._pruned(masks), crew=crew), self._key_norm, problem.modifiers)
            kept = list(self._each(crew, self._rows.kept_rows, at)) if keep_rows else None
        return lambda directions: self._hessian_times(directions, at, kept)

    def relative_error(self, *masks: ArrayLike) -> Any:
        """||F(M) - F(1)||_F^2 / ||F(1)||_F^2 (Section 6.1).

        For the fused weight the mean over the samples, a number; for a layer, per head, the sum of the numerators over
        the sum of the denominators.
        """
        error, size = self.errors_at(self._checked("M", masks))
        if self.problem.moves_keys:
            return error.sum(axis=0) / size.sum(axis=0)
        return float((error / size).mean())

    def loss_at(self, masks: Sequence[Array]) -> float:
        """`loss` for masks that are validated."""
        with quiet(), crew_for(self._work) as crew:
            at, room = self._at(masks, crew)
            total = sum(total for total, _ in self._each(crew, self._rows.loss_rows, at, False))
            self._rooms.append(room)
            return self._value(total, masks)

    def loss_and_gradient_at(self, masks: Sequence[Array]) -> tuple[float, list[Array]]:
        """`loss_and_gradient` for masks that are validated; the gradients as a list."""
        with quiet(), crew_for(self._work) as crew:
            at, room = self._at(masks, crew)
            total, d_keys = 0.0, self._key_slopes(at)
            for index, (part, columns) in enumerate(self._each(crew, self._rows.loss_rows, at, True)):
                total += part
                self._add(d_keys, index, columns)
            # rows of queries that had served their purpose made room for their slopes
            outcome = self._value(total, masks), self._finished(at.queries, d_keys, masks, crew)
            self._rooms.append(room)
            return outcome

    def errors_at(self, masks: Sequence[Array]) -> tuple[Array, Array]:
        """||F(M) - F(1)||_F^2 and ||F(1)||_F^2 for each sample and head, (k, heads), for masks that are validated."""
        both = np.zeros((2, self.problem.count))
        with quiet(), crew_for(self._work) as crew:
            at, room = self._at(masks, crew)
            for unit, parts in zip(self._rows.units, self._each(crew, self._rows.error_rows, at), strict=True):
                both[:, unit.matrices] += parts
            self._rooms.append(room)
        error, size = both.reshape(2, self.problem.k, -1)
        return error, size

    def _hessian_times(self, directions: Sequence[Array], at: Logits, kept: Sequence[list[Kept]] | None) -> list[Array]:
        with quiet(), crew_for(self._work) as crew:
            moved = Logits(*self.problem.sides(self._pruned(directions), bias=False, crew=crew), False)
            d_keys = self._key_slopes(at)
            for index, columns in enumerate(self._each(crew, self._rows.hessian_rows, at, moved, kept)):
                self._add(d_keys, index, columns)
            return self._finished(moved.queries, d_keys, directions, crew)

    def _each(self, crew: Crew, work: Callable[..., _T], *arguments: Any) -> Iterable[_T]:
        """Do `work` on each unit of rows, and yield the results in order."""
        return crew.map(partial(work, *arguments), range(len(self._rows.units)))

    def _several(self, masks: Any) -> Sequence[ArrayLike]:
        """Return the masks as a sequence: one array for the fused weight, a pair for a layer."""
        if not self.problem.moves_keys:
            return (masks,)
        if not isinstance(masks, tuple | list) or len(masks) != 2:
            raise InvalidInstance(f"a layer needs a pair of arrays, for W_Q and W_K; got {type(masks).__name__}")
        return masks

    def _checked(self, letter: str, matrices: Sequence[ArrayLike]) -> list[Array]:
        """`matrices` as masks (letter M) or directions (V) of the problem's weights."""
        problem = self.problem
        if _fit(matrices, list(problem.weights.values())):
            return list(matrices)  # type: ignore[arg-type]  # nothing to convert, nothing to complain about
        names = [name.replace("W", letter) for name in problem.weights]
        if len(matrices) != len(names):
            raise InvalidInstance(f"give {', '.join(names)}; got {len(matrices)} arrays")
        arrays = {name: as_real(name, matrix) for name, matrix in zip(names, matrices, strict=True)}
        check_shapes(problem.forms, {**problem.weights, **arrays})
        return [array.astype(problem.dtype, copy=False) for array in arrays.values()]

    def _pruned(self, masks: Sequence[Array], room: Sequence[Array] | None = None) -> list[Array]:
        weights = self.problem.weights.values()
        if room is None:
            return [M * W for M, W in zip(masks, weights, strict=True)]
        return [np.multiply(M, W, out=place) for M, W, place in zip(masks, weights, room, strict=True)]

    def _at(self, masks: Sequence[Array], crew: Crew) -> tuple[Logits, list[Array]]:
        """Return queries and keys at the masks, and their buffers, which the caller puts back after use."""
        room = self._rooms.pop() if self._rooms else self._room()
        sides = self.problem.sides(self._pruned(masks, room[:-1]), crew=crew, room=room[-1])
        return logits_of(*sides, self._key_norm, self.problem.modifiers), room

    def _room(self) -> list[Array]:
        """Places for the pruned weights and for the queries of a fused weight."""
        pruned = [np.empty(weight.shape, self.problem.dtype) for weight in self.problem.weights.values()]
        return [*pruned, np.empty(() if self.problem.moves_keys else self.problem.flat.shape, self.problem.dtype)]

    def _key_slopes(self, at: Logits) -> Array | None:
        return np.zeros_like(at.keys) if self.problem.moves_keys else None

    def _add(self, d_keys: Array | None, index: int, columns: Array | None) -> None:
        if d_keys is not None and columns is not None:
            d_keys[self._rows.units[index].matrices, self._rows.units[index].block.columns] += columns

    def _value(self, total: float, masks: Sequence[Array]) -> float:
        # where lam = 0, ||M||_F^2 may overflow: it is not used
        regular = 0.5 * self.lam * sum(float(np.vdot(M, M)) for M in masks) if self.lam else 0.0
        value = total / (2 * self.problem.k) + regular
        if not math.isfinite(value):
            names = " + ".join(f"||{name.replace('W', 'M')}||_F^2" for name in self.problem.weights)
            names = f"({names})" if len(masks) > 1 else names
            raise InvalidInstance(f"the loss must be finite in {self.problem.dtype}; lam/2 {names} overflows")
        return float(value)

    def _finished(self, d_queries: Array, d_keys: Array | None, masks: Sequence[Array], crew: Crew) -> list[Array]:
        """Return W * (the map's transpose applied to the slopes), averaged over the batch, plus lam M."""
        slopes = self.problem.pull_back(d_queries, d_keys, crew=crew)
        for slope, W, M in zip(slopes, self.problem.weights.values(), masks, strict=True):
            if not finish(slope, W, M, self.lam, self.problem.k):
                raise InvalidInstance(f"the gradient must be finite in {self.problem.dtype}; it overflows")
        return slopes


def _require_memory_for(problem: Problem, keep_dense: bool) -> None:
    """Refuse a problem whose buffers, and F(1) if it is to be kept, do not fit into the memory budget."""
    sizes: dict[str, Any] = {"n": problem.n, "d": int(problem.X.shape[-1]), "k": problem.k}
    if problem.moves_keys:
        heads, width = problem.heads, int(problem.weights["W_Q"].shape[1])
        m = width // heads
        sizes |= {"heads": heads, "kv_heads": int(problem.weights["W_K"].shape[1]) // m, "m": m}
    needed = estimate_memory("objective", **sizes, keep_dense=keep_dense, itemsize=problem.dtype.itemsize)
    said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    require_memory(f"an objective with {said}", needed, "keep_dense=False needs no n x n array" if keep_dense else "")


def _fit(matrices: Sequence[ArrayLike], weights: Sequence[Array]) -> bool:
    """Return True where `as_real` and `check_shapes` would leave the matrices unchanged."""
    if len(matrices) != len(weights):
        return False
    for matrix, weight in zip(matrices, weights, strict=True):
        if type(matrix) is not np.ndarray or matrix.dtype != weight.dtype or matrix.shape != weight.shape:
            return False
        if not all_finite(matrix):
            return False
    return True


def _alone(arrays: list[Array]) -> Any:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
