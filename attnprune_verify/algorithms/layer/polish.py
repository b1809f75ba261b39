"""Second stage: move the kept weights down the attention's KL itself, held back by the metric they were pruned in."""

import math
from dataclasses import dataclass, replace

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome
from attnprune_verify.algorithms.layer.divergence import Divergence
from attnprune_verify.algorithms.layer.fisher import fisher_diagonal
from attnprune_verify.algorithms.layer.fisher_obs import FisherOBS, PrunedPair, prune_fisher_obs
from attnprune_verify.algorithms.layer.heads import join_heads
from attnprune_verify.algorithms.matrix.two_sided import Pruned
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer_functions import layer_relative_error
from attnprune_verify.values import as_count, as_nonnegative, as_ratio

_RIDGES = (10.0, 30.0, 100.0)  # chosen: half a decade apart; the best is found on sequences that were not fitted
_WITHOUT_SPLIT = 30.0  # chosen: the middle one, where a single sequence leaves none to compare on


@dataclass(frozen=True)
class Polish:
    """Options of the second stage.

    Attributes
    ----------
    ridge : float or None
        Strength of the pull towards the two-sided OBS's weights, in units of the damping of its metric; inf keeps
        them. None chooses among 10, 30, 100 and inf by fitting on one half of the sequences and measuring the attention
        error on the other (30 when there is only one sequence).
    steps : int
        L-BFGS iterations.
    swap_rounds : int
        Rounds of exchanging pruned and kept weights (exact count), each followed by another `steps` iterations.
    swap_share : float
        The largest share of a head's weights exchanged per round.
    """

    ridge: float | None = None
    steps: int = 30
    swap_rounds: int = 0
    swap_share: float = 0.02

    def __post_init__(self) -> None:
        if self.ridge is not None and self.ridge != math.inf:
            as_nonnegative("ridge", self.ridge)
        as_count("steps", self.steps)
        as_count("swap_rounds", self.swap_rounds)
        as_ratio(self.swap_share, "swap_share")


@dataclass(frozen=True)
class FisherOBSKL(FisherOBS, Polish):
    """Options of the method ``fisher-obs-kl``: those of `Polish`, and those of the first stage with one sweep."""

    sweeps: int = 1

    def __post_init__(self) -> None:
        FisherOBS.__post_init__(self)
        Polish.__post_init__(self)


def prune_fisher_obs_kl(data: Calibration, rho: float, options: FisherOBSKL) -> LayerOutcome:
    """`prune_fisher_obs`, then `polish`, then `swap_rounds` exchanges, each polished."""
    ridge = _split_calibration(data, rho, options) if options.ridge is None else options.ridge
    pair = prune_fisher_obs(data, rho, options)
    if ridge == math.inf:
        return pair.outcome(ridge=ridge)
    stage = _Stage(data, pair, replace(options, ridge=ridge))
    weights = stage.descend([pair.Q, pair.K])
    for _ in range(options.swap_rounds):
        weights = stage.descend(stage.swap(weights))
    return replace(pair, Q=weights[0], K=weights[1]).outcome(ridge=ridge)


def _split_calibration(data: Calibration, rho: float, options: FisherOBSKL) -> float:
    """Choose the ridge by the attention error alone, on the sequences that were not fitted."""
    if data.k == 1:
        return _WITHOUT_SPLIT
    fitted, other = Calibration(data.layer, data.X[::2]), data.X[1::2]
    pair = prune_fisher_obs(fitted, rho, options)

    def error(found: PrunedPair) -> float:
        pruned = data.layer.with_weights(join_heads(found.Q.weight), join_heads(found.K.weight))
        return float(layer_relative_error(data.layer, pruned, other).mean())

    errors = {ridge: error(polish(fitted, pair, replace(options, ridge=ridge))) for ridge in _RIDGES}
    errors[math.inf] = error(pair)
    return min(errors, key=lambda ridge: errors[ridge])


def polish(data: Calibration, pair: PrunedPair, options: FisherOBSKL) -> PrunedPair:
    """L-BFGS on the kept weights for the KL plus the pull towards `pair`.

    ::

        minimise  sum KL(F || F~) + ridge damping / (2 d) tr(D^T D G),   D = W - W_OBS on the kept weights

    for W_Q with G_Q and for W_K with G_K: `ridge` times what damping adds to the two-sided metric (H (x) G) / tr H.
    Calibration tokens are few, so the KL alone overfits them; in directions that they do not determine, the pull
    keeps the weights of the metric's solution.
    """
    Q, K = _Stage(data, pair, options).descend([pair.Q, pair.K])
    return replace(pair, Q=Q, K=K)


