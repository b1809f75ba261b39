"""Guarantees of descent: the repaired theorem, its sharp form, and those that M = 1 meets."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.pl_relation import as_printed
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.cases.trajectory import descend, sharp_L, simple_L, step_below
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Unmet, Wrong
from attnprune_verify.claims.hypotheses import (
    ANY_MASK,
    FULL,
    beta_positive,
    delta_allowed_positive,
    lam_positive,
    weights_nonzero,
)
from attnprune_verify.theory.formulas import paper, rates, sharp

_SECTION = "4 Main Results"
_LEAST = "min_{t<T} [L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2)]"
_SMALLEST_MU = 1e-100
"""Below it float64 cannot carry 1/mu, and the promise is beyond any step count."""
_MOST_STEPS = 60
"""Chosen: a case whose promise takes more steps is left to others."""


def _walk_steps(rng: Generator, case: Case) -> dict[str, Any]:
    lam = float(rng.choice([1e-3, 0.05, 1.0, 10.0]))
    return {"T": int(rng.choice([1, 5, 25])), "stretch": float(rng.choice([0.1, 1.0])), "lam": lam}


def _guaranteed(
    q: Quantities, eta: Lifted, points: list[Quantities], mu: Lifted, xi: Lifted, eps_factor: float, part: str = ""
) -> list[Relation]:
    """min_{t<T} L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2) <= (xi + eps)/2, with the eps that T steps reach."""
    eps = q.of(paper.iterations, q.of(rates.start_loss, q.d, q.lam), eta, mu, len(points), q.n)
    at_one_entry = q.of(paper.at_ones, q.n, 1, q.lam, mu)  # lam^2/(mu n^2)
    best = q.smallest([point.L_attn / q.n**2 + at_one_entry * q.square(point.M) for point in points])
    q.note({_LEAST: best, "xi": xi, "eps": eps, "mu": mu, "T": len(points), "eta": eta, "M_0": points[0].M})
    q.note({"L(M_0)": points[0].L, "delta_T": q.smallest([point.delta for point in points])})
    return [at_most(best, q.of(paper.goal, xi, eps * q.number(eps_factor)), part)]


def _repaired(q: Quantities, eps_factor: float = 1.0, xi_factor: float = 1.0) -> list[Relation]:
    """mu by kappa_T and l, the least lambda_2(J_i) on the way, xi of the confined iterates."""
    eta = step_below(q, float(q.case["stretch"]))
    points = list(descend(q, eta, int(q.case["T"])))[:-1]
    mu = q.of(sharp.mu_by_operator, q.kappa_T, q.smallest([point.lambda_2 for point in points]))
    if not mu > _SMALLEST_MU:
        raise Unmet(_MU.name)
    xi = q.of(sharp.xi_confined, q.n, q.d, q.K, q.lam, mu)
    return _guaranteed(q, eta, points, mu, xi * q.number(xi_factor), eps_factor)


def _squared(q: Quantities, eps_factor: float = 1.0, xi_factor: float = 1.0) -> list[Relation]:
    """mu = 2 (min|W| beta delta)^2, delta the least allowed entry on the way, and the paper's xi."""
    eta = step_below(q, float(q.case["stretch"]), simple_L)
    points = list(descend(q, eta, int(q.case["T"])))[:-1]
    mu = q.of(sharp.mu, q.w_min, q.beta, q.smallest([point.delta_allowed for point in points]))
    if not mu > _SMALLEST_MU:
        raise Unmet(_MU.name)
    xi = q.of(paper.xi_theorem, q.n, q.d, q.w_max, q.norm(q.X), q.lam, mu)
    return _guaranteed(q, eta, points, mu, xi * q.number(xi_factor), eps_factor)


def _weak_weights() -> Iterator[Case]:
    """Tiny K: L is nearly lam, and one step already needs all of eps."""
    values = {
        "X": np.eye(2),
        "W": 1e-5 * (np.ones((2, 2)) - 2 * np.eye(2)),
        "M": np.ones((2, 2)),
        "lam": 1.0,
        "mask": None,
    }
    yield Case({**values, "T": 1, "stretch": 1.0, "share": 0.95}, "X = I_2, |W| = 1e-5, T = 1")


