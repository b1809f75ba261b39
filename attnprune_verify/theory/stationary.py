"""A stationary point of L that one evaluation in balls proves: where, how nearly alone, and how fast descent comes."""

import math
from dataclasses import dataclass, field

import numpy as np
from flint import arb, arb_mat
from numpy.typing import ArrayLike

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.formulas import newton, rates, sharp
from attnprune_verify.theory.numbers.balls import lower, precision, upper
from attnprune_verify.theory.quantities.reduced import (
    ReducedLoss,
    ReducedPoint,
    largest_above,
    least_below,
    solved,
    triangular,
)

_STEPS = 60  # chosen: a walk that needs more is given up


@dataclass(frozen=True)
class StationaryPoint:
    """Certificate of a stationary point M* near M; if `certified` is False, only `says` has a value.

    Distances and balls are those of the part in the range of Pi A, in the Frobenius norm; M* has no other part, and for
    lam > 0 every stationary point of L is in the range.

    Attributes
    ----------
    certified : bool
    says : str
        The statement with its numbers, or the reason for the lack of one.
    M : (d, d) array
        The centre, in float64.
    error : float
        ||M - M*||_F is at most this.
    radius : float
        No other stationary point within this distance of M in the range.
    modulus : float
        Hess L >= modulus I there, on the range.
    eta, factor : float
        Gradient descent with the step eta multiplies the distance to M* by at most `factor` a step, in the range, and
        by 1 - eta lam outside.
    basin : float
        This rate holds for every M_0 whose part in the range is within this distance of M*.
    from_ones : float
        Bound of the distance of M = 1 from M*.
    steps : int or None
        After this number of steps from M = 1 descent with eta is certainly within `basin`; None if that is not proved.
    convex_everywhere : bool
        True if lam > C_- K^2: new:strongly_convex_descent then proves all this for every M_0, without a search.
    """

    certified: bool
    says: str
    M: Array = field(repr=False)
    error: float = math.nan
    radius: float = math.nan
    modulus: float = math.nan
    eta: float = math.nan
    factor: float = math.nan
    basin: float = math.nan
    from_ones: float = math.nan
    steps: int | None = None
    convex_everywhere: bool = False


def certified_stationary_point(
    instance: Instance, near: ArrayLike | None = None, *, steps: int = 100
) -> StationaryPoint:
    """Prove a stationary point of L: existence, uniqueness in a ball, the rate of gradient descent on that ball.

    With g, H the gradient and Hessian of L at M on the range of Pi A, m the least eigenvalue of H, N = <g, H^{-1} g>,
    k = max_i ||(Pi A)_i||, K = ||Pi A||, s = max_i ||c_i||::

        a = (51/200) k^2 K^2,  b = (3/5 + (51/100) s) k K^2,  R = m/(b + sqrt(b^2 + 2 a m))
        4 N < m R^2  implies exactly one stationary point within R, at most 2 sqrt(N/m) away, and Hess L >= m/2 there

    Everything is evaluated in balls; m is proved by a Cholesky decomposition in balls (new:certified_stationary_point).

    Parameters
    ----------
    instance : Instance
        One sample; min(sum_i (m_i - 1), d^2) at most 160.
    near : (d, d) array, optional
        The centre; by default Newton's method in float64 looks for one from M = 1. At M = 1 itself the hypothesis asks
        for a small lam (below the curvature that attention has on the range) or a large one.
    steps : int
        How far descent from M = 1 is followed, in balls, until it is within `basin`.

    Returns
    -------
    StationaryPoint

    Raises
    ------
    InvalidInstance
        For a batch or a larger problem, where no row has a choice, and where the mask moves no logit.

    Examples
    --------
    >>> import numpy as np
    >>> W = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> found = certified_stationary_point(Instance(np.eye(2), W, lam=0.01))
    >>> found.certified, found.error < 1e-12, found.steps, found.convex_everywhere
    (True, True, 1, False)
    >>> found.M.round(3).tolist()
    [[0.858, 0.858], [0.858, 0.858]]
    """
    with precision():
        loss = ReducedLoss(instance)
        centre = _searched(loss) if near is None else loss.coordinates(_shaped(near, instance.d))
        return _judged(loss, _exact(centre), steps)


def _shaped(near: ArrayLike, d: int) -> Array:
    M = np.asarray(near, dtype=np.float64)
    if M.shape != (d, d) or not np.isfinite(M).all():
        raise InvalidInstance(f"near must be finite and of shape {(d, d)}; got {M.shape}")
    return M


