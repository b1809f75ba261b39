"""Gradient descent on the literal loss, in any arithmetic: what the claims about iterates walk along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.theory import sharp

__all__ = ["descend", "minimiser", "sharp_L", "simple_L", "step_below", "upper_constant"]


def upper_constant(q: Quantities) -> Any:
    """C_+ of the sharp Lipschitz constant."""
    return q.of(sharp.C_plus)


def sharp_L(q: Quantities) -> Any:
    """lam + C_+ K^2."""
    return q.of(sharp.lipschitz, q.K, q.lam)


def simple_L(q: Quantities) -> Any:
    """lam + (5/4) K^2: four times the sharp constant, and formally proved."""
    return q.lam + q.K * q.K * 5 / 4


def step_below(q: Quantities, stretch: float, constant: Callable[[Quantities], Any] = sharp_L) -> Any:
    """A float64 step just below stretch/L, taken exactly: a ball as step would widen with every iterate."""
    return q.number(stretch / float(constant(q)) * (1 - 1e-9))


def descend(q: Quantities, eta: Any, steps: int, momentum: float = 0.0) -> Iterator[Quantities]:
    """The problem at M_0 = 1, M_1, ..., M_steps with M_{t+1} = M_t - eta v_t, v_t = momentum v_{t-1} + grad L(M_t)."""
    point = q.at(q.number(np.ones((q.d, q.d))))
    velocity = q.number(np.zeros((q.d, q.d)))
    yield point
    for _ in range(steps):
        velocity = velocity * q.number(momentum) + point.gradient
        point = q.at(point.M - velocity * eta)
        yield point


def minimiser(case: Case) -> NDArray[np.float64]:
    """A good point, found in floats: Newton's method from M = 1, kept while it decreases the loss."""
    plain = Quantities(case)
    point = plain.at(np.ones((plain.d, plain.d)))
    for _ in range(6):
        step = np.linalg.lstsq(point.curvature + plain.lam * np.eye(plain.d**2), point.gradient.ravel(), rcond=None)[0]
        moved = plain.at(point.M - step.reshape(point.M.shape))
        if not moved.L < point.L:
            break
        point = moved
    found: NDArray[np.float64] = point.M
    return found
