"""`output-obs`: two-sided OBS of any linear map, with a metric of its outputs' effect on the rest of the model."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from attnprune_verify.algorithms.arrays import (
    AnyArray,
    eye_like,
    is_definite,
    is_large,
    masked,
    swapped,
    working_dtype,
    xp_of,
    zeros_like,
)
from attnprune_verify.algorithms.matrix.budget import Budget, Pattern
from attnprune_verify.algorithms.matrix.damping import Moments, damped, trace
from attnprune_verify.algorithms.matrix.exchange import exchange
from attnprune_verify.algorithms.matrix.splitting import split
from attnprune_verify.algorithms.matrix.two_sided import Pruned, prune_two_sided, refit
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice, as_count, as_nonnegative

_SWEEPS = 50  # chosen: a limit only, `exchange` ends where no exchange helps
# Shrinkage is prescribed for the least error of H itself; for what the weights become, a third of it is better where
# tokens are many. Chosen: by benchmarks/choose_damping.py, with 2 to 16 tokens a feature.
_SHARE, _FEW = 0.3, 5


class PrunedMatrix(NamedTuple):
    """A weight (out, in) with zeros where `kept` is False."""

    weight: AnyArray
    kept: AnyArray


@dataclass(frozen=True)
class OutputOBS:
    """Options of the method ``output-obs``.

    Attributes
    ----------
    damping, output_damping : float or None
        Relative damping of the inputs' and of the outputs' metric; None takes what the calibration sequences prescribe
        (`MomentSum`): all of it for the outputs, and for the inputs where there are fewer than five tokens a feature;
        else 0.3 of it.
    solver : "splitting" or "pass"
        How the mask is found: by operator splitting on the whole matrix (`split`), or in one pass over the inputs, as
        SparseGPT does (`prune_two_sided`).
    blocksize : int
        For the pass: inputs whose masks are chosen together.
    refit_steps : int
        Conjugate-gradient steps on the kept weights once the mask stands.
    exchange_rounds : int
        N:M patterns: how often the local search and the refit follow each other before the last search.
    joint_steps : int
        N:M patterns in a whole model: steps that move what W_Q and W_K keep together, towards the dense attention
        output (`whole_model.joint`); not used for a single matrix.
    """

    damping: float | None = None
    output_damping: float | None = None
    solver: Literal["splitting", "pass"] = "splitting"
    blocksize: int = 32
    refit_steps: int = 10
    exchange_rounds: int = 0
    joint_steps: int = 1

    def __post_init__(self) -> None:
        for name in ("damping", "output_damping"):
            if getattr(self, name) is not None:
                as_nonnegative(name, getattr(self, name))
        as_choice("solver", self.solver, ("splitting", "pass"))
        as_count("blocksize", self.blocksize, least=1)
        as_count("refit_steps", self.refit_steps)
        as_count("joint_steps", self.joint_steps)


def prune_output_obs(
    weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget, options: OutputOBS
) -> PrunedMatrix:
    """Prune a weight (out, in) in the metric H (x) G, then refit what is kept; without G the metric is H (x) I.

    Computed in the precision of the moments (float64 for NumPy), large weights in float32.
    """
    H, G = used_metrics(inputs, outputs, options)
    for side, metric, given in (("inputs", H, options.damping), ("outputs", G, options.output_damping)):
        if metric is not None and not is_definite(metric):
            raise InvalidInstance(
                f"the {side}' second moments must be positive definite after damping; damping = {given} is too small"
            )
    xp = xp_of(weight, H)
    dtype = xp.float32 if is_large(weight) else working_dtype(H)
    H, G = (None if metric is None else xp.astype(metric, dtype, copy=False) for metric in (H, G))
    target = in_blocks(xp.astype(weight, dtype, copy=False), 1 if G is None else G.shape[0])
    gone = budget.choose(xp.abs(target), 0)
    if bool(xp.all(gone)) or not bool(xp.any(gone)):  # nothing to choose, and the kept weights must not move
        return _joined(Pruned(masked(~gone, target), ~gone), weight)
    if options.solver == "splitting":
        pruned = split(target, H, G, budget, annealed=None)
    else:
        pruned = prune_two_sided(target, H, G, budget, options.blocksize)
    pruned = refit(pruned, target, H, G, options.refit_steps)
    if isinstance(budget, Pattern):
        for _ in range(options.exchange_rounds):
            pruned = exchange(pruned, target, H, G, budget, _SWEEPS)
            pruned = refit(pruned, target, H, G, options.refit_steps)
        pruned = exchange(pruned, target, H, G, budget, _SWEEPS)
    return _joined(pruned, weight)


def prune_output_only(
    weight: AnyArray, inputs: Moments, outputs: Moments | None, budget: Budget, options: OutputOBS
) -> PrunedMatrix:
    """Prune in the outputs' metric alone: all inputs count the same."""
    size = inputs.H.shape[0]
    flat = inputs._replace(H=eye_like(size, inputs.H) * xp_of(inputs.H).linalg.trace(inputs.H) / size)
    return prune_output_obs(weight, flat, outputs, budget, options)


def used_metrics(inputs: Moments, outputs: Moments | None, options: OutputOBS) -> tuple[AnyArray, AnyArray | None]:
    """H and G, damped by the options."""
    H = damped(inputs.H, input_damping(inputs) if options.damping is None else options.damping)
    return H, None if outputs is None else usable_metric(outputs, options.output_damping)


def input_damping(inputs: Moments) -> float:
    """Damping of H: what is prescribed, or 0.3 of it where tokens are many."""
    return inputs.damping * (1.0 if inputs.tokens < _FEW * inputs.H.shape[-1] else _SHARE)


def _joined(pruned: Pruned, weight: AnyArray) -> PrunedMatrix:
    """Join blocks (blocks, in, m) to a matrix (out, in)."""
    new, kept = (from_blocks(part, weight.shape) for part in pruned)
    return PrunedMatrix(xp_of(weight).astype(masked(kept, new), weight.dtype, copy=False), kept)


def in_blocks(weight: AnyArray, blocks: int) -> AnyArray:
    """(out, in) -> (blocks, in, out / blocks)."""
    return swapped(xp_of(weight).reshape(weight, (blocks, -1, weight.shape[1])))


def from_blocks(parts: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """(blocks, in, out / blocks) -> (out, in)."""
    return xp_of(parts).reshape(swapped(parts), shape)


def usable_metric(outputs: Moments, damping: float | None = None) -> AnyArray:
    """G plus `damping` times its mean diagonal, scaled to a mean diagonal of 1; the identity if nothing depends on it.

    One scale for all blocks: heads on which more depends keep more of their weights.
    """
    G, relative = outputs.H, outputs.damping if damping is None else damping
    blocks, m, _ = G.shape
    mean = trace(G) / (blocks * m)
    if not mean > xp_of(G).finfo(G.dtype).smallest_normal:
        return zeros_like(G.shape, G) + eye_like(m, G)
    return G / mean + relative * eye_like(m, G)
