"""F, c, the gradient and a Hessian direction of one instance as balls, by the cheapest route that is still sound.

Small instances are evaluated in ball arithmetic. Larger ones in floating point, with the running error bound of every
operation as radius, and very large ones with one crude a-priori bound, which decides whatever has a wide margin.
"""

import math
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model import Objective
from attnprune_verify.model.maps import Fused
from attnprune_verify.oracle import ball, running_error
from attnprune_verify.oracle.ball_forms import attention_rows, attention_term, gradient_balls
from attnprune_verify.oracle.enclosure import as_balls
from attnprune_verify.oracle.inputs import posed
from attnprune_verify.theory.numbers.balls import doubles, frobenius, precision
from attnprune_verify.theory.numbers.spectral import UNIT_ROUNDOFF, dot_error
from attnprune_verify.theory.quantities.attention_floor import attention_floor

_BALL_WORK = 3e6  # chosen: operations that are affordable in balls
_RUNNING_WORK = 1e8  # chosen: operations that are affordable with a running error
_SMALL = 2e4  # chosen: operations that are affordable with 8192 bits
_MOST_BITS = 2048  # chosen: the loss of a small instance at that precision takes milliseconds


class Route:
    """Names of the ways to evaluate an instance, chosen by its size."""

    BALLS = "ball arithmetic"
    RUNNING = "floating point with running error bounds"
    CRUDE = "floating point with an a-priori error bound"


def route(instance: Instance) -> str:
    """The route for an instance, by the work k n^2 d."""
    if work(instance) <= _BALL_WORK:
        return Route.BALLS
    return Route.RUNNING if work(instance) <= _RUNNING_WORK else Route.CRUDE


def work(instance: Instance) -> int:
    """Multiplications of one evaluation of F, with the exponentials counted as 20."""
    return len(instance.samples) * instance.n**2 * (instance.d + 20)


def precision_ladder(instance: Instance) -> tuple[int, ...]:
    """Precisions to try: many bits help where logits are huge or tiny, and are affordable on small instances."""
    if route(instance) != Route.BALLS:
        return (128,)
    return (128, 512, 2048, 8192) if work(instance) <= _SMALL else (128, 512)


@dataclass(frozen=True)
class AttentionPart:
    """Balls of the attention term at M; over a batch c_squares and gradient are averages over the samples.

    Attributes
    ----------
    c_squares : arb
        ||c||_F^2, the mean over a batch: twice L_attn.
    gradient_squares : arb
        ||grad L_attn||_F^2 = ||W * (X^T p X)||_F^2.
    product : arb
        <grad L_attn, M>.
    floor : arb
        min F(M) over the allowed positions.
    """

    c_squares: arb
    gradient_squares: arb
    product: arb
    floor: arb


@dataclass(frozen=True)
class GradientChange:
    """||grad L_attn(M) - grad L_attn(M')||_F and ||grad L(M) - grad L(M')||_F."""

    attention: arb
    whole: arb


def objective_of(instance: Instance, lam: float, *, keep_dense: bool = False) -> Objective:
    """The loss in float64; the instance is validated, nothing is checked again."""
    X, W = doubles(instance.samples, instance.W)
    return Objective.of(Fused(X, W, instance.visible), lam, keep_dense=keep_dense)


def attention_part(instance: Instance, bits: int) -> AttentionPart:
    """Enclose the quantities of the PL inequality, at `bits` bits on the ball route.

    Examples
    --------
    >>> import numpy as np
    >>> at = attention_part(Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2))), 128)
    >>> round(float(at.gradient_squares / at.c_squares), 15)  # (0.1 / 2)^2, attained exactly
    0.0025
    """
    (M,) = doubles(instance.M_or_ones)
    if _flat(instance, M):
        return AttentionPart(arb(0), arb(0), arb(0), _floor_ball(instance))
    if route(instance) == Route.BALLS:
        return _by_balls(instance, M, bits)
    value, (gradient,) = objective_of(instance, 0.0).loss_and_gradient_at([M])
    with precision():
        if route(instance) == Route.RUNNING:
            at = posed(instance)._replace(lam=0.0)
            slip, blur = running_error.loss_error(at), running_error.gradient_error(at)
            c_squares = _non_negative(2 * arb(value, slip))
            error = frobenius(blur)
        else:
            residual, crude = _crude_errors(instance, M)
            error = arb(crude)
            c_squares = _non_negative(arb(math.sqrt(2 * value), residual + 1e-12 * math.sqrt(2 * value))) ** 2
        norm = _non_negative(frobenius(gradient) + arb(0, 1) * error)
        product = arb(float(np.vdot(gradient, M))) + arb(0, 1) * (error + frobenius(gradient) * 1e-9) * frobenius(M)
        return AttentionPart(c_squares, norm**2, product, _floor_ball(instance))


def attention_squares(instance: Instance) -> arb:
    """||c||_F^2 at the instance's M (mean over a batch), in balls where that is cheap, else in floating point."""
    (M,) = doubles(instance.M_or_ones)
    if _flat(instance, M):
        return arb(0)
    if route(instance) != Route.BALLS:
        return arb(2 * objective_of(instance, 0.0).loss_at([M]))
    bits = 128
    while True:
        with precision(bits):
            squares = 2 * attention_term(posed(instance))
        if squares.rel_accuracy_bits() > 30 or bits >= _MOST_BITS:
            return squares
        bits *= 4