def _judged(loss: ReducedLoss, centre: arb_mat, steps: int) -> StationaryPoint:
    entries = loss.mask(centre)
    M = np.array([float(x.mid()) for x in entries]).reshape(loss.d, loss.d)
    at = loss.at(centre)
    m = least_below(at.hessian)
    factor = triangular(at.hessian)
    if not m > 0 or factor is None:
        return StationaryPoint(False, f"the least curvature on the range of Pi A is about {float(m):.3g}, not > 0.", M)
    s, k, K, lam = at.residual, loss.k, loss.K, loss.lam
    a, b = newton.hessian_bend(k, K), newton.hessian_slope(s, k, K)
    R = newton.trusted_radius(m, a, b)
    N = arb(upper(_square(solved(factor, at.gradient))))
    if not newton.finds(N, m, R):
        says = f"<g, H^-1 g> = {float(N):.3g} is not below m R^2/4 = {float(m * R * R / 4):.3g}: no point is proved."
        return StationaryPoint(False, says, M)
    e = newton.distance(N, m)
    top = arb.min(sharp.lipschitz(K, lam), largest_above(at.hessian) + m / 2)
    L = arb.max(top, lam)
    eta = arb(lower(newton.contracting_step(m, L)))
    basin = R - e
    rounding = _apart(arb_mat([[x] for x in entries]), arb_mat([[x] for x in M.ravel().tolist()]))
    shrink = 1 - eta * m / 2  # eta is at most the step of `newton.contraction`
    says = (
        f"Exactly one stationary point M* within {lower(R - e):.3g} of M in the range of Pi A, at most"
        f" {upper(e):.3g} away; descent with eta = {float(eta):.4g} multiplies the distance by at most"
        f" {upper(shrink):.6g} a step."
    )
    return StationaryPoint(
        certified=True,
        says=says,
        M=M,
        error=upper(e + rounding),
        radius=lower(R),
        modulus=lower(m / 2),
        eta=float(eta),
        factor=upper(shrink),
        basin=lower(basin),
        from_ones=upper(_apart(loss.start, centre) + e),
        steps=_arrival(loss, eta, centre, basin - e, steps),
        convex_everywhere=rates.strongly_convex(K, lam),
    )


def _square(column: arb_mat) -> arb:
    return sum((x * x for x in column.entries()), arb(0))


def _apart(one: arb_mat, other: arb_mat) -> arb:
    """||one - other|| from above: the root of a ball that reaches below 0 would be nan."""
    return arb(upper(_square(one - other))).sqrt()


def _exact(column: arb_mat) -> arb_mat:
    """The midpoints."""
    return arb_mat([[x.mid()] for x in column.entries()])


def _arrival(loss: ReducedLoss, eta: arb, centre: arb_mat, reach: arb, most: int) -> int | None:
    """The first t <= most with descent from M = 1 certainly within `reach` of the centre.

    The walk is on exact midpoints; its distance from descent's is at most `drift`, which a step multiplies by at most
    ||I - eta Hess|| and to which it adds the radius of the evaluation.
    """
    down = arb.max(-sharp.lower_curvature(loss.K, loss.lam), arb(0))
    growth = arb.max(1 + eta * down, eta * sharp.lipschitz(loss.K, loss.lam) - 1)
    here, drift = _exact(loss.start), _apart(loss.start, _exact(loss.start))
    for t in range(most + 1):
        if _apart(here, centre) + drift < reach:
            return t
        there = here - loss.gradient(here) * eta
        here, drift = _exact(there), arb(upper(drift * growth + _apart(there, _exact(there))))
    return None


def _floats(balls: arb_mat) -> Array:
    return np.array([[float(x.mid()) for x in row] for row in balls.tolist()])


def _searched(loss: ReducedLoss) -> arb_mat:
    """Newton's method from M = 1 with the sign of negative curvature turned, halved until the loss falls."""
    here = loss.start
    at: ReducedPoint = loss.at(here)
    for _ in range(_STEPS):
        values, vectors = np.linalg.eigh(_floats(at.hessian))
        slope = vectors.T @ _floats(at.gradient)[:, 0]
        size = np.maximum(np.abs(values), 1e-12 * float(np.abs(values).max()))
        step = vectors @ (slope / size)
        if not np.linalg.norm(step) > 1e-15 * (1 + float(_square(here).sqrt())):
            break
        moved = _shorter(loss, here, at, step)
        if moved is None:
            break
        here, at = moved
    return here


def _shorter(loss: ReducedLoss, here: arb_mat, at: ReducedPoint, step: Array) -> tuple[arb_mat, ReducedPoint] | None:
    for halvings in range(40):
        there = _exact(here - arb_mat([[x] for x in (step * 0.5**halvings).tolist()]))
        moved = loss.at(there)
        if moved.loss.mid() < at.loss.mid():
            return there, moved
    return None
