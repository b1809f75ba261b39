"""Lipschitz quotients: two masks, how far a quantity moves between them, and where it moves fastest."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances

Function = Callable[[Quantities], Lifted]


def second_mask(rng: Generator, case: Case) -> dict[str, Any]:
    """N close to M or far from it: Lipschitz quotients are largest in either limit."""
    step = float(rng.choice([1e-3, 0.1, 1.0, 3.0]))
    return {"N": case["M"] + step * rng.standard_normal(case["M"].shape)}


PAIRS = Instances("any", extra=second_mask, free=("M", "N", "W"))


def moved(q: Quantities, function: Function) -> tuple[Lifted, Lifted]:
    """(||g(M) - g(N)||, ||M - N||)."""
    return q.norm(function(q) - function(q.at(q.N))), q.norm(q.M - q.N)


def lipschitz(function: Function, constant: Function) -> Callable[[Quantities], Relation]:
    def margin(q: Quantities) -> Relation:
        change, distance = moved(q, function)
        return at_most(change, constant(q) * distance)

    return margin


def paper_constant(power: float, factor: int, R_power: int = 3) -> Function:
    """factor d n^power R^R_power; n^power for half-integers as a square root."""

    def constant(q: Quantities) -> Lifted:
        value = q.sqrt(q.number(float(q.n ** int(2 * power)))) * (factor * q.d)
        for _ in range(R_power):
            value = value * q.R
        return value

    return constant


def F_of(q: Quantities) -> Lifted:
    return q.F


def c_of(q: Quantities) -> Lifted:
    return q.c


def p1_of(q: Quantities) -> Lifted:
    return q.p1


def diagonal_of(q: Quantities) -> Lifted:
    return q.p1.sum(axis=1)


def p2_of(q: Quantities) -> Lifted:
    return q.p2


def gradient_of(q: Quantities) -> Lifted:
    return q.W * (q.X.T @ q.p @ q.X) + q.M * q.lam


def smooth(q: Quantities, constant: float) -> Lifted:
    """lam + constant K^2, for wrong constants: the right one is `sharp.lipschitz`."""
    return q.lam + q.number(constant) * q.K * q.K


def diagonal_rate(q: Quantities) -> Lifted:
    """sqrt 2 q (1-q) (4q-1) at q = (5 + sqrt 13)/12: 0.5360408 (0.53604 is already too small)."""
    place = (q.sqrt(q.number(13.0)) + 5) / 12
    return q.sqrt(q.number(2.0)) * place * (1 - place) * (place * 4 - 1)


def one_feature(w: float, M: float, step: float) -> Case:
    """d = 1, n = 2, X = (1, 0)^T, W = w: one row with two logits, w M and 0."""
    values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": np.array([[M]]), "N": np.array([[M + step]])}
    return Case({**values, "lam": 0.0, "mask": None}, f"d = 1, n = 2, X = (1, 0), W = {w}, M = {M:.6g}")


def softest() -> Iterator[Case]:
    """Uniform rows: the softmax Jacobian has norm 1/2."""
    yield one_feature(1.0, -5e-4, 1e-3)


def sharpest_bend() -> Iterator[Case]:
    """The maximiser of the row curvature, f one-hot (w = 20) and f(M) at p = (15 -+ sqrt 33)/24."""
    for sign in (-1.0, 1.0):
        p = (15 + sign * np.sqrt(33.0)) / 24
        for place in (p, 1 - p):
            yield one_feature(20.0, float(np.log(place / (1 - place))) / 20, 1e-6)
            yield one_feature(-20.0, float(-np.log(place / (1 - place))) / 20, 1e-6)


def steepest_rest() -> Case:
    """A stationary point where the Hessian is L = lam + C_+ K^2: a row at its bend, whose pull lam M holds back."""
    place, w = (15 - np.sqrt(33.0)) / 24, 20.0
    logit = float(np.log((1 - place) / place))
    lam = 2 * place**2 * (1 - place) * w * w / logit
    values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": np.array([[logit / w]]), "lam": lam}
    return Case({**values, "mask": None}, f"d = 1, X = (1, 0), W = {w}, a stationary M")


def sharpest_product() -> Iterator[Case]:
    """f = e_3 and f(M) = (1/2, 1/2, 0): there c o f(M) moves at rate K/2 along e_1 - e_2 in the logits."""
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    W = np.array([[60.0, 100.0], [0.0, 0.0]])  # 100 < 60 sqrt 3, so that e_1 - e_2 is the direction of norm K
    mask = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=bool)  # only the first row has a choice
    M = np.array([[0.0, -1.0], [0.0, 0.0]])
    values = {"X": X, "W": W, "M": M, "N": M + np.array([[1e-7, 0.0], [0.0, 0.0]]), "lam": 0.0, "mask": mask}
    yield Case(values, "f = e_3, f(M) = (1/2, 1/2, 0)")
