"""`certified_refit`: the best weights on a given support of one map, and how far others are at most from them."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, cg

from attnprune_verify.algorithms.gap.convexity import MOST, hessian, least_curvature, reach, still_to_gain
from attnprune_verify.algorithms.gap.mask_gap import BALLS
from attnprune_verify.algorithms.gap.one_map import OneMap
from attnprune_verify.algorithms.gap.problem import posed_refit
from attnprune_verify.algorithms.gap.rounding import tangent
from attnprune_verify.instance.validate import Array
from attnprune_verify.oracle.ball_divergence import divergence, divergence_slope
from attnprune_verify.values import as_count

_PRODUCTS = 500
"""Products with the Hessian for one Newton step on many entries: chosen, half a second each at 2048 tokens."""
_FLAT = 1e-13
"""Share of the largest eigenvalue below which a direction is left alone: of a Hessian's rounding, 1e-16 to 1e-14."""
_SUFFICIENT = 1e-4
"""Share of the promised descent that a step must make (Armijo): the customary number."""
_SHORTEST = 2.0**-20
"""Length of a step below which the descent ends: chosen, a millionth."""
_PROMISE = 1e-15
"""Share of the divergence whose promise makes a Newton step the last one: chosen, the next would be below rounding."""
_RADIUS = 100.0
"""Times the norm of the dense weight, how far a bound of a not strongly convex problem goes: chosen, beyond any use."""


@dataclass(frozen=True)
class Refit:
    """The best weights found on a support, and a lower bound of the divergence of all others there.

    Attributes
    ----------
    weight : array
        The best found, 0 outside the support, in the shape of the map it replaces (of one head: its columns).
    kl : float
        Of the weights that were given: mean over query rows of KL(F_i(1) || F_i) in nats, summed over heads; an upper
        end in balls where `arithmetic` is "balls".
    best_kl : float
        The same of `weight`.
    bound : float
        No weights on that support within `radius` have a smaller divergence, the other map as given.
    radius : float
        In the Frobenius norm around `weight`: inf where the divergence was proved to be strongly convex there.
    certified : bool
        The bound holds for the exact real numbers that the inputs are: rounding is paid.
    arithmetic : "balls" or "rounding"
        How it is paid: an evaluation in balls, or for many tokens float64 with a bound on every error.
    """

    weight: Array = field(repr=False)
    kl: float
    best_kl: float
    bound: float
    radius: float
    certified: bool
    arithmetic: Literal["balls", "rounding"]

    @property
    def ratio(self) -> float:
        """kl / bound: an upper bound of the given weights' divergence over the best weights'; 1 where both are 0."""
        if self.bound > 0:
            return self.kl / self.bound
        return 1.0 if self.kl == 0 else np.inf

    def as_dict(self) -> dict[str, Any]:
        """The certificate as plain data for JSON; an infinite radius is null."""
        found = {name: getattr(self, name) for name in ("kl", "best_kl", "bound", "certified", "arithmetic")}
        return found | {"ratio": self.ratio, "radius": self.radius if np.isfinite(self.radius) else None}


