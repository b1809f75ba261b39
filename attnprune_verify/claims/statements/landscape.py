"""The landscape: a decreasing ray, spurious minima when n > d, and strong convexity for large lam."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, less
from attnprune_verify.claims.cases.supply import Fixed, Instances
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.theory.formulas import sharp

_SECTION = "G Convergence of Gradient Descent"
_RADIUS = 1e-9  # chosen: far above the rounding of the point found


def _ray(rng: Generator, case: Case) -> dict[str, Any]:
    return {"tau": float(rng.choice([-2.0, -0.3, 0.0, 0.4, 0.95, 1.05, 2.0, 6.0]))}


def _along_ray(q: Quantities, turn: float = 1.0) -> Relation:
    """(tau - turn) d/dtau L_attn(tau 1) >= 0."""
    tau = q.number(float(q.case["tau"]))
    slope = q.at(q.number(np.ones((q.d, q.d))) * tau).G.sum()
    return at_least((tau - q.number(turn)) * slope, q.number(0.0))


# Spurious minima: M*, integer X and W; "unit" ones lie inside the open box (0, 1)^{2x2}.
_SPURIOUS: tuple[tuple[str, Lifted, Lifted, Lifted, Lifted], ...] = (
    (
        "n=4",
        [[-2, -1], [1, 3], [-2, -2], [2, 0]],
        [[-3, 3], [2, -3]],
        [[0.1159488534, 0.2368410716], [-0.3210097236, 0.2168730488]],
        None,
    ),
    (
        "n=5",
        [[0, -1], [-3, -2], [-2, 1], [0, 2], [2, -2]],
        [[-3, 3], [3, 3]],
        [[-0.2599294770, -0.3155898915], [0.3223881322, 0.2453948017]],
        None,
    ),
    (
        "n=5, causal",
        [[1, -2], [-2, -3], [0, -3], [1, 3], [3, -1]],
        [[2, 2], [-3, 2]],
        [[0.2183513871, -0.1572010439], [0.0501455195, -0.5668578118]],
        "causal",
    ),
    (
        "n=7, causal, in the box",
        [[0, 2], [-2, 3], [-3, 2], [-3, 1], [1, 1], [0, -1], [3, 1]],
        [[2, 2], [-3, -1]],
        [[0.00209233, 0.33303125], [0.59203062, 0.15713096]],
        "causal",
    ),
    (
        "n=6, causal, in the box",
        [[0, 1], [2, -2], [3, 2], [2, -3], [-2, 2], [-1, -3]],
        [[2, -1], [-3, 1]],
        [[0.19671602, 0.97194186], [0.19723738, 0.95702949]],
        "causal",
    ),
)


_TOKENS = [len(X) for _, X, *_ in _SPURIOUS]
_SIZES = f"{min(_TOKENS)} to {max(_TOKENS)} tokens and"


def _spurious() -> Iterator[Case]:
    for name, X, W, M, mask in _SPURIOUS:
        case = Case(
            {"X": np.array(X, float), "W": np.array(W, float), "M": np.array(M), "lam": 0.0, "mask": mask}, name
        )
        yield case.but(M=_polished(case), box="box" in name)


def _polished(case: Case) -> NDArray[np.float64]:
    """Newton steps until the gradient is at rounding level."""
    M = np.asarray(case["M"], dtype=np.float64)
    for _ in range(6):
        q = Quantities(case.but(M=M))
        M = M - np.linalg.solve(q.curvature, q.G.ravel()).reshape(M.shape)
    return M


def _strict_minimum(q: Quantities, demand: float = 1.0) -> list[Relation]:
    """With Hess L_attn >= m I on the ball of radius r around M and ||grad|| < m r/2, a strict local minimum lies
    inside.

    The curvature is evaluated with every entry of M a ball of radius r, so its least eigenvalue holds on all of them.
    """
    around = q.at(q.M + np.array([q.number(0) + _blur(_RADIUS)] * q.M.size).reshape(q.M.shape))
    least, _ = extreme_eigenvalues(around.curvature, q.arithmetic)
    reach = q.number(_RADIUS)
    found = [
        less(q.norm(q.G) * 2, least * reach, "the gradient is too small to leave the ball"),
        less(q.number(1e-4 * demand), q.L_attn, "the attention error is not 0, as it is at M = 1"),
        at_most(q.norm(q.M) + reach * 2, q.number(float(q.d)), "||M||_F <= d"),
    ]
    if q.case["box"]:
        found += [less(reach, q.smallest(q.M), "entries > 0"), less(q.largest(q.M), 1 - reach, "entries < 1")]
    return found


def _blur(radius: float) -> Lifted:
    from flint import arb

    return arb(0, radius)


def _second(rng: Generator, case: Case) -> dict[str, Any]:
    return {"N": case["M"] + float(rng.choice([1e-3, 0.3, 3.0])) * rng.standard_normal(case["M"].shape)}


def _monotone(q: Quantities, factor: float = 1.0) -> Relation:
    """<grad L(M) - grad L(N), M - N> >= (lam - C_- K^2) ||M - N||^2, both sides less lam ||M - N||^2."""
    lower = q.lam - q.of(sharp.lower_curvature, q.K, q.lam)
    step = q.M - q.N
    bend = ((q.G - q.at(q.N).G) * step).sum()
    return at_most(-bend, lower * q.square(step) * q.number(factor))


def _concave_bend() -> Iterator[Case]:
    """d = 1, W = 20 at p = (15 + sqrt 33)/24: the curvature of the attention term is -C_- K^2."""
    for sign in (-1.0, 1.0):
        p = (15 + sign * np.sqrt(33.0)) / 24
        for place in (p, 1 - p):
            for w in (20.0, -20.0):
                M = np.array([[np.log(place / (1 - place)) / w]])
                values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": M, "N": M + 1e-6, "lam": 0.0}
                yield Case({**values, "mask": None}, f"d = 1, W = {w}, p = {place:.6f}")


_N_ABOVE_D = Reading("n>d", "more tokens than features, full and causal masks, lam = 0")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:ray_monotone",
        kind=Kind.THEOREM,
        title="The ray through the dense model",
        section=_SECTION,
        reading=ANY_MASK,
        formula="(tau - 1) d/dtau L_attn(tau 1) >= 0",
        strength=Strength.LOWER,
        margin=_along_ray,
        supply=Instances("any", extra=_ray, free=("W", "X")),
        uses=("thm:mat_view_l",),
        wrong=(Wrong("the turn at tau = 1.1", lambda q: _along_ray(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:spurious_minima",
        kind=Kind.THEOREM,
        title="Spurious minima",
        section=_SECTION,
        reading=_N_ABOVE_D,
        formula="grad L_attn(M*) = 0, Hess L_attn(M*) > 0, L_attn(M*) > 0 with n > d, ||M*||_F <= d, also in"
        " [0,1]^{dxd}",
        strength=Strength.LOWER,
        arithmetic="ball",
        margin=_strict_minimum,
        supply=Fixed(_spurious),
        uses=("thm:mat_view_l",),
        wrong=(Wrong("with attention error above 100", lambda q: _strict_minimum(q, 1e6)),),
        source="new",
        tags=frozenset({"existential"}),
    ),
    Claim(
        id="new:strong_convexity",
        kind=Kind.THEOREM,
        title="Strong convexity",
        section=_SECTION,
        reading=ANY_MASK,
        formula="<grad L(M) - grad L(N), M - N> >= (lam - C_- K^2) ||M - N||_F^2",
        strength=Strength.TIGHT,
        margin=_monotone,
        supply=Instances("any", extra=_second, small=True, free=("M", "N")),
        uses=("new:curvature_range",),
        attains=_concave_bend,
        wrong=(Wrong("0.98 C_-", lambda q: _monotone(q, 0.98)),),
        source="new",
    ),
)
