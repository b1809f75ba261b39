"""SparseGPT: prune column by column and repair the rest by a second-order update (Frantar, Alistarh 2023)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import check_groups, linear_layer, pruned_count, refuse_powers
from attnprune_verify.algorithms.arrays import (
    AnyArray,
    diagonal,
    eye_like,
    inverse_factor,
    is_large,
    masked,
    working_dtype,
    xp_of,
)
from attnprune_verify.algorithms.baselines.pruned import PrunedMask
from attnprune_verify.algorithms.selection import smallest, undecided
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_count, as_nonnegative, as_ratio

_EPS32 = float(np.finfo(np.float32).eps)
_EPS64 = float(np.finfo(np.float64).eps)
_CAUTION = 4.0  # two float32 programs stray by different amounts


@dataclass(frozen=True)
class SparseGPTReport:
    """The pruned layer, with the numbers that show how reliable the result is.

    Attributes
    ----------
    weight : (out, in) array
        Pruned and updated weights; float32 if both inputs were.
    pruned : (out, in) bool
        True = pruned.
    error : float
        The sum the original prints: ``sum of (w - q)^2 / (2 u_ii^2) = 1/2 tr(D H D^T)``, with D = new - old weights.
    damping : float
        The term added to the diagonal of ``H = (2/N) X^T X``: percdamp times its mean after dead columns were filled.
    condition : float
        The spectral condition number of the damped H.
    undecided : (out, in) bool
        Entries that a float32 program could have chosen otherwise, or whose scores are equal. A choice made the other
        way also changes the weights to its right, and the later choices that look at them.
    float32_stray : float
        How far a float32 program may stray on this very H, relative to the largest weight (the original is one).
    """

    weight: Array
    pruned: NDArray[np.bool_]
    error: float
    damping: float
    condition: float
    undecided: NDArray[np.bool_]
    float32_stray: float

    def __repr__(self) -> str:
        rows, columns = self.weight.shape
        zeros = np.count_nonzero(self.pruned)
        return f"<sparsegpt of {rows} x {columns}: {zeros} of {self.pruned.size} pruned, error {self.error:.6g}>"


def sparsegpt(
    weight: ArrayLike,
    X: ArrayLike,
    rho: float,
    *,
    prune_n: int = 0,
    prune_m: int = 0,
    blocksize: int = 128,
    percdamp: float = 0.01,
) -> tuple[Array, PrunedMask]:
    """SparseGPT's new weights and its mask (True = pruned; ``.kept`` is 1 where a weight stays).

    With ``H = (2/N) X^T X`` over N sequences, inputs that are zero everywhere ("dead": H_jj = 0) get H_jj = 1 and
    weight 0; ``percdamp * mean(diag H)`` is added to the diagonal; U is upper triangular with ``U^T U = H^-1``.
    Column blocks of `blocksize` go from left to right; the score of a weight is ``w^2 / U_jj^2``:

    * unstructured: in the block, as it stands before any update inside it, prune every score ``<=`` the entry at index
      ``int(size * rho)`` of the sorted scores, counted from 0. This is the original's off-by-one: one more than
      ``int(size * rho)`` is pruned, and all ties with it. Only rho = 0 prunes nothing, and rho = 1 everything;
    * N:M: when a group of `prune_m` inputs is reached, prune its `prune_n` smallest scores in each row.

    Then, column by column, ``e = (w - q) / U_jj`` with q the pruned column, and ``e U_j`` is subtracted from all
    columns to the right.

    Parameters
    ----------
    weight : (out, in) array
        As in a linear layer: rows are outputs. The paper's W_Q acts as ``X W_Q``, so its layer weight is ``W_Q.T``.
    X : (sequences, tokens, in) or (tokens, in) array
        Inputs of the layer; two dimensions are one sequence. N matters only where columns are dead.
    rho : float
        Pruning ratio in [0, 1]; ignored when ``prune_m > 0``.
    prune_n, prune_m : int
        PRUNED per group, and group size; 0 and 0 for unstructured.
    blocksize : int
        Columns whose mask is chosen together; the last block may be shorter.
    percdamp : float
        Damping, relative to the mean diagonal; >= 0.

    Returns
    -------
    (out, in) array, (out, in) bool array

    Raises
    ------
    InvalidInstance
        If arrays are empty, not finite or disagree in `in`; `rho` is outside [0, 1]; ``prune_n > prune_m``; `in` or,
        if there are several blocks, `blocksize` is no multiple of `prune_m`; or the damped H is singular.

    Examples
    --------
    >>> import numpy as np
    >>> new, pruned = sparsegpt([[1.0, 2.0]], [[1.0, 1.0], [0.0, 1.0]], 0.0)
    >>> new, pruned
    (array([[1., 2.]]), PrunedMask([[False, False]]))
    >>> new, pruned = sparsegpt([[1.0, 2.0]], [[1.0, 1.0], [0.0, 1.0]], 0.0, prune_n=1, prune_m=2, percdamp=0.0)
    >>> pruned, np.round(new, 12)
    (PrunedMask([[ True, False]]), array([[0. , 2.5]]))
    """
    report = sparsegpt_report(weight, X, rho, prune_n=prune_n, prune_m=prune_m, blocksize=blocksize, percdamp=percdamp)
    return report.weight, PrunedMask.of(report.pruned)


def sparsegpt_report(
    weight: ArrayLike,
    X: ArrayLike,
    rho: float,
    *,
    prune_n: int = 0,
    prune_m: int = 0,
    blocksize: int = 128,
    percdamp: float = 0.01,
) -> SparseGPTReport:
    """`sparsegpt` with the printed error, the damping, the condition number and the undecided entries.

    Parameters weight, X, rho, prune_n, prune_m, blocksize and percdamp mean what they mean there.

    Examples
    --------
    >>> report = sparsegpt_report([[1.0, 2.0]], [[1.0, 1.0], [0.0, 1.0]], 1.0, percdamp=0.0)
    >>> report.weight, round(report.error, 12), report.damping, round(report.condition, 3)
    (array([[0., 0.]]), 13.0, 0.0, 6.854)
    """
    weights, inputs = linear_layer(weight, X)
    n, m = check_groups(prune_n, prune_m, weights.shape[1])
    block = as_count("blocksize", blocksize, least=1)
    if m and block < weights.shape[1] and block % m:
        raise InvalidInstance(
            f"blocksize must be a multiple of prune_m when there are several blocks; got {block} and {m}"
        )
    ratio, relative_damping = as_ratio(rho), as_nonnegative("percdamp", percdamp)

    hessian, dead, damping = _damped(_hessian(inputs), relative_damping)
    condition = _condition(hessian, weights.dtype == np.float32)
    factor = _inverse_cholesky(hessian)
    stray = _float32_stray(inputs, damping, factor)
    sweep = _Sweep(weights.astype(np.float64), factor, n, m, ratio, stray)
    sweep.run(dead, block)
    return SparseGPTReport(
        sweep.weight.astype(weights.dtype), sweep.pruned, sweep.error, damping, condition, sweep.undecided, stray
    )


def sparsegpt_from_hessian(
    weight: AnyArray,
    hessian: AnyArray,
    rho: float,
    *,
    prune_n: int = 0,
    prune_m: int = 0,
    blocksize: int = 128,
    percdamp: float = 0.01,
    zeros: AnyArray | None = None,
) -> tuple[AnyArray, AnyArray]:
    """`sparsegpt` where H = (2/N) X^T X is at hand and X no longer is; H is not changed.

    Arrays of any library; computed in the precision of H, for NumPy in float64 (large weights in that of H too). What
    is True in `zeros` is pruned first, and always.

    Raises
    ------
    InvalidInstance
        If the damped H is not positive definite.
    """
    xp, dtype = xp_of(weight, hessian), working_dtype(hessian)
    damped, dead, _ = _damped(xp.astype(hessian, dtype, copy=False), percdamp)
    try:
        factor = _inverse_cholesky(damped)
    except (np.linalg.LinAlgError, RuntimeError) as error:  # torch raises a RuntimeError
        raise InvalidInstance(
            f"the damped Hessian must be positive definite; percdamp = {percdamp} is too small"
        ) from (error)
    if is_large(weight):
        dtype = xp.float32
    work = xp.asarray(weight, dtype=dtype, copy=True)
    sweep = _Sweep(work, xp.astype(factor, dtype, copy=False), prune_n, prune_m, rho, None)
    sweep.zeros = zeros
    sweep.run(dead, blocksize)
    return xp.astype(sweep.weight, weight.dtype, copy=False), sweep.pruned


class _Sweep:
    """The pass from left to right, with its state."""

    def __init__(self, weight: AnyArray, factor: AnyArray, n: int, m: int, ratio: float, stray: float | None) -> None:
        self.weight, self.factor, self.n, self.m, self.ratio, self.stray = weight, factor, n, m, ratio, stray
        self.xp = xp = xp_of(weight, factor)
        self.largest = float(xp.max(xp.abs(weight)))
        self.prunes = n > 0 if m else ratio > 0
        self.pruned = xp.zeros_like(weight, dtype=xp.bool)
        self.undecided = np.zeros(weight.shape if stray is not None else 0, dtype=np.bool_)
        self.zeros: AnyArray | None = None
        self.error = 0.0

    def run(self, dead: AnyArray, blocksize: int) -> None:
        if self.prunes:  # otherwise nothing is touched, not even the weights of dead inputs
            self.weight = masked(~dead, self.weight)
            for start in range(0, self.weight.shape[1], blocksize):
                self._block(start, min(start + blocksize, self.weight.shape[1]))

    def _block(self, start: int, stop: int) -> None:
        xp, inside = self.xp, slice(start, stop)
        factor = self.factor[inside, inside]
        scale = diagonal(factor)
        work = xp.asarray(self.weight[:, inside], copy=True)
        kept = xp.asarray(work, copy=True)  # what is finally stored
        residual = xp.zeros_like(work)
        if not self.m:
            count = self._threshold_count(work.shape[0] * work.shape[1])
            self._choose(inside, xp.reshape(work / scale, (1, -1)), scale, count)
        for j in range(stop - start):
            if self.m and j % self.m == 0:
                group = slice(j, j + self.m)
                self._choose(slice(start + j, start + j + self.m), work[:, group] / scale[group], scale[group], self.n)
            kept[:, j] = masked(~self.pruned[:, start + j], work[:, j])
            residual[:, j] = (work[:, j] - kept[:, j]) / scale[j]
            work[:, j:] -= residual[:, j : j + 1] * factor[j : j + 1, j:]
        self.weight[:, inside] = kept
        self.weight[:, stop:] -= residual @ self.factor[inside, stop:]
        self.error += float(xp.sum(residual**2)) / 2

    def _choose(self, columns: slice, ratios: AnyArray, scale: AnyArray, count: int) -> None:
        """Prune the `count` smallest |w / u_jj| of each row of `ratios` (squares would order them the same way)."""
        xp, shape = self.xp, (self.weight.shape[0], -1)
        sizes = xp.abs(ratios)
        zeros = None if self.zeros is None else xp.reshape(self.zeros[:, columns], sizes.shape)
        if zeros is not None:
            sizes = xp.where(zeros, -1.0, sizes)
        pruned = smallest(sizes, count)
        if not self.m and count:
            pruned = pruned | (sizes <= xp.max(masked(pruned, sizes)))  # all ties with the threshold
        self.pruned[:, columns] = xp.reshape(pruned if zeros is None else pruned | zeros, shape)
        if self.stray is not None:
            # An update moves weights by multiples of what was removed: its rounding is relative to the largest weight.
            rounding = self.stray * (sizes.reshape(shape) + self.largest / scale)
            spread = np.where(sizes == 0, 0.0, rounding.reshape(sizes.shape))
            self.undecided[:, columns] = undecided(sizes, spread, pruned).reshape(shape)

    def _threshold_count(self, size: int) -> int:
        """Count the original's entries <= the one at index int(size * rho), from 0: one more than rho demands."""
        return size if self.ratio == 1 else min(pruned_count(self.ratio, size) + 1, size)