def certified_refit(
    layer_or_instance: Any, X: ArrayLike | None = None, *, weights: Any, on: Any = "Q", steps: int = 50
) -> Refit:
    """Find the weights of least divergence on the support of given ones, and bound all others there from below.

    ::

        KL(V) = mean_i KL(f_i || softmax(z_i(V))) >= KL(Y) - 2 ||g||^2/(sigma (1 + sqrt(1 - kappa ||g||/sigma))^2)

    for every V that is 0 where the given weight is, because KL is convex in the logits z, which are affine in one map;
    g = grad KL(Y), and sigma, a lower bound of the Hessian's eigenvalues at Y, are taken on the support, and kappa is
    the most by which two logits of a row come apart per unit of the weight (new:certified_refit). Y is found by
    Newton's method.

    Parameters
    ----------
    layer_or_instance : AttentionLayer, Instance or LayerInstance
        As trained, without a softcap; an instance's masks are not looked at.
    X : (n, d) or (k, n, d) array
        The tokens, with a layer; an instance holds its own.
    weights : (d, d) array, or pair of arrays
        The pruned W of an instance, or (W_Q, W_K) of a layer, which hold exact zeros: those of the judged map give the
        support, the start and what is judged; the other map stays as given.
    on : Any
        "Q", "K", or a pair of these and a head The map: W_Q or W_K of all heads together, or ("Q", 3) of one head. A
        fused weight has one, "W".
    steps : int
        Of Newton's method at most; 0 judges the given weights alone.

    Returns
    -------
    Refit

    Raises
    ------
    InvalidInstance
        If shapes do not fit or there is a softcap.

    Notes
    -----
    Where the tokens do not determine the kept weights (fewer tokens than kept inputs of an output) or the support has
    more than 3000 entries, the bound is KL(Y) - ||g|| radius, for weights within `radius` of `weight`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> layer = AttentionLayer(rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), mask="causal")
    >>> pruned = np.where(np.abs(layer.W_Q) > 0.5, layer.W_Q, 0)
    >>> found = certified_refit(layer, rng.normal(size=(20, 6)), weights=(pruned, layer.W_K))
    >>> found.radius, 0 < found.bound <= found.best_kl < found.kl, found.best_kl < (1 + 1e-9) * found.bound
    (inf, True, True)
    """
    steps = as_count("steps", steps)
    problem = posed_refit(layer_or_instance, X, weights, on)
    function = problem.divergence()
    found = _newton(function, problem.moved, steps)
    radius = _RADIUS * float(np.linalg.norm(problem.dense_weight))
    here, dense = problem.at(found), problem.at(None)
    if here.logits > BALLS:
        below = tangent(function, found)
        slope = float(np.linalg.norm(np.abs(below.gradient) + below.error))
        lower = below.constant - (1 + 1e-9) * slope * (float(np.linalg.norm(found)) + radius)
        own, best = function.value(problem.moved), function.value(found)
        return Refit(found, own, best, max(min(lower, own), 0.0), radius, True, "rounding")
    value, slope = divergence_slope(here, dense, problem.place, problem.support)
    gain = still_to_gain(slope, least_curvature(function, found), reach(function))
    if gain < np.inf:
        radius = np.inf
    else:
        gain = (1 + 1e-9) * slope * radius
    own, best = (float(divergence(problem.at(V), dense).upper) for V in (problem.moved, found))
    return Refit(found, own, best, max(value - gain - 2.0**-50 * value, 0.0), radius, True, "balls")


def _newton(function: OneMap, weight: Array, steps: int) -> Array:
    """Newton steps that lower the divergence or halve its slope, until one promises next to nothing."""
    value, gradient = function.value_and_gradient(weight)
    start = size = float(np.linalg.norm(gradient))
    slope = -np.inf
    for _ in range(steps):
        if size == 0.0 or -slope <= _PROMISE * value:
            break
        direction = _direction(function, weight, gradient, min(0.1, size / start))
        slope, length = float(np.vdot(gradient, direction)), 1.0
        after, slopes = function.value_and_gradient(weight + direction)
        while after > value + _SUFFICIENT * length * slope and float(np.linalg.norm(slopes)) > size / 2:
            length /= 2
            after, slopes = function.value_and_gradient(weight + length * direction)
            if length < _SHORTEST:
                return weight
        weight, value, gradient = weight + length * direction, after, slopes
        size = float(np.linalg.norm(gradient))
    return weight


def _direction(function: OneMap, weight: Array, gradient: Array, tolerance: float) -> Array:
    """Solve H d = -g on the support approximately: by its columns, or by conjugate gradients where they are many."""
    curved, shape = function.curved(weight), weight.shape
    places = np.flatnonzero(function.weight)
    found = np.zeros(weight.size)
    if len(places) <= MOST:
        values, vectors = eigh(hessian(function, curved))
        seen = vectors[:, values > _FLAT * values.max(initial=0.0)]
        found[places] = -seen @ (seen.T @ gradient.ravel()[places] / values[len(values) - seen.shape[1] :])
        return found.reshape(shape)
    scale = function.scale(weight).ravel()[places]

    def product(part: Array) -> Array:
        found[places] = part
        return function.product(curved, found.reshape(shape)).ravel()[places]

    sides: Any = (len(places), len(places))
    H_times: Any = LinearOperator(sides, matvec=product)
    inverse: Any = LinearOperator(sides, matvec=lambda part: part / scale)
    found[places], _ = cg(H_times, -gradient.ravel()[places], rtol=tolerance, maxiter=_PRODUCTS, M=inverse)
    return found.reshape(shape)