def _at_ones(q: Quantities, lam: Lifted, mu: Lifted) -> Lifted:
    """The left side at M = 1, its attention error included."""
    dense = q.at(q.number(np.ones((q.d, q.d))))
    return dense.L_attn / q.n**2 + q.of(paper.at_ones, q.n, q.d, lam, mu)


def _dense_is_enough(q: Quantities, factor: float = 1.0) -> Relation:
    """The guarantee at M = 1 without its eps, at the case's `share` of the threshold, for any mu > 0."""
    norm_X, mu = q.norm(q.X), q.number(float(q.case.get("mu", 1.0)))
    threshold = q.of(paper.vacuity_threshold, q.n, q.d, q.w_max, norm_X)
    lam = threshold * q.number(float(q.case["share"]) * factor)
    return at_most(_at_ones(q, lam, mu), q.of(paper.xi_theorem, q.n, q.d, q.w_max, norm_X, lam, mu) / 2)


def _share(rng: Generator, case: Case) -> dict[str, Any]:
    return {"share": float(rng.choice([1.0, 0.3, 1e-3])), "mu": float(rng.choice([1e-9, 0.5, 1e6]))}


def _at_the_threshold() -> Iterator[Case]:
    yield Case({"X": np.eye(2), "W": np.ones((2, 2)), "M": np.ones((2, 2)), "mask": None, "share": 1.0}, "X = I_2")


def _met_or_convex(q: Quantities, factor: float = 1.0) -> Relation:
    """lam <= K^2/4: M = 1 meets the guarantee of new:our_convergence_sharp, for any mu > 0; else strong convexity."""
    lam, mu = q.K * q.K / 4 * q.number(float(q.case["share"]) * factor), q.number(float(q.case.get("mu", 1.0)))
    q.note({"lam": lam, "mu": mu, "s": q.number(float(q.case["share"]))})
    if float(q.case["share"]) > 1:
        return at_least(lam, q.of(sharp.convexity_threshold, q.K), "strongly convex")
    return at_most(_at_ones(q, lam, mu), q.of(sharp.xi_confined, q.n, q.d, q.K, lam, mu) / 2, "met by M = 1")


def _beyond_the_threshold(rng: Generator, case: Case) -> dict[str, Any]:
    """lam d on both sides of 6 sqrt(n) max|W| ||X||^2, above which M = 1 is no witness any more; M in the ball."""
    n, d = np.shape(case["X"])
    W = case["W"] / max(1.0, float(np.abs(case["W"]).max()))
    threshold = 6 * float(np.sqrt(n) * np.abs(W).max() * np.square(case["X"]).sum()) / d
    size = max(1.0, float(np.linalg.norm(case["M"])) / d)
    lam = threshold * float(rng.choice([1e-6, 0.1, 1.0 + 1e-6, 2.0, 100.0]))
    return {"W": W, "M": case["M"] / size * 0.999999, "lam": lam, "T": int(rng.choice([1, 5, 25]))}


def _without_regulariser(q: Quantities) -> list[Relation]:
    return [as_printed(Quantities(q.case.but(lam=0.0), q.arithmetic))]


def _survives(q: Quantities, share: float = 1.0) -> list[Relation]:
    """Above the threshold the printed PL inequality at M, and on both sides of it the printed guarantee from M = 1.

    T steps of 1/L_paper with mu = 2 min|W| beta delta, delta below every f(M_t), and the eps that T steps reach.
    """
    found = [as_printed(q)._replace(part="PL inequality")] if _above(q) and q.square(q.M) <= q.d**2 else []
    eta = step_below(q, 1.0, lambda one: one.of(paper.lipschitz, one.n, one.d, one.R, one.lam))
    points = list(descend(q, eta, int(q.case.get("T", 1))))[:-1]
    mu = q.of(paper.mu, q.w_min, q.beta, q.smallest([point.delta for point in points]))
    if mu > _SMALLEST_MU:
        xi = q.of(paper.xi_theorem, q.n, q.d, q.w_max, q.norm(q.X), q.lam, mu)
        found += _guaranteed(q, eta, points, mu, xi * q.number(share), share, "guarantee")
    return found


def _above(q: Quantities) -> bool:
    return bool(q.lam * q.d > 6 * q.sqrt(q.number(float(q.n))) * q.w_max * q.square(q.X))