def _by_balls(instance: Instance, M: Array, bits: int) -> AttentionPart:
    with precision(bits):
        at = posed(instance)
        entries = gradient_balls(at)[0].entries()
        floor = arb(1)
        for rows in attention_rows(at):
            for row, positions in zip(rows, at.allowed, strict=True):
                for j in np.flatnonzero(positions).tolist():
                    floor = arb.min(floor, row[j])
        return AttentionPart(
            c_squares=2 * attention_term(at),
            gradient_squares=_non_negative(sum((g * g for g in entries), arb(0))),
            product=sum((g * arb(m) for g, m in zip(entries, M.ravel().tolist(), strict=True)), arb(0)),
            floor=floor,
        )


def _flat(instance: Instance, M: Array) -> bool:
    """F(M) = F(1) exactly, so c = 0 and the attention gradient is 0: nothing is pruned, or every F_ij is 0 or 1."""
    return bool(((M == 1) | (instance.W == 0)).all()) or bool((instance.allowed.sum(axis=1) == 1).all())


def _floor_ball(instance: Instance) -> arb:
    floor = attention_floor(instance)
    with precision():
        return floor.allowed * arb(0, min(floor.radius, 700.0)).exp()


def _non_negative(number: arb) -> arb:
    return arb.max(number, arb(0))


def weight_error(instance: Instance, M: Array) -> float:
    """rho: every entry of a straightforward, max-shifted float F(M) is within a factor 1 +- rho of the true one.

    A logit is off by at most eps = gamma max||x||^2 ||M * W||_F, and a weight by a factor exp(+-(6 eps + (n + 20) u)).
    """
    X, W = doubles(instance.samples, instance.W)
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow makes the bound infinite or nan: no bound
        longest = float(np.einsum("kia,kia->ki", X, X).max())
        logit = dot_error(2 * instance.d + 4) * longest * float(np.linalg.norm(M * W)) * 1.01
    return math.expm1(6 * logit + (instance.n + 20) * UNIT_ROUNDOFF) * 1.01 if logit < 0.1 else math.inf


def _crude_errors(instance: Instance, M: Array) -> tuple[float, float]:
    """Bounds on ||c_float - c||_F and on ||G_float - G||_F of any straightforward, max-shifted evaluation.

    With rho as in `weight_error`, c is off by rho (F + f), every p_j at first order by F_j (8 rho + 2 (n + 8) u), and
    the products with X add gamma_{2n}.
    """
    X, W = doubles(instance.samples, instance.W)
    n = instance.n
    rho = max(weight_error(instance, M), weight_error(instance, np.ones_like(M)))
    tokens = float(np.einsum("kia,kia->k", X, X).max()) * 1.01
    weight = float(np.abs(W).max())
    gradient = weight * tokens * math.sqrt(n) * 1.1 * (8 * rho + 4 * dot_error(2 * n + 16))
    return 2.2 * rho * math.sqrt(n), gradient


def gradient_change(instance: Instance, M: Array, other: Array, bits: int) -> GradientChange:
    """Enclose ||grad L(M) - grad L(M')||_F and the same of the attention term; lam (M - M') is added exactly."""
    with precision(bits):
        if route(instance) == Route.BALLS:
            attention = _ball_gradient(instance, M) - _ball_gradient(instance, other)
            moved = (as_balls(M) - as_balls(other)) * arb(instance.lam)
            return GradientChange(_norm(attention), _norm(attention + moved))
        left, right = _attention_gradient(instance, M), _attention_gradient(instance, other)
        change, moved_floats = left[0] - right[0], instance.lam * (M - other)
        size = frobenius(left[0]) + frobenius(right[0]) + frobenius(moved_floats)
        blur = arb(0, 1) * (left[1] + right[1] + size * 8 * UNIT_ROUNDOFF)
        return GradientChange(
            _non_negative(frobenius(change) + blur), _non_negative(frobenius(change + moved_floats) + blur)
        )


def _norm(matrix: arb_mat) -> arb:
    """||matrix||_F; a sum of squares whose ball reaches below 0 has a root between 0 and that of its upper end."""
    squares = sum((entry * entry for entry in matrix.entries()), arb(0))
    if squares > 0 or squares == 0:
        return squares.sqrt()
    return arb(0).union(squares.upper().sqrt()) if squares.is_finite() else arb.nan()


def _ball_gradient(instance: Instance, M: Array) -> arb_mat:
    if _flat(instance, M):
        return arb_mat(*instance.W.shape)
    return gradient_balls(posed(instance)._replace(masks=(M,)))[0]


def _attention_gradient(instance: Instance, M: Array) -> tuple[Array, arb]:
    """W * (X^T p X) as floats, and a bound of the Frobenius norm of their error."""
    if _flat(instance, M):
        return np.zeros_like(M), arb(0)
    gradient = objective_of(instance, 0.0).loss_and_gradient_at([M])[1][0]
    if route(instance) == Route.RUNNING:
        return gradient, frobenius(running_error.gradient_error(posed(instance)._replace(masks=(M,), lam=0.0)))
    return gradient, arb(_crude_errors(instance, M)[1])


def curvature_along(instance: Instance, M: Array, V: Array) -> arb:
    """Enclose ||Hess L(M) V||_F / ||V||_F on the ball and running-error routes."""
    at = posed(instance)._replace(masks=(M,))
    with precision():
        if route(instance) == Route.BALLS:
            enclosure = ball.enclosed_product(at, (V,))
            if not np.isfinite(enclosure.magnitude).all():
                return arb.nan()
            return _around(enclosure.midpoint, enclosure.radius) / frobenius(V)
        (value,) = objective_of(instance, instance.lam).hessian_operator_at([M], keep_rows=False)([V])
        return _around(value.ravel(), running_error.product_error(at, (V,))) / frobenius(V)


def _around(value: Array, radius: Array) -> arb:
    """The norm of any matrix within `radius` of `value`, entry by entry."""
    return _non_negative(frobenius(value) + arb(0, 1) * frobenius(radius))
