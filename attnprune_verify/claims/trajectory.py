"""Gradient descent on the literal loss, in any arithmetic: what the claims about iterates walk along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnprune_verify.claims.quantities import Quantities

__all__ = ["descend", "sharp_L", "simple_L", "step_below", "upper_constant"]


def upper_constant(q: Quantities) -> Any:
    """C_+ = (39 + 55 sqrt 33)/1152 = 0.30812."""
    return (q.sqrt(q.number(33.0)) * 55 + 39) / 1152


def sharp_L(q: Quantities) -> Any:
    """lam + C_+ K^2."""
    return q.lam + upper_constant(q) * q.K * q.K


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