def _constant_weights() -> Iterator[Case]:
    """X = I, |W| = 1/10, M = 0, where the lemma fails for small lam; and large lam: a step needs all of eps."""
    values = {"X": np.eye(1, 19), "W": np.full((19, 19), 0.1), "M": np.zeros((19, 19)), "lam": 1.0, "mask": None}
    yield Case(values, "one token, d = 19")
    for n in (2, 3):
        W = 0.1 * (np.ones((n, n)) - 2 * np.eye(n))
        for lam, M in ((0.6 * n**0.5 * 1.000001, 0.0), (1e6, 0.0), (1e6, 1.0)):
            values = {"X": np.eye(n), "W": W, "M": np.full((n, n), M), "lam": lam, "mask": None}
            yield Case(values, f"X = I_{n}, M = {M:g}")


def _any_share(rng: Generator, case: Case) -> dict[str, Any]:
    share, mu = rng.choice([1.0, 0.3, 1e-3, 1.0 + 2**-20, 5.0]), rng.choice([1e-9, 0.5, 1e6])
    return {"share": float(share), "mu": float(mu)}


def _stationary(q: Quantities, longer: float = 1.0, factor: float = 1.0) -> list[Relation]:
    """Judge the first ceil(1/(eta lam r^2)) iterates by the one whose larger ratio of both sides is least.

    `longer` makes the steps longer, beyond 1/L; `factor` scales the second right side.
    """
    r, eta = q.number(float(q.case["share"])), step_below(q, float(q.case["stretch"]))
    T = int(np.ceil(float(1 / (eta * q.lam * r * r)) * (1 + 1e-8)))
    if T > _MOST_STEPS:
        raise Unmet(_SHORT.name)
    points = list(descend(q, eta * q.number(longer), T - 1))
    bound = q.kappa_T * q.smallest([point.lambda_2 for point in points])
    near, far = r * q.lam * q.d, (1 + r) * q.lam * q.d * q.number(factor)
    sides = [(q.norm(point.gradient), bound * q.norm(point.c)) for point in points]
    gradient, residual = min(sides, key=lambda pair: max(float(pair[0] / near), float(pair[1] / far)))
    walked = {"T": T, "eta": eta, "r": r, "l": q.smallest([point.lambda_2 for point in points]), "M_0": points[0].M}
    q.note({**walked, "||grad L(M_t)||_F": gradient, "kappa_T l ||c(M_t)||_F": residual, "L": sharp_L(q)})
    q.note({"||grad L(M_0)||_F": q.norm(points[0].gradient)})
    return [at_most(gradient, near, "gradient"), at_most(residual, far, "residual")]


def _ratio(rng: Generator, case: Case) -> dict[str, Any]:
    lam = float(rng.choice([0.05, 1.0, 10.0]))
    return {"share": float(rng.choice([0.3, 0.7, 0.95])), "stretch": float(rng.choice([0.3, 1.0])), "lam": lam}


def _floor(q: Quantities, reach: float = 1.0) -> list[Relation]:
    """F(M)_ij >= 1/sum_k exp(d ||W o x_i (x_k - x_j)^T||_F) for ||M||_F <= d, over allowed positions."""
    found = []
    for i in range(q.n):
        for j in np.flatnonzero(q.allowed[i]):
            total = q.number(0.0)
            for k in np.flatnonzero(q.allowed[i]):
                pull = q.W * (q.X[i][:, None] * (q.X[k] - q.X[j])[None, :])
                total = total + q.exp(q.norm(pull) * q.d * q.number(reach))
            found.append(at_least(q.F[i, j], 1 / total))
    return found


def _in_ball(rng: Generator, case: Case) -> dict[str, Any]:
    M, d = case["M"], len(case["M"])
    size = float(np.linalg.norm(M))
    scale = d / size if size > 0 else 0.0
    return {
        "M": M * scale * 0.999999 * float(rng.choice([1.0, 0.5, -1.0])),
        "W": case["W"] / max(1.0, float(np.abs(case["W"]).max())),
    }


