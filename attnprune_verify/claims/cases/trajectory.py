"""Gradient descent on the literal loss, in any arithmetic: what the claims about iterates walk along."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.cases.batch import Batch, problem
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.theory.formulas import sharp

_NEWTON_STEPS, _HALVINGS = 30, 8  # chosen: digits double in each step; a step is halved until the loss falls
_BISECTIONS, _FAR = 40, 1e9  # a width of 2^-40 of the interval; beyond 1e9 a level set counts as unbounded
_STILL: ContextVar[list[int] | None] = ContextVar("_STILL", default=None)
"""How many steps were kept back while descents stand still; None where they move."""


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


@contextmanager
def standing_still() -> Iterator[list[int]]:
    """Take no step of any descent, so that every iterate is the start: what is then still true was so before a step.

    The list grows with each step that was kept back; it is empty where nothing descends.
    """
    kept: list[int] = []
    token = _STILL.set(kept)
    try:
        yield kept
    finally:
        _STILL.reset(token)


def moving(eta: Any) -> Any:
    """The step that is taken: eta, or 0 while descents stand still."""
    kept = _STILL.get()
    if kept is None:
        return eta
    kept.append(1)
    return eta * 0


def descend(q: Quantities, eta: Any, steps: int, momentum: float = 0.0, start: Any = None) -> Iterator[Quantities]:
    """The problem at M_0, M_1, ..., M_steps with M_{t+1} = M_t - eta v_t, v_t = momentum v_{t-1} + grad L(M_t).

    From M_0 = 1 where no start is given. `eta` may be a function of the point.
    """
    point = q.at(q.number(np.ones((q.d, q.d))) if start is None else start)
    velocity = q.number(np.zeros((q.d, q.d)))
    yield point
    for _ in range(steps):
        velocity = velocity * q.number(momentum) + point.gradient
        point = q.at(point.M - velocity * moving(eta(point) if callable(eta) else eta))
        yield point


def minimiser(case: Case) -> NDArray[np.float64]:
    """A good point, found in floats: Newton's method from M = 1, each step halved until it decreases the loss."""
    plain = problem(Quantities(case))
    point = plain.at(np.ones((plain.d, plain.d)))
    for _ in range(_NEWTON_STEPS):
        step = np.linalg.lstsq(_hessian(point), point.gradient.ravel(), rcond=None)[0].reshape(point.M.shape)
        tried = (plain.at(point.M - step / 2**halved) for halved in range(_HALVINGS))
        better = next((one for one in tried if one.L < point.L), None)
        if better is None:
            break
        point = better
    found: NDArray[np.float64] = point.M
    return found


def lowest_loss(near: Quantities, modulus: Any, scale: Any) -> tuple[Any, bool]:
    """A lower bound of L around a point, where L is that strongly convex, and whether it is one.

    L(near) - ||grad L(near)||^2/(2 modulus), where what is taken off is nothing beside the scale; else L(near) itself.
    """
    below = near.square(near.gradient) / (2 * modulus)
    certain = bool(below <= scale * near.number(1e-12))
    return (near.L - below if certain else near.L), certain


def below_start(
    case: Case, direction: Any, share: float, centre: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """A point of {L <= L(1)} in that direction from a good one, at a share of the way to where L is L(1).

    `centre` is the good point, `minimiser(case)`, where the caller has it.
    """
    plain = problem(Quantities(case))
    centre = minimiser(case) if centre is None else centre
    limit = plain.at(np.ones(centre.shape)).L
    low, high = 0.0, 1.0
    while plain.at(centre + high * direction).L <= limit and high < _FAR:
        low, high = high, 4 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if plain.at(centre + middle * direction).L <= limit else (low, middle)
    found: NDArray[np.float64] = centre + low * share * direction
    return found


def _hessian(q: Quantities) -> NDArray[np.float64]:
    """The Hessian of L in float64, the mean of the samples' own.

    For the search alone. What is claimed of the curvature is asked of `Quantities.curvature`, from the definition.
    """
    parts = q.parts if isinstance(q, Batch) else [q]
    attention = sum((_bends(part) for part in parts), np.zeros((q.d**2, q.d**2)))
    found: NDArray[np.float64] = attention / len(parts) + q.lam * np.eye(q.d**2)
    return found


def _bends(q: Quantities) -> NDArray[np.float64]:
    """The sum over rows of A^T (diag(c + s) - s (c + s)^T - <c, s> I) J A."""
    s, c = q.F, q.c
    pulls = (q.X[:, None, :, None] * q.W * q.X[None, :, None, :]).reshape(q.n, q.n, q.d**2)  # (row, column, entry of M)
    moved = s[:, :, None] * (pulls - np.einsum("ij,ijk->ik", s, pulls)[:, None, :])
    both = c + s
    bent = both[:, :, None] * moved - s[:, :, None] * np.einsum("ij,ijk->ik", both, moved)[:, None, :]
    bent -= (c * s).sum(axis=1)[:, None, None] * moved
    found: NDArray[np.float64] = pulls.reshape(-1, q.d**2).T @ bent.reshape(-1, q.d**2)
    return found
