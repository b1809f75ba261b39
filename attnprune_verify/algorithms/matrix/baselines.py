"""Baselines on one linear map, from the second moments of its inputs."""

from dataclasses import dataclass
from fractions import Fraction

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.arrays import AnyArray, diagonal, masked, xp_of
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt_from_hessian
from attnprune_verify.algorithms.matrix.budget import Budget, Pattern, Share, choose_by_group, without_zeros
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix, input_damping
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_count, as_nonnegative


@dataclass(frozen=True)
class SparseGPTOptions:
    """Options of the method ``sparsegpt``.

    Attributes
    ----------
    blocksize : int
    percdamp : float or None
        Damping relative to the mean diagonal; None takes the one that `output-obs` would take.
    """

    blocksize: int = 128
    percdamp: float | None = 0.01

    def __post_init__(self) -> None:
        as_count("blocksize", self.blocksize, least=1)
        if self.percdamp is not None:
            as_nonnegative("percdamp", self.percdamp)


@dataclass(frozen=True)
class SparseGPTDamped(SparseGPTOptions):
    """Options of ``sparsegpt-damped``: SparseGPT with our damping."""

    percdamp: float | None = None


def prune_magnitude(weight: AnyArray, _: object, __: object, budget: Budget, ___: object = None) -> PrunedMatrix:
    """Keep the largest |w| of the matrix, or of every group of a pattern."""
    xp = xp_of(weight)
    budget, zeros = without_zeros(budget, weight)
    scores = xp.where(zeros, -1.0, xp.abs(weight))
    if isinstance(budget, Pattern):
        return _masked(weight, choose_by_group(scores, budget) | zeros)
    count = pruned_count(_ratio(budget), weight.shape[0] * weight.shape[1])
    return _masked(weight, xp.reshape(smallest(xp.reshape(scores, (-1,)), count), weight.shape) | zeros)


def prune_wanda(weight: AnyArray, inputs: Moments, _: Moments | None, budget: Budget, __: object) -> PrunedMatrix:
    """Prune by |w| times the input's root mean square, in Wanda's own convention: per output."""
    xp = xp_of(weight, inputs.H)
    budget, zeros = without_zeros(budget, weight)
    scores = xp.where(zeros, -1.0, xp.abs(weight) * xp.sqrt(diagonal(inputs.H)))
    if isinstance(budget, Pattern):
        return _masked(weight, choose_by_group(scores, budget) | zeros)
    return _masked(weight, smallest(scores, pruned_count(_ratio(budget), weight.shape[1])) | zeros)


def prune_sparsegpt(
    weight: AnyArray, inputs: Moments, _: Moments | None, budget: Budget, options: SparseGPTOptions
) -> PrunedMatrix:
    """Prune by SparseGPT's own program on the Hessian 2 X^T X."""
    percdamp = input_damping(inputs) if options.percdamp is None else options.percdamp
    budget, zeros = without_zeros(budget, weight)
    groups = {"prune_n": 0, "prune_m": 0}
    if isinstance(budget, Pattern):
        groups = {"prune_n": budget.group - budget.kept, "prune_m": budget.group}
    new, pruned = sparsegpt_from_hessian(
        weight,
        2 * inputs.length * inputs.H,
        0.0 if isinstance(budget, Pattern) else float(_ratio(budget)),
        blocksize=options.blocksize + -options.blocksize % (groups["prune_m"] or 1),
        percdamp=percdamp,
        zeros=zeros,
        **groups,
    )
    return PrunedMatrix(new, ~pruned)


def _masked(weight: AnyArray, pruned: AnyArray) -> PrunedMatrix:
    return PrunedMatrix(masked(~pruned, weight), ~pruned)


def _ratio(budget: Budget) -> float | Fraction:
    if not isinstance(budget, Share):
        raise InvalidInstance(f"budget must be a Share or a Pattern; got {budget!r:.60}")
    return budget.rho
