"""Every method that prunes one linear map, by name: its inputs and its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.arrays import AnyArray, diagonal, eye_like, masked, xp_of
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt_from_hessian
from attnprune_verify.algorithms.matrix.budget import Budget, Pattern, Share, choose_by_group
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.output_obs import TRUST, OutputOBS, PrunedMatrix, prune_output_obs
from attnprune_verify.algorithms.matrix.prior import (
    ALPS,
    LADMM,
    Surgeon,
    prune_alps,
    prune_l_admm,
    prune_surgeon,
)
from attnprune_verify.algorithms.selection import smallest
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice, as_count, as_nonnegative, nearest

__all__ = ["MATRIX_METHODS", "MatrixMethod", "matrix_options", "prune_matrix"]

_Prune = Callable[[AnyArray, Moments, Moments | None, Budget, Any], PrunedMatrix]


@dataclass(frozen=True)
class MatrixMethod:
    """A method for one linear map.

    Attributes
    ----------
    prune : callable
        ``(weight, inputs, outputs, budget, options)`` to a `PrunedMatrix`.
    options : type
        A dataclass.
    attention, rest : str or None
        The output metric it asks for at W_Q and W_K, and at the other maps: a name in `metrics.OUTPUT_METRICS`. None
        where the inputs' moments are enough.
    """

    prune: _Prune
    options: type[Any]
    attention: str | None = None
    rest: str | None = None

    def metric(self, role: str) -> str | None:
        """The output metric that the method uses for the map of that role."""
        return self.attention if role in ("Q", "K") else self.rest


@dataclass(frozen=True)
class _NoOptions:
    """No options."""


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


def prune_matrix(
    method: str, weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget, **options: Any
) -> PrunedMatrix:
    """Prune one weight (out, in) by the method of that name.

    Parameters
    ----------
    method : str
        A key of `MATRIX_METHODS`.
    weight : (out, in) array
        Of any library of the array API standard (NumPy, torch, ...), as are the moments: it is computed there, on the
        device of the arrays.
    inputs : Moments
        Second moments of the map's inputs (`MomentSum`).
    outputs : Moments or None
        Metric of its outputs, of blocks of them; None is the identity.
    budget : Share or Pattern
    **options
        Fields of the method's dataclass.

    Raises
    ------
    InvalidInstance
        If the method or an option is unknown or out of its range, or sizes disagree.

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.algorithms.matrix.budget import Pattern
    >>> from attnprune_verify.algorithms.matrix.damping import second_moments
    >>> rng = np.random.default_rng(0)
    >>> inputs = second_moments(rng.normal(size=(8, 10, 4)))
    >>> prune_matrix("output-obs", rng.normal(size=(3, 4)), inputs, None, Pattern(2, 4)).kept.sum(axis=1)
    array([2, 2, 2])
    """
    settings = matrix_options(method, options)
    _check_sizes(weight, inputs, outputs, budget)
    return MATRIX_METHODS[method].prune(weight, inputs, outputs, budget, settings)


def matrix_options(method: str, options: Mapping[str, Any]) -> Any:
    """The method's options, checked."""
    as_choice("method", method, MATRIX_METHODS)
    kind = MATRIX_METHODS[method].options
    known = [one.name for one in fields(kind)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        rule = f"options of method {method!r} are {', '.join(known)}" if known else f"method {method!r} has no options"
        raise InvalidInstance(f"{rule}; got {', '.join(map(repr, unknown))}{nearest(unknown[0], known)}")
    return kind(**options)


def _magnitude(weight: AnyArray, _: Moments, __: Moments | None, budget: Budget, ___: object) -> PrunedMatrix:
    xp = xp_of(weight)
    scores = xp.abs(weight)
    if isinstance(budget, Pattern):
        return _masked(weight, choose_by_group(scores, budget))
    count = pruned_count(_ratio(budget), weight.shape[0] * weight.shape[1])
    return _masked(weight, xp.reshape(smallest(xp.reshape(scores, (-1,)), count), weight.shape))


def _wanda(weight: AnyArray, inputs: Moments, _: Moments | None, budget: Budget, __: object) -> PrunedMatrix:
    """Wanda's own convention: per output."""
    xp = xp_of(weight, inputs.H)
    scores = xp.abs(weight) * xp.sqrt(diagonal(inputs.H))
    if isinstance(budget, Pattern):
        return _masked(weight, choose_by_group(scores, budget))
    return _masked(weight, smallest(scores, pruned_count(_ratio(budget), weight.shape[1])))


def _sparsegpt(
    weight: AnyArray, inputs: Moments, _: Moments | None, budget: Budget, options: SparseGPTOptions
) -> PrunedMatrix:
    percdamp = TRUST * inputs.damping if options.percdamp is None else options.percdamp
    groups = {"prune_n": 0, "prune_m": 0}
    if isinstance(budget, Pattern):
        groups = {"prune_n": budget.group - budget.kept, "prune_m": budget.group}
    new, pruned = sparsegpt_from_hessian(
        weight,
        2 * inputs.length * inputs.H,
        0.0 if isinstance(budget, Pattern) else float(_ratio(budget)),
        blocksize=options.blocksize + -options.blocksize % (groups["prune_m"] or 1),
        percdamp=percdamp,
        **groups,
    )
    return PrunedMatrix(new, ~pruned)


def _output_only(
    weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget, options: OutputOBS
) -> PrunedMatrix:
    """The outputs' metric alone: all inputs count the same."""
    size = inputs.H.shape[0]
    flat = inputs._replace(H=eye_like(size, inputs.H) * xp_of(inputs.H).linalg.trace(inputs.H) / size)
    return prune_output_obs(weight, flat, outputs, budget, options)


def _masked(weight: AnyArray, pruned: AnyArray) -> PrunedMatrix:
    return PrunedMatrix(masked(~pruned, weight), ~pruned)


def _ratio(budget: Budget) -> Any:
    if not isinstance(budget, Share):
        raise InvalidInstance(f"budget must be a Share or a Pattern; got {budget!r:.60}")
    return budget.rho


def _check_sizes(weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget) -> None:
    out, into = weight.shape
    if inputs.H.shape != (into, into):
        raise InvalidInstance(f"the inputs' moments must be ({into}, {into}); got {inputs.H.shape}")
    if outputs is not None and outputs.H.shape[0] * outputs.H.shape[1] != out:
        raise InvalidInstance(f"the outputs' blocks must have {out} rows in all; got {outputs.H.shape}")
    if isinstance(budget, Pattern) and into % budget.group:
        raise InvalidInstance(f"the number of inputs must be a multiple of M; got {into} and {budget}")


MATRIX_METHODS: Mapping[str, MatrixMethod] = {
    "magnitude": MatrixMethod(_magnitude, _NoOptions),
    "wanda": MatrixMethod(_wanda, _NoOptions),
    "sparsegpt": MatrixMethod(_sparsegpt, SparseGPTOptions),
    "output-obs": MatrixMethod(prune_output_obs, OutputOBS, attention="attention", rest="loss"),
    "block-obs": MatrixMethod(prune_output_obs, OutputOBS, attention="attention", rest="attention"),
    "identity-obs": MatrixMethod(prune_output_obs, OutputOBS),
    "boa-obs": MatrixMethod(prune_output_obs, OutputOBS, attention="boa"),
    "output-only-obs": MatrixMethod(_output_only, OutputOBS, attention="output-only"),
    "kfac-obs": MatrixMethod(prune_surgeon, Surgeon, attention="kfac", rest="kfac"),
    "l-admm": MatrixMethod(prune_l_admm, LADMM),
    "alps": MatrixMethod(prune_alps, ALPS),
    "sparsegpt-damped": MatrixMethod(_sparsegpt, SparseGPTDamped),
}
