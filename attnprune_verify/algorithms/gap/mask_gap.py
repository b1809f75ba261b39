"""`certified_mask_gap`: how much better the best mask with as many ones could be, at most."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.algorithms.gap.exchange import improved, rounded
from attnprune_verify.algorithms.gap.one_map import OneMap
from attnprune_verify.algorithms.gap.problem import Posed, as_ones, posed
from attnprune_verify.algorithms.gap.relaxation import relaxed
from attnprune_verify.algorithms.gap.rounding import floor_with_rounding
from attnprune_verify.instance.validate import Array
from attnprune_verify.oracle.ball_divergence import divergence, divergence_floor
from attnprune_verify.values import as_count

BALLS = 400_000
"""Allowed logits up to which balls are used: 7e-6 s each, measured at n = 128 (docs/certified_gaps.md)."""
_COLUMNS = 50
"""Columns of Hessians for each step: chosen, fifteen full models of a map of 1024 entries at 300 steps, some 3 s."""
_WORK = 1e12
"""Operations that columns of Hessians may take: chosen, minutes of one core."""
_NOISE = 0.07
"""Standard deviation of what a restart adds to the relaxed mask before rounding: of 0.05, 0.1, 0.2, 0.3 and 0.5 on four
heads of the small Llama the first two reached the least divergences."""

_RESTARTS = 12
"""Restarts at most: chosen, for small maps, whose Hessians would pay for thousands."""


@dataclass(frozen=True)
class MaskGap:
    """Lower bound of the divergence over all masks of one map with a given number of ones, and masks to compare.

    Attributes
    ----------
    ones : int
    kl : float
        Of the mask that was given, or of the best one where none was: mean over query rows of KL(F_i(1) || F_i(M)) in
        nats, summed over heads; an upper end in balls where `arithmetic` is "balls".
    bound : float
        No mask with so many ones on that map has a smaller divergence, the other map as given.
    best : array
        The best mask found on the way, 1 = kept, in the shape of the mask it replaces.
    best_kl : float
        Its divergence.
    certified : bool
        The bound holds for the exact real numbers that the inputs are: rounding is paid.
    arithmetic : "balls" or "rounding"
        How it is paid: an evaluation in balls, or for many tokens float64 with a bound on every error.
    """

    ones: int
    kl: float
    bound: float
    best: Array = field(repr=False)
    best_kl: float
    certified: bool
    arithmetic: Literal["balls", "rounding"]

    @property
    def ratio(self) -> float:
        """kl / bound: an upper bound of the judged mask's divergence over the best mask's; 1 where both are 0."""
        if self.bound > 0:
            return self.kl / self.bound
        return 1.0 if self.kl == 0 else np.inf

    def as_dict(self) -> dict[str, Any]:
        """Return the row of JSON reports."""
        names = ("ones", "kl", "bound", "best_kl", "certified", "arithmetic")
        return {name: getattr(self, name) for name in names} | {"ratio": self.ratio}


def certified_mask_gap(
    layer_or_instance: Any,
    X: ArrayLike | None = None,
    *,
    masks: Any = None,
    rho: float | None = None,
    keep: int | None = None,
    on: Any = "Q",
    steps: int = 300,
    seed: int = 0,
) -> MaskGap:
    """Bound from below the divergence of all 0/1 masks of one map with a given number of ones; search for the best.

    ::

        KL(B) = mean_i KL(f_i || softmax(z_i(B))) >= KL(Y) + <g, B - Y>,    g = grad KL(Y)
              >= KL(Y) - <g, Y> + (sum of the k smallest entries of g)

    for every mask B with k ones and every real Y, because KL is convex in the logits z, which are affine in the mask of
    one map. Projected descent looks for a good Y; the bound at the last one is evaluated with its rounding paid
    (new:certified_mask_gap).

    Parameters
    ----------
    layer_or_instance : AttentionLayer, Instance or LayerInstance
        Without a softcap, which would bend the logits.
    X : (n, d) or (k, n, d) array
        The tokens, with a layer; an instance holds its own.
    masks : (d, d) array, or pair of arrays, optional
        M of a fused weight, or (M_Q, M_K) of a layer. The mask on the map that is judged must be of 0 and 1 where it
        says the number of ones; the other one is any real array. Without them an instance's own, or all ones.
    rho : float, optional
        Share of zeros, floor(rho size) of them, in place of the judged mask.
    keep : int, optional
        Number of ones, in place of the judged mask.
    on : Any
        "Q", "K", or a pair of these and a head The map: W_Q or W_K of all heads together, or ("Q", 3) of one head (of
        the heads that share key head 3 for "K"). A fused weight has one.
    steps : int
        Of the descent; 0 gives one gradient and one sort. Each also buys 50 products with the Hessian for exchanges.
    seed : int
        Of the restarts of the search for masks; the bound does not depend on it.

    Returns
    -------
    MaskGap

    Raises
    ------
    InvalidInstance
        If shapes do not fit, there is a softcap, not exactly one of masks, rho and keep says how many ones there are,
        or the judged mask is not of 0 and 1.

    Notes
    -----
    The divergence is not the squared error: a small KL gives a small L_attn (Pinsker), not the other way round. What
    the bound leaves open is the gap of the relaxation to masks in [0, 1].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> layer = AttentionLayer(rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), mask="causal")
    >>> found = certified_mask_gap(layer, rng.normal(size=(12, 6)), rho=0.5)
    >>> found.ones, found.certified, 0 < found.bound <= found.kl, found.best.shape
    (12, True, True, (6, 4))
    """
    steps, seed = as_count("steps", steps), as_count("seed", seed)
    problem = posed(layer_or_instance, X, masks, on)
    judged = rho is None and keep is None
    given = judged and (masks is not None or getattr(layer_or_instance, "M", None) is not None)
    given = given or (judged and getattr(layer_or_instance, "M_Q", None) is not None)
    ones = as_ones(problem.mask, given, rho, keep)
    function = problem.divergence()
    lowest = relaxed(function, ones, steps)
    mask, value = _search(function, lowest.point, ones, steps, seed)
    if given and function.value(problem.mask) < value:
        mask, value = problem.mask.copy(), function.value(problem.mask)
    return _certified(problem, function, lowest.at, mask, ones, given)


def _certified(problem: Posed, function: OneMap, at: Array, mask: Array, ones: int, given: bool) -> MaskGap:
    judged = problem.mask if given else mask
    here = problem.at(at)
    if here.logits <= BALLS:
        bound = divergence_floor(here, problem.place, ones)
        own, best = (float(divergence(problem.at(M)).upper) for M in (judged, mask))
        return MaskGap(ones, own, min(bound, own), mask, best, True, "balls")
    bound = floor_with_rounding(function, at, ones)
    own, best = function.value(judged), function.value(mask)
    return MaskGap(ones, own, min(bound, own), mask, best, True, "rounding")


def _search(function: OneMap, point: Array, ones: int, steps: int, seed: int) -> tuple[Array, float]:
    """The best mask by exchanges from the rounded point and, while products are left, from it with noise added."""
    columns = int(min(_COLUMNS * steps, _WORK / function.problem.work))
    mask, value, left = improved(function, rounded(point, ones), columns)
    rng = np.random.default_rng(seed)
    for _ in range(_RESTARTS):
        if left < 2 or ones in (0, mask.size):
            break
        start = rounded(point + _NOISE * rng.standard_normal(point.shape), ones)
        other, lower, left = improved(function, start, left)
        if lower < value:
            mask, value = other, lower
    return mask, value
