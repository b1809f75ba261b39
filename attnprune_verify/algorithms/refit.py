"""Tune the kept weights of a pruned pair on the attention error: where optimising that error does pay.

Ours, not the paper's. The paper optimises a mask, rounds it, and so throws away what the optimisation found. Here the
mask is fixed first (say, the largest weights of W_Q and of W_K) and the kept weights are moved, as SparseGPT moves them
for the layer's linear output; part of the samples decide when to stop. docs/beyond_the_paper.md has the measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.instance.validate import Array, as_reals, check_shapes
from attnprune_verify.model.layer_functions import factored_gradient, factored_loss
from attnprune_verify.values import as_count, as_number, as_positive

_FORMS = {"X": ("n", "d"), "W_Q": ("d", "m"), "W_K": ("d", "m"), "kept_Q": ("d", "m"), "kept_K": ("d", "m")}
_FORGET_MEAN, _FORGET_SQUARE = 0.9, 0.99  # Adam's two averages
_LOOK_EVERY = 5  # steps between looks at the validation samples


@dataclass(frozen=True)
class RefitPair:
    """The tuned pair.

    Attributes
    ----------
    W_Q, W_K : (d, m) arrays
        Zero wherever they were pruned.
    steps : int
        The step with the least validation loss, whose weights these are; 0 means that tuning never helped.
    validation : array of (step, loss) rows
        Attention loss on the samples that were not tuned on.
    """

    W_Q: Array
    W_K: Array
    steps: int
    validation: Array


def refit_pair(
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    kept_Q: ArrayLike,
    kept_K: ArrayLike,
    *,
    mask: MaskLike = None,
    steps: int = 150,
    rate: float = 0.02,
    validation: float = 0.25,
    progress: Callable[[int, int], object] | None = None,
) -> RefitPair:
    """Minimise the attention error over the values of the kept weights, by Adam on multipliers that start at 1.

    With M_Q, M_K real on the kept entries and 0 elsewhere, the objective is `factored_loss` with lam = 0 on the first
    samples; the last `validation` share of them picks the iterate, so that the result is never worse there than the
    pair it started from.

    Parameters
    ----------
    X : (k, n, d) array
        At least two samples.
    W_Q, W_K : (d, m) arrays
        The dense pair.
    kept_Q, kept_K : (d, m) arrays of 0 and 1
        1 = kept.
    mask : None, "causal" or (n, n) array of 0 and 1
        Attention mask.
    steps : int
    rate : float
        Adam's step: about how far a multiplier moves in one step.
    validation : float
        Share of the samples, in (0, 1); at least one sample is used on either side.
    progress : callable, optional
        Called as ``progress(steps done, steps)``.

    Raises
    ------
    InvalidInstance
        If shapes disagree, X is no batch of at least two samples, kept entries are not 0 or 1, steps < 0, rate <= 0 or
        the share is outside (0, 1).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, W_Q, W_K = rng.normal(size=(64, 6, 4)), rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    >>> kept_Q, kept_K = np.abs(W_Q) > 0.5, np.abs(W_K) > 0.5
    >>> tuned = refit_pair(X, W_Q, W_K, kept_Q, kept_K, steps=30)
    >>> bool(tuned.validation[:, 1].min() < tuned.validation[0, 1]), bool(tuned.W_Q[~kept_Q].any())
    (True, False)
    """
    samples, query, key, *kept = as_reals(X=X, W_Q=W_Q, W_K=W_K, kept_Q=kept_Q, kept_K=kept_K)
    arrays = {"X": samples, "W_Q": query, "W_K": key, "kept_Q": kept[0], "kept_K": kept[1]}
    check_shapes(_FORMS, arrays)
    for name, keep in zip(("kept_Q", "kept_K"), kept, strict=True):
        if not np.isin(keep, (0, 1)).all():
            raise InvalidInstance(f"{name} must hold only 0 and 1; got {keep[(keep != 0) & (keep != 1)][0]}")
    if samples.ndim != 3 or len(samples) < 2:
        rule = "X must hold at least two samples, some to tune on and some to judge on"
        raise InvalidInstance(f"{rule}; got shape {samples.shape}")
    share = as_number("validation", validation, "in (0, 1)", lambda number: 0 < number < 1)
    steps, step_size = as_count("steps", steps), as_positive("rate", rate)
    judged = min(max(1, round(share * len(samples))), len(samples) - 1)
    tuned_on, judged_on = samples[:-judged], samples[-judged:]

    def validation_loss(multipliers: Array) -> float:
        return factored_loss(multipliers[0], multipliers[1], judged_on, query, key, 0.0, mask)

    support = np.stack(kept)
    multipliers, mean, square = support.copy(), np.zeros_like(support), np.zeros_like(support)
    best, best_step = multipliers, 0
    seen = [(0.0, validation_loss(multipliers))]
    for step in range(1, steps + 1):
        query_part, key_part = factored_gradient(multipliers[0], multipliers[1], tuned_on, query, key, 0.0, mask)
        gradient = support * np.stack([query_part, key_part])
        mean = _FORGET_MEAN * mean + (1 - _FORGET_MEAN) * gradient
        square = _FORGET_SQUARE * square + (1 - _FORGET_SQUARE) * gradient**2
        scale = np.sqrt(square / (1 - _FORGET_SQUARE**step)) + np.finfo(square.dtype).tiny
        multipliers = multipliers - step_size * mean / (1 - _FORGET_MEAN**step) / scale
        if step % _LOOK_EVERY == 0 or step == steps:
            seen.append((float(step), validation_loss(multipliers)))
            if seen[-1][1] < min(loss for _, loss in seen[:-1]):
                best, best_step = multipliers, step
        if progress is not None:
            progress(step, steps)
    return RefitPair(best[0] * query, best[1] * key, best_step, np.array(seen))