def _hessian(inputs: Array) -> Array:
    """H = (2/N) X^T X."""
    refuse_powers(inputs, 2)
    tokens = inputs.reshape(-1, inputs.shape[-1]).astype(np.float64)
    hessian: Array = (2.0 / inputs.shape[0]) * (tokens.T @ tokens)
    return hessian


def _damped(hessian: AnyArray, relative: float) -> tuple[AnyArray, AnyArray, float]:
    """H with 1 on the diagonal of dead inputs and the damping added, which inputs are dead, and the damping."""
    xp, along = xp_of(hessian), diagonal(hessian)
    dead = along == 0
    damping = relative * float(xp.mean(xp.where(dead, xp.ones_like(along), along)))
    identity = eye_like(hessian.shape[0], hessian)
    return hessian + masked(dead, identity) + damping * identity, dead, damping


def _condition(hessian: Array, from_float32: bool) -> float:
    """Return the condition number; refuse an H that is singular within the rounding of the inputs.

    Rounding X to float32 moves its singular values by at most u sqrt(in) ||X||_2 (u the unit roundoff), so a singular
    H may appear with a least eigenvalue of u^2 in ||H||_2; forming H in float64 adds about in eps ||H||_2.
    """
    size = len(hessian)
    least, most = np.linalg.eigvalsh(hessian)[[0, -1]]
    noise = size * max(_EPS64, (_EPS32 / 2) ** 2 if from_float32 else 0.0)
    if not least > noise * most:
        raise InvalidInstance(
            f"the damped Hessian (2/N) X^T X + damping must be positive definite; its eigenvalues run from {least:.3g} "
            f"to {most:.3g} (least allowed ratio {noise:.3g}): raise percdamp or use more tokens"
        )
    return float(most / least)