class _Stage:
    """One layer's problem: the KL, the pull, and the scale of every weight."""

    def __init__(self, data: Calibration, pair: PrunedPair, options: FisherOBSKL) -> None:
        self._options = options
        self._dense = (data.W_Q, data.W_K)
        self._divergence = Divergence(data)
        self._h = fisher_diagonal(data)
        self._anchor = (pair.Q.weight, pair.K.weight)
        d = data.X.shape[2]
        strength = (_WITHOUT_SPLIT if options.ridge is None else options.ridge) * max(pair.damping, 1e-3) / d
        # The pair's G has mean diagonal about 1; this puts back the scale of the KL's second derivative.
        self._pull = tuple(
            strength * d * h.mean(axis=(1, 2))[:, np.newaxis, np.newaxis] * G
            for h, G in zip(self._h, (pair.G_Q, pair.G_K), strict=True)
        )
        self._scale = tuple(np.sqrt(h + 1e-3 * h.mean() + np.finfo(np.float64).tiny) for h in self._h)

    def descend(self, pruned: list[Pruned]) -> list[Pruned]:
        kept = [one.kept for one in pruned]
        begin = np.concatenate([(one.weight * scale)[one.kept] for one, scale in zip(pruned, self._scale, strict=True)])
        cut = int(np.count_nonzero(kept[0]))

        def weights(z: Array) -> list[Array]:
            filled = [np.zeros_like(one.weight) for one in pruned]
            for W, mask, scale, part in zip(filled, kept, self._scale, (z[:cut], z[cut:]), strict=True):
                W[mask] = part / scale[mask]
            return filled

        def objective(z: Array) -> tuple[float, Array]:
            current = weights(z)
            value, slopes = self._value_and_gradient(current)
            return value, np.concatenate(
                [(slope / scale)[mask] for slope, scale, mask in zip(slopes, self._scale, kept, strict=True)]
            )

        if self._options.steps == 0 or begin.size == 0:
            return pruned
        from scipy.optimize import minimize  # most of what importing `prune_layer` would take

        found = minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": self._options.steps})
        return [Pruned(W, mask) for W, mask in zip(weights(found.x), kept, strict=True)]

    def swap(self, pruned: list[Pruned]) -> list[Pruned]:
        """Exchange weights where bringing one back gains more than dropping another costs, by the diagonal model.

        A pruned weight would gain g^2/(2h), a kept one costs w^2 h / 2; of each head at most `swap_share` are
        exchanged, worst kept for best pruned. The newcomer starts at -0.3 g/h, but no larger than the head's largest
        weight: in a saturated head h says little about the way there, and a head without any h is left alone.
        """
        _, slopes = self._value_and_gradient([one.weight for one in pruned])
        return [
            _exchange(one, slope, h, self._options.swap_share)
            for one, slope, h in zip(pruned, slopes, self._h, strict=True)
        ]

    def _value_and_gradient(self, current: list[Array]) -> tuple[float, list[Array]]:
        value, *slopes = self._divergence.value_and_gradient(*current)
        for i, pull in enumerate(self._pull):
            away = current[i] - self._anchor[i]
            back = away @ pull
            value += 0.5 * float(np.vdot(back, away))
            slopes[i] = slopes[i] + back
        return value, slopes


def _exchange(pruned: Pruned, slope: Array, h: Array, share: float) -> Pruned:
    heads = len(h)
    weight, kept = pruned.weight.reshape(heads, -1).copy(), pruned.kept.reshape(heads, -1).copy()
    gradient, second = slope.reshape(heads, -1), h.reshape(heads, -1)
    count = int(share * weight.shape[1])
    curvature = np.maximum(second, 1e-3 * second.mean(axis=1, keepdims=True))
    blind = curvature == 0
    curvature[blind] = 1.0
    newcomer = -0.3 * gradient / curvature
    largest = np.abs(weight).max(axis=1, keepdims=True)
    gain = np.where(kept | blind, -np.inf, gradient**2 / curvature)
    cost = np.where(kept, weight**2 * second, np.inf)
    incoming = np.argsort(-gain, axis=1, kind="stable")[:, :count]
    outgoing = np.argsort(cost, axis=1, kind="stable")[:, :count]
    for head in range(heads):
        enter, leave = incoming[head], outgoing[head]
        worthwhile = gain[head, enter] > cost[head, leave]
        enter, leave = enter[worthwhile], leave[worthwhile]
        kept[head, enter], kept[head, leave] = True, False
        weight[head, enter] = np.clip(newcomer[head, enter], -largest[head], largest[head])
        weight[head, leave] = 0.0
    return Pruned(weight.reshape(h.shape), kept.reshape(h.shape))
