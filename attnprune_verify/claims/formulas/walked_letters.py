"""Letters of formulas about gradient descent: what a plain walk of the case's own steps finds, in float64."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.claims.cases.quantities import Quantities

Meaning: TypeAlias = Callable[[Quantities], Any]
_C_PLUS = (39 + 55 * math.sqrt(33)) / 1152  # the largest curvature of a row (new:row_hessian)


def step(q: Quantities, L: float) -> float:
    """Return the case's step, a little below its stretch over L."""
    return float(q.case["stretch"]) / float(L) * (1 - 1e-9)


def along_gradient(q: Quantities) -> Any:
    """Pi A g, how the centred logits move along the gradient."""
    return np.asarray(q.PiA, dtype=float) @ np.ravel(q.gradient)


def directional_step(q: Quantities) -> float:
    """||g||^2 / (lam ||g||^2 + C_+ ||Pi A g||^2)."""
    size = q.square(q.gradient)
    return float(size / (q.lam * size + _C_PLUS * q.square(along_gradient(q))))


def _start(q: Quantities) -> Any:
    """M_0, where every walk begins."""
    return _walk(q, 0.0, 0)[0].M


def _walk(q: Quantities, eta: float | Meaning, steps: int) -> list[Quantities]:
    """The iterates M_0 = 1, M_1, ..., of gradient descent by eta, which may be a function of the point."""
    found = [q.at(np.ones((q.d, q.d)))]
    for _ in range(steps):
        here = found[-1]
        found.append(q.at(here.M - here.gradient * (eta(here) if callable(eta) else eta)))
    return found


def _sharp(q: Quantities) -> float:
    return float(q.lam + _C_PLUS * q.K**2)


def _simple(q: Quantities) -> float:
    return float(q.lam + 1.25 * q.K**2)


def _confining(L: Meaning) -> Mapping[str, Meaning]:
    """Letters of a walk of eight steps, or as many as the case has, by its stretch over L: a number for each t."""

    def over(more: int, of: Meaning) -> Meaning:
        return lambda q: [of(one) for one in _walk(q, step(q, L(q)), int(q.case.get("steps", 8)) + more)]

    return {
        "g": lambda q: q.gradient,
        "M_0": _start,
        "eta": lambda q: step(q, L(q)),
        "L": L,
        "T": lambda q: np.arange(1, int(q.case.get("steps", 8)) + 1),
        "L(M - eta g)": lambda q: q.at(q.M - q.gradient * step(q, L(q))).L,
        "||M_t||_F^2": over(0, lambda q: q.square(q.M)),
        "||c_t||_F^2": over(0, lambda q: q.square(q.c)),
        "L(M_t)": over(0, lambda q: q.L),
        "L(M_{t+1}) - L(M_t)": lambda q: np.diff(over(0, lambda one: one.L)(q)),
        "min_{t<T} ||grad L(M_t)||_F^2": lambda q: np.minimum.accumulate(
            over(-1, lambda one: one.square(one.gradient))(q)
        ),
    }


def _first_accepted(q: Quantities) -> float:
    """The first of eta_0, beta eta_0, beta^2 eta_0, ... that decreases L by alpha eta ||g||^2."""
    eta, g = float(q.case["first"]), q.gradient
    for _ in range(400):
        if not q.at(q.M - g * eta).L > q.L - float(q.case["alpha_"]) * eta * q.square(g):
            return eta
        eta *= float(q.case["beta_"])
    raise ArithmeticError("backtracking does not end")


def _of_the_theorem(L: Meaning, name: str, of: Meaning, times: Meaning) -> Mapping[str, Meaning]:
    """Letters of the repaired theorem: a walk of T steps, what is least on the way by its name, mu and eps."""

    def walk(q: Quantities) -> list[Quantities]:
        return _walk(q, step(q, L(q)), int(q.case["T"]) - 1)

    def least(q: Quantities) -> float:
        return float(min(of(one) for one in (walk(q) if L(q) else [q])))  # where L is 0, every M is stationary

    def mu(q: Quantities) -> float:
        return float(2 * (times(q) * least(q)) ** 2)

    def smallest(q: Quantities) -> float:
        return min(float(one.L_attn / q.n**2 + q.lam**2 * one.square(one.M) / (mu(q) * q.n**2)) for one in walk(q))

    return {
        name: least,
        "L": L,
        "M_0": _start,
        "eta": lambda q: step(q, L(q)),
        "mu": mu,
        "T": lambda q: float(q.case["T"]),
        "L(M_0)": lambda q: q.at(np.ones((q.d, q.d))).L,
        "eps": lambda q: 2 * q.lam * q.d**2 / (step(q, L(q)) * mu(q) * float(q.case["T"]) * q.n**2),
        "min_{t<T} [L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2)]": smallest,
    }


WALKED: Mapping[str, Mapping[str, Meaning]] = {
    "new:armijo_step": {
        "eta": _first_accepted,
        "eta_0": lambda q: float(q.case["first"]),
        "alpha": lambda q: float(q.case["alpha_"]),
        "beta": lambda q: float(q.case["beta_"]),
    },
    "new:confinement": _confining(_simple),
    "new:confinement_sharp": _confining(_sharp),
    "new:gradient_norm": {
        "L": _sharp,
        "M_0": _start,
        "eta": lambda q: (1 - 1e-9) / _sharp(q),
        "T": lambda q: float(q.case["T"]),
        "r": lambda q: math.sqrt(_sharp(q) / (q.lam * float(q.case["T"]))),
        "min_{t<T} ||grad L(M_t)||_F": lambda q: min(
            q.norm(one.gradient) for one in _walk(q, (1 - 1e-9) / _sharp(q) * (1 - 1e-9), int(q.case["T"]) - 1)
        ),
    },
    "new:our_convergence_sharp": _of_the_theorem(_sharp, "l", lambda q: q.lambda_2, lambda q: q.kappa_T),
    "fix:our_convergence": _of_the_theorem(_simple, "delta", lambda q: q.delta_allowed, lambda q: q.w_min * q.beta),
}
"""By claim: letters that are numbers of a walk, one for each t where a letter stands for every t."""
