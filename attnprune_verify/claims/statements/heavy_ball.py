"""Gradient descent with momentum, as the paper runs it: an energy that falls, and steps for which it diverges."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.lipschitz_pairs import smooth, steepest_rest
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.cases.trajectory import descend, sharp_L
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Unmet, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, lam_positive
from attnprune_verify.theory.formulas import momentum, rates

_SECTION = "G Convergence of Gradient Descent"
_STEPS = 8  # chosen: each of the first eight steps is compared
_FEW_STEPS = 4  # chosen: growth by a factor a step shows in four


def _moving(rng: Generator, case: Case) -> dict[str, Any]:
    """M_{t-1} beside M = M_t, a momentum, and the step as a share of the longest."""
    theta = float(rng.choice([0.0, 0.5, 0.96]))
    return {
        "N": case["M"] + float(rng.choice([1e-3, 0.3])) * rng.standard_normal(case["M"].shape),
        "theta": theta,
        "share": float(rng.choice([0.1, 0.5, 0.99])),
        "lam": case["lam"] or 1e-3,
    }


def _one_token() -> Iterator[Case]:
    """K = 0 and L = lam, a quadratic: the step equal to the one before, where the energy loses least."""
    for theta, share in ((0.0, 0.5), (0.5, 0.5), (0.9, 0.9)):
        lam, M = 0.5, np.array([[1.0, -2.0], [0.5, 1.0]])
        move = -share * 2 * M  # -eta lam M/(1 - theta), eta = share 2 (1 - theta)/lam
        values = {"X": np.array([[1.0, 2.0]]), "W": np.ones((2, 2)), "M": M, "N": M - move, "mask": None}
        yield Case({**values, "lam": lam, "theta": theta, "share": share}, f"one token, theta = {theta}")


def _known() -> Iterator[Case]:
    yield from _one_token()
    yield from _where_rows_bend_most()


def _where_rows_bend_most() -> Iterator[Case]:
    """Beside a stationary point of curvature L; the step equal to the one before."""
    rest, share, near = steepest_rest(), 0.99, 1.001
    move = -2 * share * (near - 1) * rest["M"]  # -eta L (M - M*)/(1 - theta), eta = share 2 (1 - theta)/L
    for theta in (0.0, 0.5):
        M = near * rest["M"]
        yield rest.but(f"{rest.origin} times {near}, theta = {theta}", M=M, N=M - move, theta=theta, share=share)


def _energy(
    q: Quantities, less: float = 1.0, longer: float = 1.0, sooner: float = 1.0, bend: float | None = None
) -> list[Relation]:
    """One step from any M_t and M_{t-1}; then from rest at M = 1 the loss and the least gradient."""
    theta, L = q.number(float(q.case["theta"])), sharp_L(q) if bend is None else smooth(q, bend)
    longest = float(q.of(momentum.longest_step, theta, L))
    eta = q.number(longest * float(q.case["share"]) * longer * (1 - 1e-12))
    weight = q.of(momentum.energy_weight, theta, eta)
    moved = q.at(q.M - q.gradient * eta + (q.M - q.N) * theta)
    before = q.L + weight * q.square(q.M - q.N)
    after = moved.L + weight * q.square(moved.M - q.M)
    fall = q.of(momentum.energy_loss, theta, eta, L) * q.square(moved.M - q.M)
    parts = [at_most(after + fall * q.number(less), before, "energy")]
    q.note({"E_{t+1}": after, "E_t": before, "||M_{t+1} - M_t||_F^2": q.square(moved.M - q.M), "eta": eta})
    points = list(descend(q, eta, _STEPS, float(q.case["theta"])))
    least = [q.smallest([q.square(point.gradient) for point in points[:T]]) for T in range(1, _STEPS + 1)]
    q.note({"min_{t<T} ||grad L(M_t)||_F^2": least, "T": range(1, _STEPS + 1), "M_0": points[0].M})
    q.note({"L(M_t)": [point.L for point in points]})
    limit = q.of(rates.start_loss, q.d, q.lam)
    parts += [at_most(point.L, limit, f"loss, t = {t}") for t, point in enumerate(points)]
    for T, smallest in enumerate(least, 1):
        bound = q.of(momentum.smallest_gradient, q.d, q.lam, theta, eta, L, T)
        parts.append(at_most(smallest, bound * q.number(sooner), f"smallest gradient before t = {T}"))
    return parts


def _long_step(rng: Generator, case: Case) -> dict[str, Any]:
    """A weight of 0 in half of the cases; else a feature that repeats another, so that X u = 0; and a longer step."""
    X, W = case["X"].copy(), case["W"].copy()
    u = np.zeros(len(W))
    if len(W) > 1 and rng.integers(2):
        X = np.round(16 * X) / 16
        X[:, 1], u[:2] = X[:, 0], (1.0, -1.0)
        W[W == 0.0] = 1.0
    else:
        W[0, 0] = 0.0
    theta, lam = float(rng.choice([0.0, 0.5, 0.9])), float(rng.choice([0.04, 1.0, 5.12]))
    eta = 2 * (1 + theta) / lam * float(rng.choice([1.01, 1.5, 6.0]))
    return {
        "X": X,
        "W": W,
        "lam": lam,
        "theta": theta,
        "eta": eta,
        "kernel": u,
        "across": rng.integers(-2, 3, len(W)) / 1.0,
    }


def _off_the_range(q: Quantities) -> Lifted:
    """A matrix that A maps to 0: u v^T over W, entry by entry, where X u = 0; or the entry where W is 0."""
    u, W = q.case["kernel"], q.case["W"]
    if not u.any():
        return q.unit(0, 0) if W[0, 0] == 0.0 else None
    if (W == 0.0).any() or (q.case["X"] @ u).any():
        return None
    return q.kernel[:, None] * q.across[None, :] / q.W


def _grows(q: Quantities, more: float = 1.0) -> list[Relation]:
    """|<M_t, V>| of a V off the range of (Pi A)^*, after t steps from rest at the case's M and at M = 1."""
    V = _off_the_range(q)
    if V is None:
        raise Unmet(_UNSEEN.name)
    theta, eta = q.number(float(q.case["theta"])), q.number(float(q.case["eta"]))
    beyond = eta * q.lam - 2 * (1 + theta)
    r = q.of(momentum.growth, beyond, theta)
    parts, starts = [], []
    for start in (q.M, q.number(np.ones((q.d, q.d)))):
        # what rounding makes of a sum that is 0, or nearly, says nothing
        least, noise = abs((start * V).sum()), q.number(1e-6) * q.norm(start) * q.norm(V)
        if not least > noise:
            continue
        starts.append(least * q.number(1 - 1e-6))
        for t, point in enumerate(descend(q, eta, _FEW_STEPS, float(q.case["theta"]), start)):
            parts.append(at_least(abs((point.M * V).sum()), least * q.number(1 - 1e-6), f"t = {t}"))
            least = least * r * q.number(more)
    if not parts:
        raise Unmet(_UNSEEN.name)
    steps = _FEW_STEPS + 1
    q.note({"x": beyond, "|P M_t|": [part.lhs for part in parts], "t": [*range(steps)] * len(starts)})
    q.note({"|P M_0|": [start for start in starts for _ in range(steps)]})
    return parts


