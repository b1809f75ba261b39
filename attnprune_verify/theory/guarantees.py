"""Guarantees proved for gradient descent from M^(0) = 1 in place of thm:our_convergence: any n, d, mask and W."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from flint import arb

from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.theory import pair
from attnprune_verify.theory.assumptions import show
from attnprune_verify.theory.constants import constant_balls
from attnprune_verify.theory.formulas import paper, rates, sharp
from attnprune_verify.theory.numbers.balls import exponential, log10, lower, normalised, power_of_two, precise, upper
from attnprune_verify.theory.quantities.measure import measure, once_per_instance

_UP = frozenset({"loss", "L", "attention", "gradient", "T", "xi", "at_ones"})
"""Numbers that a statement bounds something by from above; the others are lower bounds, and rounded down."""
_PART = 100
"""The gradient's norm is shown to fall to 1/_PART of what it is at M = 1."""


@dataclass(frozen=True)
class Guarantee:
    """One proved statement about the iterates M^t of gradient descent from M^(0) = 1.

    Attributes
    ----------
    id : str
        confinement, gradient-norm, repaired-theorem, linear-convergence or strong-convexity; pair-descent of a layer.
    applies : bool
    says : str
        The statement with its numbers, or why it does not apply.
    numbers, log10 : Mapping
        The numbers in it, rounded so that it still holds with them.
    """

    id: str
    applies: bool
    says: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    log10: Mapping[str, float] = field(default_factory=dict)


@precise
def pair_descent(instance: LayerInstance) -> Guarantee:
    """The guarantee of descent on both masks of a layer from M_Q = M_K = 1 (new:pair_descent), rotations included.

    Examples
    --------
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> layer = AttentionLayer(np.eye(2), np.eye(2), heads=1)
    >>> found = pair_descent(LayerInstance(layer, np.eye(2), lam=0.5))
    >>> found.applies, found.numbers["loss"], found.numbers["L"] < 3.1
    (True, 2.0, True)
    """
    layer, lam = instance.layer, arb(instance.lam)
    if not pair.bilinear(layer):
        return _made("pair-descent", False, "Not with biases or a softcap: the logits are not bilinear in both masks.")
    if instance.lam == 0:
        return _made("pair-descent", True, "lam = 0: M_Q = M_K = 1 is a global minimiser.", loss=arb(0))
    N = arb(layer.W_Q.size + layer.W_K.size)
    k = arb(pair.pair_norm(instance).upper())
    L, loss = pair.lipschitz_confined(k, N, lam), pair.start_loss(N, lam)
    steps = _PART**2 * L / lam
    says = (
        f"Descent on M_Q and M_K together from ones with steps of 1/L, L = {show(L)}, keeps ||M_Q||_F^2 + "
        f"||M_K||_F^2 <= N = {show(N)} and the loss at most lam N/2 = {show(loss)}; within T = {_PART**2} L/lam = "
        f"{show(steps)} steps some gradient's norm is 1/{_PART} of its start lam sqrt(N)."
    )
    return _made("pair-descent", True, says, loss=loss, L=L, T=steps)


@precise
def guarantees(instance: Instance, eps: float | None = None) -> tuple[Guarantee, ...]:
    """Evaluate the guarantees for gradient descent with eta = 1/L_sharp from M^(0) = 1; `eps` as in `constants`.

    The gradient is L_sharp-Lipschitz, so L(M^t) never increases from L(1) = lam d^2 / 2, which confines the iterates
    and bounds the least gradient; the rest needs its own hypothesis on lam or on beta and min|W|.

    Examples
    --------
    >>> import numpy as np
    >>> for item in guarantees(Instance(np.eye(2), np.ones((2, 2)), lam=0.001)):
    ...     print(item.id, item.applies)
    confinement True
    gradient-norm True
    repaired-theorem True
    linear-convergence True
    strong-convexity False
    """
    balls = constant_balls(instance, eps)
    return (
        _confinement(instance),
        _gradient_norm(instance, balls),
        _repaired_theorem(instance, balls),
        _linear(instance, balls),
        _convex(instance, balls),
    )


