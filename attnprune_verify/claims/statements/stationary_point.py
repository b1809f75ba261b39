"""A stationary point of L proved by one evaluation of its gradient and Hessian in balls, and descent towards it."""

from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Unmet, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.stationary import StationaryPoint, certified_stationary_point

_STEPS = 4  # chosen: the first four steps are compared
_WALK = 12  # chosen: steps allowed from a start near the point


def _extra(rng: Generator, case: Case) -> dict[str, Any]:
    n = len(case["X"])
    return {
        "W": case["W"] / max(1.0, float(np.abs(case["W"]).max())),
        "lam": float(rng.choice([0.0, 1e-3, 0.03, 0.3])),
        "first": rng.standard_normal(n * n),
        "second": rng.standard_normal(n * n),
        "part": float(rng.choice([0.05, 0.5, 0.999])),
    }


def _found(q: Quantities, near: Lifted = None) -> StationaryPoint | None:
    case = q.case
    instance = Instance(case["X"], case["W"], mask=case["mask"], lam=case["lam"])
    try:
        found = certified_stationary_point(instance, near, steps=_WALK)
    except InvalidInstance:  # no row has a choice, or the mask moves no logit
        return None
    return found if found.certified else None


def _moved(q: Quantities, found: StationaryPoint, weights: Lifted, length: float) -> Lifted:
    """The centre moved by `length` along (Pi A)^* of some weights, which lies in the range."""
    along = (q.PiA.T @ weights).reshape(q.d, q.d)
    return q.number(found.M) + along / q.norm(along) * q.number(length * (1 - 1e-9))


def _point(q: Quantities, more: float = 1.0, nearer: float = 1.0, faster: int = 1) -> list[Relation]:
    """Strong convexity between two points of the ball, a crude centre's distance, descent from inside and from M = 1.

    The attention's own curvature K^2 is added to both sides of the first, so that rounding does not decide it.
    """
    found = _found(q)
    if found is None:
        raise Unmet(_NEAR.name)
    part = float(q.case["part"])
    one, other = _moved(q, found, q.first, part * found.radius), _moved(q, found, q.second, found.radius)
    step = one - other
    size = q.square(step)
    bend = ((q.at(one).gradient - q.at(other).gradient) * step).sum()
    shift = q.K * q.K * size
    parts = [at_least(bend + shift, q.number(found.modulus * more) * size + shift, "modulus", offset=shift)]
    crude = _found(q, np.asarray(_moved(q, found, q.first, part * found.radius / 4), dtype=float))
    if crude is not None:
        away = q.norm(q.number(found.M) - q.number(crude.M))
        parts.append(at_most(away, q.number(crude.error * nearer + found.error), "distance"))
    eta, shrink, slip = q.number(found.eta), q.number(found.factor), q.number(2 * found.error + 1e-13 * q.d)
    point = q.at(_moved(q, found, q.second, part * found.basin))
    left = q.norm(point.M - q.number(found.M))
    for t in range(1, _STEPS + 1):
        point = q.at(point.M - point.gradient * eta)
        for _ in range(faster):
            left = left * shrink
        parts.append(at_most(q.norm(point.M - q.number(found.M)), left + slip, f"t = {t}"))
    return parts + _arrival(q, found)


def _arrival(q: Quantities, found: StationaryPoint) -> list[Relation]:
    """Descent from M = 1, after as many steps as are promised, seen by the logits: the rest of M does not move them."""
    if found.steps is None:
        return []
    point = q.at(q.number(np.ones((q.d, q.d))))
    for _ in range(found.steps):
        point = q.at(point.M - point.gradient * q.number(found.eta))
    seen = q.norm(q.PiA @ (point.M - q.number(found.M)).ravel())
    slip = q.K * q.number(found.error + 1e-12 * q.d)
    return [at_most(seen, q.K * q.number(found.basin) + slip, "arrival")]


_NEAR = Hypothesis("4 N < m R^2")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:certified_stationary_point",
        kind=Kind.THEOREM,
        title="A stationary point that one evaluation proves",
        section="G Convergence of Gradient Descent",
        reading=ANY_MASK,
        formula="4 N < m R^2 implies |M* - M| <= 2 sqrt(N/m) and |M_t - M*| <= ((L - m/2)/(L + m/2))^t |M_0 - M*|;"
        " R = m/(b + sqrt(b^2 + 2 a m)), a = (51/200) k^2 K^2, b = (3/5 + (51/100) s) k K^2, eta = 2/(m/2 + L); on"
        " the range of Pi A, where M* is the only stationary point within R and Hess L >= m/2, g and H gradient and"
        " Hessian at M, m > 0 the least eigenvalue of H, N = <g, H^-1 g>, k the largest ||(Pi A)_i||, s the largest"
        " ||c_i||, L an upper bound of Hess L",
        strength=Strength.UPPER,
        margin=_point,
        supply=Instances("any", extra=_extra, small=True, free=()),
        hypotheses=(_NEAR,),
        uses=("new:row_third_bound", "fix:lip_grad_l"),
        wrong=(
            Wrong("twice the modulus", lambda q: _point(q, more=2.0)),
            Wrong("0.45 of the distance", lambda q: _point(q, nearer=0.45)),
            Wrong("the fourth power of the factor", lambda q: _point(q, faster=4)),
        ),
        source="new",
        note="at M = 1 it asks for a small lam or a large one, and for lam > C_- K^2 new:strongly_convex_descent says"
        " more; R is small where K is large",
    ),
)
