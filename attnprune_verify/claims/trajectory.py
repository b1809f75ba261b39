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
    q.f, q.allowed  # noqa: B018  # the same on the whole way
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
        step = np.linalg.lstsq(_hessian(point), point.gradient.ravel(), rcond=None)[0]
        moved = plain.at(point.M - step.reshape(point.M.shape))
        if not moved.L < point.L:
            break
        point = moved
    found: NDArray[np.float64] = point.M
    return found


def _hessian(q: Quantities) -> NDArray[np.float64]:
    """The Hessian of L in float64, the sum over rows of A^T (diag(c + s) - s (c + s)^T - <c, s> I) J A, and lam I.

    For the search alone. What is claimed of the curvature is asked of `Quantities.curvature`, from the definition.
    """
    s, c = q.F, q.c
    pulls = (q.X[:, None, :, None] * q.W * q.X[None, :, None, :]).reshape(q.n, q.n, q.d**2)  # (row, column, entry of M)
    moved = s[:, :, None] * (pulls - np.einsum("ij,ijk->ik", s, pulls)[:, None, :])
    both = c + s
    bent = both[:, :, None] * moved - s[:, :, None] * np.einsum("ij,ijk->ik", both, moved)[:, None, :]
    bent -= (c * s).sum(axis=1)[:, None, None] * moved
    found: NDArray[np.float64] = pulls.reshape(-1, q.d**2).T @ bent.reshape(-1, q.d**2) + q.lam * np.eye(q.d**2)
    return found