def _one_feature_floor() -> Iterator[Case]:
    """d = 1, M = -1 = -d: the logits are as far apart as ||M|| <= d allows; only the factor of the sum is lost."""
    for w in (1.0, 10.0):
        yield Case(
            {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": np.array([[-1.0]]), "lam": 0.0, "mask": None},
            f"d = 1, W = {w}",
        )


_NORM = Hypothesis("||M||_F <= d", lambda q: bool(q.square(q.M) <= q.d**2), lambda rng: _one_feature_floor())
_LAM = lam_positive(lambda rng: _weak_weights())
_MU = Hypothesis(f"mu > {_SMALLEST_MU:g}", limit=True)
_SHORT = Hypothesis(f"T <= {_MOST_STEPS}", limit=True)
_KAPPA = Hypothesis("kappa_T > 0", lambda q: bool(q.kappa_T > 0), lambda rng: _weak_weights())

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fix:practical",
        kind=Kind.LEMMA,
        title="A lower bound of the attention entries",
        section=_SECTION,
        reading=ANY_MASK,
        formula="F(M)_ij >= 1 / sum_k exp(d ||W o x_i (x_k - x_j)^T||_F) if ||M||_F <= d",
        strength=Strength.TIGHT,
        margin=_floor,
        supply=Instances("any", extra=_in_ball, small=True),
        hypotheses=(_NORM,),
        uses=("def:soft_prob_func",),
        attains=_one_feature_floor,
        wrong=(Wrong("nine tenths of the reach", lambda q: _floor(q, 0.9)),),
        repairs="rem:practical",
        source="new",
    ),
    Claim(
        id="fix:our_convergence",
        kind=Kind.THEOREM,
        title="Main result, repaired",
        section=_SECTION,
        reading=ANY_MASK,
        formula="min_{t<T} [L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2)] <= (xi + eps)/2, T = 4 L(M_0)/(eta mu eps n^2),"
        " xi = 12 n^{-3/2} max|W| ||X||_F^2 lam d / mu, mu = 2 (min|W| beta delta)^2, L = lam + (5/4) K^2, M_0 = 1"
        " if lam > 0 and beta > 0 and delta > 0 and min|W| > 0 and 0 < eta <= 1/L",
        strength=Strength.UPPER,
        margin=_squared,
        supply=Instances("any", extra=_walk_steps, small=True, free=("W", "X")),
        hypotheses=(_LAM, beta_positive("any"), delta_allowed_positive(), weights_nonzero("any"), _MU),
        uses=("fix:PL_ineq", "new:confinement", "new:lip_grad_row_constant", "thm:convergence"),
        attains=_weak_weights,
        wrong=(Wrong("eps halved and xi dropped", lambda q: _squared(q, eps_factor=0.5, xi_factor=0.0)),),
        repairs="thm:our_convergence",
        source="new",
    ),
    Claim(
        id="new:our_convergence_sharp",
        kind=Kind.THEOREM,
        title="Main result with the operator's constants",
        section=_SECTION,
        reading=ANY_MASK,
        formula="min_{t<T} [L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2)] <= (xi + eps)/2, T = 4 L(M_0)/(eta mu eps n^2),"
        " xi = K lam^{3/2} d^2/(n^2 mu), mu = 2 (kappa_T l)^2, L = lam + C_+ K^2, M_0 = 1 if lam > 0 and kappa_T > 0"
        " and 0 < eta <= 1/L",
        strength=Strength.UPPER,
        margin=_repaired,
        supply=Instances("any", extra=_walk_steps, small=True, free=("W", "X"), lam=None),
        hypotheses=(_LAM, _KAPPA, _MU),
        uses=("new:PL_sharp", "new:confinement_sharp", "fix:lip_grad_l", "thm:convergence"),
        attains=_weak_weights,
        wrong=(Wrong("eps halved", lambda q: _repaired(q, eps_factor=0.5)),),
        repairs="thm:our_convergence",
        source="new",
        note="l is the least lambda_2(J_i) of the rows at M_0, ..., M_{T-1}",
    ),
    Claim(
        id="new:ones_witness",
        kind=Kind.THEOREM,
        title="Pruning nothing satisfies the theorem",
        section=_SECTION,
        reading=FULL,
        formula="lam^2 d^2/(mu n^2) <= xi/2, xi = 12 n^{-3/2} max|W| ||X||_F^2 lam d / mu if mu > 0 and 0 < lam <= 6"
        " sqrt(n) max|W| ||X||_F^2 / d",
        strength=Strength.TIGHT,
        margin=_dense_is_enough,
        supply=Instances("full", extra=_share, free=("W", "X")),
        uses=("def:attn_prun",),
        attains=_at_the_threshold,
        wrong=(Wrong("a threshold 1.1 times as large", lambda q: _dense_is_enough(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:ones_witness_sharp",
        kind=Kind.THEOREM,
        title="Pruning nothing satisfies the sharp theorem too",
        section=_SECTION,
        reading=ANY_MASK,
        formula="lam^2 d^2/(mu n^2) <= xi/2 wherever s <= 1, lam >= C_- K^2 wherever s > 1, lam = s K^2/4,"
        " xi = K lam^{3/2} d^2/(n^2 mu) if mu > 0",
        strength=Strength.TIGHT,
        loose=frozenset({"strongly convex"}),
        margin=_met_or_convex,
        supply=Instances("any", extra=_any_share, small=True, free=("W", "X")),
        uses=("new:our_convergence_sharp", "new:strong_convexity"),
        attains=_at_the_threshold,
        wrong=(Wrong("a threshold 1.1 times as large", lambda q: _met_or_convex(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:our_convergence_from_ones",
        kind=Kind.THEOREM,
        title="Survival of the printed theorem",
        section=_SECTION,
        reading=FULL,
        formula="||grad L||^2 >= (nu/2) (||c||^2 + (2 lam^2/nu) ||M||^2 - 12 sqrt(n) max|W| ||X||_F^2 lam d/nu)"
        " wherever lam d > 6 sqrt(n) max|W| ||X||_F^2 and ||M||_F^2 <= d^2, min_{t<T} [L_attn(M_t)/n^2 + lam^2"
        " ||M_t||^2/(mu n^2)] <= (xi + eps)/2, nu = 2 min|W| beta delta, mu = 2 min|W| beta delta_T, xi = 12 n^{-3/2}"
        " max|W| ||X||_F^2 lam d/mu, eps = 4 L(M_0)/(eta mu T n^2), L = lam + 30 d n^{7/2} R^6, eta = 1/L, M_0 = 1 if"
        " lam > 0 and beta > 0 and min|W| > 0 and d <= 19 n^{5/2}",
        strength=Strength.LOWER,
        margin=_survives,
        supply=Instances("full", extra=_beyond_the_threshold),
        hypotheses=(
            _LAM,
            Hypothesis("d <= 19 n^{5/2}", lambda q: q.d**2 <= 361 * q.n**5, lambda rng: _constant_weights()),
            beta_positive("full"),
            weights_nonzero("full"),
        ),
        uses=("new:ones_witness", "new:attention_gradient_upper", "fix:lip_c", "new:confinement", "thm:convergence"),
        attains=_constant_weights,
        wrong=(
            Wrong("for lam = 0 too", _without_regulariser),
            Wrong("0.9 of xi and eps", lambda q: _survives(q, 0.9)),
        ),
        source="new",
    ),
    Claim(
        id="new:stationarity",
        kind=Kind.THEOREM,
        title="A small gradient and a small residual at one iterate",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||grad L(M_t)||_F <= r lam d, kappa_T l ||c(M_t)||_F <= (1 + r) lam d for some t<T, T = ceil(1/(eta"
        " lam r^2)), ||grad L(M_0)||_F = lam d, M_0 = 1, L = lam + C_+ K^2 if lam > 0 and r > 0 and 0 < eta <="
        " 1/L",
        strength=Strength.UPPER,
        margin=_stationary,
        supply=Instances("any", extra=_ratio, small=True, free=("W", "X")),
        hypotheses=(_LAM, _SHORT),
        uses=("new:gradient_norm", "new:PL_sharp"),
        attains=_weak_weights,
        wrong=(
            Wrong("seven times the step", lambda q: _stationary(q, longer=7.0)),
            Wrong("(1 + r)/30 in place of 1 + r", lambda q: _stationary(q, factor=1 / 30)),
        ),
        source="new",
        note="l is the least lambda_2(J_i) of the rows at M_0, ..., M_{T-1}",
    ),
)