def _made(identity: str, applies: bool, says: str, **numbers: arb) -> Guarantee:
    return Guarantee(
        identity,
        applies,
        says,
        {name: (upper if name in _UP else lower)(ball) for name, ball in numbers.items()},
        {name: log10(ball) for name, ball in numbers.items() if ball > 0 and ball.is_finite()},
    )


def _confinement(instance: Instance) -> Guarantee:
    """||M^t||^2 + ||c^t||^2 / lam <= d^2, since L(M^t) <= L(1) = lam d^2 / 2, for eta < 2/L_sharp.

    L_attn is at most n_e, the number of rows with a choice, at every M (fix:bound_c): the lesser of the two counts.
    """
    loss = rates.start_loss(instance.d, instance.lam)
    choices = arb(int((instance.allowed.sum(axis=-1) >= 2).sum()))
    attention = arb.min(loss, choices)
    if instance.lam == 0:
        says = "lam = 0: M = 1 is a global minimiser and every iterate stays there."
        return _made("confinement", True, says, loss=loss, attention=attention)
    says = f"For all t, ||M^t||_F <= d = {instance.d} and L_attn(M^t) <= (lam/2)(d^2 - ||M^t||_F^2) <= {show(loss)}"
    if loss > choices:
        says += f"; of L_attn this says nothing, which is at most n_e = {show(choices)} at every M"
    return _made("confinement", True, f"{says}.", loss=loss, attention=attention)


def _gradient_norm(instance: Instance, balls: Mapping[str, arb]) -> Guarantee:
    """`rates.steps_to_gradient`: at M = 1 the norm is lam d exactly, so only T > L_sharp / lam is informative."""
    lam, d = arb(instance.lam), instance.d
    if instance.lam == 0:
        return _made("gradient-norm", True, "lam = 0: the gradient at M = 1 is 0.", gradient=arb(0), T=arb(0))
    fraction = arb(1) / _PART
    goal, steps = fraction * lam * d, rates.steps_to_gradient(balls["L_sharp"], lam, fraction)
    says = (
        f"Within T = {_PART**2} L_sharp/lam = {show(steps)} steps of size 1/L_sharp some ||grad L(M^t)||_F <= "
        f"{show(goal)}, 1/{_PART} of its start lam d."
    )
    return _made("gradient-norm", True, says, gradient=goal, T=steps)


def _repaired_theorem(instance: Instance, balls: Mapping[str, arb]) -> Guarantee:
    """The theorem with mu = 2 (min|W| beta delta)^2, delta a certified floor of F along the whole path."""
    n, d, lam = instance.n, instance.d, instance.lam
    found = measure(instance)
    if (instance.k or 1) > 1:
        return _made("repaired-theorem", False, "Not for a batch: its averaged gradients can cancel.")
    floor = path_floor(instance)
    beta = arb(found.beta.enclosure.lower())
    mu = sharp.mu(found.min_W, beta, floor)
    if not mu > 0:
        why = "the floor of F on the path underflows" if found.beta.positive else f"beta = 0 ({found.beta.reason})"
        why = "min|W| = 0" if found.min_W == 0 else why
        return _made("repaired-theorem", False, f"No constant mu > 0: {why}.", delta=floor, mu=arb(0))
    eps = balls["eps"]
    xi = sharp.xi_confined(n, d, balls["K"], lam, mu)
    goal, at_ones = paper.goal(xi, eps), paper.at_ones(n, d, lam, mu)
    steps = arb(0)
    if lam > 0:
        steps = paper.iterations(rates.start_loss(d, lam), balls["eta_corrected"], mu, eps, n)
    says = (
        f"F(M^t) >= delta = {show(floor)} on the path, so mu = {show(mu)}; within T = {show(steps)} steps some M^t has "
        f"L_attn/n^2 + lam^2 ||M||_F^2/(mu n^2) <= (xi + eps)/2 = {show(goal)}."
    )
    if at_ones <= goal:
        says += f" M = 1 satisfies it already ({show(at_ones)})."
    return _made("repaired-theorem", True, says, delta=floor, mu=mu, xi=xi, T=steps, at_ones=at_ones)


