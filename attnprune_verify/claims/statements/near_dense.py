"""Near the dense attention: where its error is convex, and where descent converges at a linear rate."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.batch import more_samples, problem, tokens
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.cases.trajectory import below_start, descend, lowest_loss, minimiser
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.theory.formulas import rates, sharp

_SECTION = "G Convergence of Gradient Descent"
_STEPS = 30  # chosen: enough steps for a linear rate to show
_JUST_BELOW = 1 - 2.0**-40
"""Of the threshold: on it balls cannot tell whether lam is at most the threshold, and would refute nothing."""


def _gentle(W: Lifted) -> Lifted:
    return W / max(1.0, float(np.abs(W).max()))


def _convex(q: Quantities) -> Relation:
    """The least eigenvalue of Hess L_attn is >= 0 (shifted by K^2, its natural size)."""
    least, _ = extreme_eigenvalues(q.curvature, q.arithmetic)
    return at_least(least + q.K * q.K, q.K * q.K, offset=q.K * q.K)


def _toward_dense(rng: Generator, case: Case) -> dict[str, Any]:
    return {"M": 1.0 + float(rng.choice([0.01, 0.1, 0.3, 1.0])) * (case["M"] - 0.5), "W": _gentle(case["W"])}


def _radius(multiple: float) -> Hypothesis:
    supply = Instances("any", extra=_toward_dense, small=True)
    return Hypothesis(
        f"||c||_F <= {multiple:g} f_min/sqrt 5".replace(" 1 ", " "),
        # ||c||^2 in the place of lam d^2
        lambda q: bool(q.square(q.c) <= q.of(rates.linear_rate_threshold, 1, q.f_min, 1) * q.number(multiple**2)),
        supply.families,
    )


def _small_lam(rng: Generator, case: Case) -> dict[str, Any]:
    """lam a part of its threshold, a batch in half of the cases, and two points where L is at most L(1)."""
    drawn = more_samples(rng, case) | {
        "part": float(rng.choice([0.02, 0.3, _JUST_BELOW])),
        "stretch": float(rng.choice([0.5, 1.0])),
        "W": _gentle(case["W"]),
    }
    made = case.but(**drawn)
    placed = made.but(lam=float(_threshold(Quantities(made))) * drawn["part"])
    ways = [rng.standard_normal(case["W"].shape) for _ in range(2)]
    shares, centre = (0.999, float(rng.choice([0.1, 0.999]))), minimiser(placed)
    return drawn | {
        name: below_start(placed, *way, centre) for name, way in zip("MN", zip(ways, shares, strict=True), strict=True)
    }


def _threshold(q: Quantities, k: int | None = None) -> Lifted:
    return q.of(rates.linear_rate_threshold, q.d, problem(q).f_min, k or len(tokens(q.case)))


def _linear(q: Quantities, rate: int = 1, modulus: float = 1.0, k: int | None = None) -> list[Relation]:
    """lam = part of the threshold, eta = stretch/L: L(M_t) - min L <= (1 - eta lam)^t lam d^2/2.

    Between any two points of {L <= L(1)} L is lam-strongly convex, so there is one minimiser; and from each such point
    one step closes a part of the gap, so every step of a descent does.
    """
    lam = q.number(float(q.case["part"])) * _threshold(q, k)
    start = problem(Quantities(q.case.but(lam=0.0), q.arithmetic))
    start.__dict__["lam"] = lam
    L = q.of(sharp.lipschitz, start.K, lam)
    shrink = float(q.case["stretch"]) * (1 - 1e-9)
    eta = q.number(shrink / float(L))
    allowed = q.of(rates.start_loss, q.d, lam)
    slow = q.of(rates.linear_rate, lam, L) * q.number(shrink)  # eta is that much below 1/L
    near = start.at(q.number(minimiser(q.case.but(lam=float(lam)))))
    # L is lam-strongly convex where it is at most L(1)
    lowest, certain = lowest_loss(near, lam, q.of(rates.gap, slow, allowed, _STEPS))
    lowest = q.largest([lowest, q.number(0.0)])  # L is nowhere negative
    found = []
    walked = list(descend(start, eta, _STEPS))[::10]
    q.note(
        {
            "lam": lam,
            "eta": eta,
            "s": shrink,
            "rate": slow,
            "K": start.K,
            "f_min": start.f_min,
            "k": len(tokens(q.case)),
            "M_0": walked[0].M,
        }
    )
    q.note({"L(M_t) - min L": [point.L - lowest for point in walked], "t": range(0, _STEPS + 1, 10), "start": allowed})
    for t, point in zip(range(0, _STEPS + 1, 10), walked, strict=True):
        left = q.of(rates.gap, slow, allowed, rate * t)
        found.append(at_most(point.L - lowest + allowed, left + allowed, f"t = {t}", offset=allowed))
    drawn = [start.at(q.number(q.case[name])) for name in "MN" if name in q.case]
    points = [point for point in drawn if point.L <= allowed]
    before: list[Lifted] = []
    after: list[Lifted] = []
    bends: list[Lifted] = []
    for point in points if certain else ():
        gap, moved = point.L - lowest, start.at(point.M - point.gradient * eta).L - lowest
        before, after = [*before, gap], [*after, moved]
        left = q.of(rates.gap, slow, gap, rate)
        found.append(at_most(moved + allowed, left + allowed, "one step from L <= L(1)", offset=allowed))
    if len(points) == 2:
        step = points[0].M - points[1].M
        shift, more = start.K * start.K * q.square(step), lam * q.square(step) * q.number(modulus - 1)
        bend = ((points[0].G - points[1].G) * step).sum()
        bends.append(bend)
        found.append(at_least(bend + shift, more + shift, "one minimiser: strongly convex", offset=shift))
    q.note({"L(M) - min L": before, "L(M - eta g) - min L": after, "<grad L_attn(M) - grad L_attn(M'), M - M'>": bends})
    return found


def _one_of_many() -> Iterator[Case]:
    """Five samples of which one can move, so that its ||c|| may be sqrt 5 times what it may be alone."""
    w, k, d = 10.0, 5, 2
    X, W, mask = np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([[w, -w], [0.0, 0.0]]), np.array([[1, 1], [0, 1]], bool)
    lam = float(_threshold(Quantities(Case({"X": X, "W": W, "M": np.ones((d, d)), "lam": 0.0, "mask": mask}, ""))))
    places = []
    for moved in (0.33, 0.32):  # of the least entry, 1/2 in the dense row
        e = float(np.log((0.5 + moved) / (0.5 - moved))) / (2 * w)
        places.append(np.array([[e, -e], [0.0, 0.0]]))
    values = {"X": X, "W": W, "M": places[0], "N": places[1], "lam": lam, "mask": mask}
    yield Case(
        {**values, "others": np.zeros((k - 1, 2, 2)), "part": _JUST_BELOW, "stretch": 1.0}, "five samples, one moves"
    )


def _small(q: Quantities) -> bool:
    threshold = _threshold(q)
    return bool(q.of(rates.converges_linearly, q.number(float(q.case["part"])) * threshold, threshold))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:convex_near_dense",
        kind=Kind.THEOREM,
        title="Convexity near the dense model",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||c(M)||_F <= f_min/sqrt 5 implies lambda_min(Hess L_attn(M)) >= 0",
        strength=Strength.LOWER,
        margin=_convex,
        supply=Instances("any", extra=_toward_dense, small=True),
        hypotheses=(_radius(1.0),),
        uses=("new:curvature_domination",),
        wrong=(Wrong("a radius four times as large", _convex, (_radius(4.0),)),),
        source="new",
    ),
    Claim(
        id="new:linear_convergence",
        kind=Kind.THEOREM,
        title="Linear convergence for small lam",
        section=_SECTION,
        reading=ANY_MASK,
        formula="L(M_t) - min L <= (1 - rate)^t start, L(M - eta g) - min L <= (1 - rate) (L(M) - min L), <grad"
        " L_attn(M) - grad L_attn(M'), M - M'> >= 0, rate = s lam/L, eta = s/L, start = lam d^2/2, threshold ="
        " f_min^2/(5 k d^2), L = lam + C_+ K^2, M_0 = 1 if 0 < lam <= threshold and 0 < s <= 1",
        strength=Strength.UPPER,
        margin=_linear,
        supply=Instances("any", extra=_small_lam, small=True, free=("W", "X")),
        hypotheses=(Hypothesis("0 < lam <= threshold", _small),),
        attains=_one_of_many,
        uses=("new:convex_near_dense", "new:confinement_sharp", "fix:lip_grad_l"),
        wrong=(
            Wrong("rate (1 - eta lam)^{3t}", lambda q: _linear(q, 3)),
            Wrong("L is 1.1 lam-strongly convex there", lambda q: _linear(q, modulus=1.1)),
            Wrong("k left out of the threshold", lambda q: _linear(q, k=1)),
        ),
        source="new",
    ),
)