def _certainly_longer(q: Quantities) -> bool:
    return bool(q.of(momentum.diverges, float(q.case["theta"]), float(q.case["eta"]), float(q.case["lam"])))


_LONG = Instances("any", extra=_long_step, small=True, free=(), rounds=1)
_UNSEEN = Hypothesis("a matrix that moves no logit is known, and M_0 is not across it", limit=True)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:heavy_ball",
        kind=Kind.THEOREM,
        title="Descent with momentum",
        section=_SECTION,
        reading=ANY_MASK,
        formula="E_t = L(M) + (theta/(2 eta)) ||M - M'||_F^2, E_{t+1} + ((1 - theta)/eta - L/2) ||M_{t+1} - M_t||_F^2"
        " <= E_t, L(M_t) <= lam d^2/2, min_{t<T} ||grad L(M_t)||_F^2 <= (1 + theta)^2 lam d^2/(eta (2 (1 - theta) -"
        " eta L) T), M_0 = 1, L = lam + C_+ K^2 if lam > 0 and 0 <= theta < 1 and 0 < eta < 2 (1 -"
        " theta)/L",
        strength=Strength.UPPER,
        margin=_energy,
        supply=Instances("any", extra=_moving, small=True, free=("M", "N"), rounds=1),
        hypotheses=(lam_positive(lambda rng: _known()),),
        uses=("fix:lip_grad_l",),
        attains=_known,
        wrong=(
            Wrong("1.02 times what the energy loses", lambda q: _energy(q, less=1.02)),
            Wrong("twice the longest step", lambda q: _energy(q, longer=2.0)),
            Wrong("0.98 of the squared gradient", lambda q: _energy(q, sooner=0.98)),
            Wrong("0.3 in place of C_+", lambda q: _energy(q, bend=0.3)),
        ),
        source="new",
    ),
    Claim(
        id="new:heavy_ball_diverges",
        kind=Kind.THEOREM,
        title="Divergence of descent with momentum",
        section=_SECTION,
        reading=ANY_MASK,
        formula="|P M_t| >= r^t |P M_0|, r = (x + 1 + theta + sqrt(x^2 + 2 x (1 + theta) + (1 - theta)^2))/2, x = eta"
        " lam - 2 (1 + theta) if theta >= 0 and eta lam > 2 (1 + theta)",
        strength=Strength.LOWER,
        margin=_grows,
        supply=_LONG,
        hypotheses=(Hypothesis("eta lam > 2 (1 + theta)", _certainly_longer, _LONG.families), _UNSEEN),
        uses=("thm:mat_view_l",),
        wrong=(Wrong("1.1 r", lambda q: _grows(q, 1.1)),),
        source="new",
    ),
)