def _inverse_cholesky(hessian: AnyArray) -> AnyArray:
    """The upper triangular U with U^T U = H^-1.

    Reversing rows and columns turns Cholesky's lower factor into an upper R with R R^T = H; U = R^-1. No inverse of H
    is formed.
    """
    return inverse_factor(hessian)


def _float32_stray(inputs: Array, damping: float, factor: Array) -> float:
    """Estimate the float32 error of the rows of U relative to their diagonals, from one float32 run times `_CAUTION`.

    That run forms H, inverts it and factors the inverse, all in float32, as the original program does.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        tokens = inputs.reshape(-1, inputs.shape[-1]).astype(np.float32)
        summed = np.float32(2.0 / inputs.shape[0]) * (tokens.T @ tokens)
        np.fill_diagonal(summed, np.diag(summed) + np.float32(damping) + (np.diag(summed) == 0))
    if not np.isfinite(summed).all():
        return 1.0
    try:
        rough = np.linalg.cholesky(np.linalg.inv(summed)).T.astype(np.float64)
    except np.linalg.LinAlgError:
        return 1.0  # float32 cannot factor this H at all
    along = np.abs(rough / np.diag(rough)[:, np.newaxis] - factor / np.diag(factor)[:, np.newaxis]).max()
    across = np.abs(np.diag(rough) / np.diag(factor) - 1).max()
    return float(min(1.0, _CAUTION * max(along, across) + 4 * _EPS32))