def _linear(instance: Instance, balls: Mapping[str, arb]) -> Guarantee:
    """`rates.linear_rate` up to `rates.linear_rate_threshold`, for eta = 1/L_sharp."""
    lam, threshold = arb(instance.lam), balls["linear_rate_threshold"]
    if instance.lam == 0:
        return _made("linear-convergence", False, "lam = 0: M = 1 is already optimal.", threshold=threshold)
    if not rates.converges_linearly(lam, threshold):
        says = f"lam = {instance.lam:.3g} is above (f_min / (sqrt(5) d))^2 = {show(threshold)}."
        return _made("linear-convergence", False, says, threshold=threshold)
    rate = rates.linear_rate(lam, balls["L_sharp"])
    says = (
        f"lam = {instance.lam:.3g} <= (f_min / (sqrt(5) d))^2 = {show(threshold)}: a unique global minimiser, and "
        f"L(M^t) - L* <= (1 - {show(rate)})^t lam d^2/2."
    )
    return _made("linear-convergence", True, says, threshold=threshold, rate=rate)


def _convex(instance: Instance, balls: Mapping[str, arb]) -> Guarantee:
    """`rates.strongly_convex_rate` where L is strongly convex on all of R^{d x d}, for eta = 1/L_sharp."""
    lam, threshold = arb(instance.lam), balls["convexity_threshold"]
    if not rates.strongly_convex(balls["K"], lam):
        says = f"lam = {instance.lam:.3g} is not above C_- K^2 = {show(threshold)}."
        return _made("strong-convexity", False, says, threshold=arb(upper(threshold)))
    modulus = balls["curvature_lower"]
    rate = rates.strongly_convex_rate(balls["K"], lam, balls["L_sharp"])
    says = (
        f"lam = {instance.lam:.3g} > C_- K^2 = {show(threshold)}: L is {show(modulus)}-strongly convex, and gradient "
        f"descent converges from anywhere, L(M^t) - L* <= (1 - {show(rate)})^t (L(M^0) - L*)."
    )
    return _made("strong-convexity", True, says, threshold=arb(upper(threshold)), modulus=modulus, rate=rate)


@once_per_instance
def path_floor(instance: Instance) -> arb:
    """A lower bound of F over {L <= L(1)}, which holds every iterate: positive on every instance.

    The better of `rates.near_floor` and `rates.far_floor_log`, with v_ij = ||W * x_i x_j^T||_F from
    v_ij^2 = (x_i^2)^T W^2 (x_j^2), entrywise squares.
    """
    n, d = instance.n, instance.d
    dense = measure(instance).dense_floor
    near = rates.near_floor(d, dense.allowed * (-arb(dense.radius)).exp(), instance.lam, len(instance.samples))
    weight, exponent = normalised(instance.W)
    largest = arb(0)
    for sample in instance.samples:
        tokens, token_exponent = normalised(sample)
        reach = np.sqrt((tokens**2 @ weight**2) @ (tokens**2).T) * (1 + 1e-9)  # far above gamma_{2d}
        reach = np.where(instance.allowed, reach, 0.0)
        largest = arb.max(largest, arb(float(reach.max()) + 1e-150) * power_of_two(2 * token_exponent + exponent))
    logarithm = lower(rates.far_floor_log(d, n, largest))
    # a factor of 4 pays for the exponent's fraction, which `exponential` drops where it is huge
    far = exponential(logarithm) / (1 if logarithm > -1e3 else 4) if logarithm > -math.inf else arb(0)
    return arb.max(arb.max(arb(near.lower()), arb(far.lower())), arb(0))
