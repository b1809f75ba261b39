"""What `check` prints, judged: the certified numbers of `constants` and the guarantees, on the instances themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.claims.quantities import Quantities, extreme_eigenvalues
from attnprune_verify.claims.relation import Relation, at_least, at_most
from attnprune_verify.claims.supply import Instances
from attnprune_verify.claims.trajectory import descend, minimiser, sharp_L, step_below
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory import rates
from attnprune_verify.theory.balls import lower, upper
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.curvature import local_curvature
from attnprune_verify.theory.guarantees import guarantees, path_floor
from attnprune_verify.theory.operator_norm import DENSE_LIMIT

_SECTION = "4 Main Results"
_CURVATURE_LIMIT = 4
"""Up to this d the Hessian is formed entry by entry."""
_ALMOST_ONE = 1 - 1e-9
"""eta L of the steps walked: just below 1, so that rounding does not decide."""
_STEPS = 8


def _instance(q: Quantities, lam: float | None = None, M: Any = None) -> Instance:
    case = q.case
    return Instance(case["X"], case["W"], M=M, mask=case["mask"], lam=case["lam"] if lam is None else lam)


def _constants(q: Quantities, low: float = 1.0) -> list[Relation]:
    """K from both sides, the factors of mu from below, and L_sharp above every curvature."""
    found = constants(_instance(q, M=q.case["M"]))
    parts = [
        at_most(q.K, q.number(found.K * low), "K from above"),
        at_most(q.number(found.K_lower), q.K, "K from below"),
    ]
    if q.d <= DENSE_LIMIT:
        parts.append(at_most(q.number(found.K), q.K * q.number(1.01), "K within 1 %"))
    if q.d <= _CURVATURE_LIMIT:
        _, largest = extreme_eigenvalues(q.curvature, q.arithmetic)
        parts.append(at_most(largest + q.lam, q.number(found.L_sharp * low), "L_sharp"))
    if q.n_e:  # without a row that has a choice the factors of mu multiply c = 0
        parts.append(at_most(q.number(found.kappa_T), q.kappa_T, "kappa_T"))
        parts.append(at_most(q.number(found.row_eigenvalue), q.lambda_2, "lambda_2"))
    return parts


def _many_features() -> Iterator[Case]:
    """More features than the Gram matrix of K is formed for: K is then a product of norms, 1.2 times too large."""
    rng = np.random.default_rng(0)
    d = DENSE_LIMIT + 1
    values = {"X": rng.standard_normal((4, d)), "W": rng.standard_normal((d, d)), "M": np.ones((d, d)), "lam": 0.0}
    yield Case({**values, "mask": "causal"}, f"n = 4, d = {d}, causal")


def _bends() -> Iterator[Case]:
    """d = 1: the curvature at p = (15 -+ sqrt 33)/24 is C_+ K^2 or -C_- K^2."""
    for sign in (-1.0, 1.0):
        p = (15 + sign * np.sqrt(33.0)) / 24
        for place in (p, 1 - p):
            for w in (20.0, -20.0):
                M = np.array([[np.log(place / (1 - place)) / w]])
                values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": M, "lam": 0.0, "mask": None}
                yield Case(values, f"d = 1, X = (1, 0), W = {w}, p = {place:.6f}")


def _known_numbers() -> Iterator[Case]:
    yield from _many_features()
    yield from _bends()


def _local(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """Hess L_attn at this M against max_i C_i^+ K^2 and -max_i C_i^- K^2; lam is left out, so that nothing cancels."""
    found = local_curvature(_instance(q, lam=0.0, M=q.case["M"]))
    least, largest = extreme_eigenvalues(q.curvature, q.arithmetic)
    return [
        at_most(largest, q.number(upper(found.upper) * factor), "largest"),
        at_most(-least, q.number(-lower(found.lower) * factor), "least"),
    ]


def _floor(q: Quantities, factor: float = 1.0) -> Relation:
    """The least allowed entry of F on the way of descent, in steps of 1/L."""
    found = lower(path_floor(_instance(q)))
    eta = step_below(q, _ALMOST_ONE)
    entries = [point.delta_allowed for point in descend(q, eta, _STEPS)]
    return at_least(q.smallest(entries), q.number(found * factor))


def _small_lam(rng: Generator, case: Case) -> dict[str, Any]:
    W = case["W"] / max(1.0, float(np.abs(case["W"]).max()))
    return {"lam": float(rng.choice([1e-12, 1e-4, 0.04])), "W": W}


def _promised(q: Quantities, slower: float = 1.0, sooner: float = 1.0) -> list[Relation]:
    """Every number of every guarantee that applies, along descent from M = 1 with eta = 1/L_sharp.

    A promise for T steps is one for every t < T as well: the bound of the least gradient, and eps, grow like T/t.
    """
    promises = {entry.id: entry.numbers for entry in guarantees(_instance(q)) if entry.applies}
    points = list(descend(q, step_below(q, _ALMOST_ONE), _STEPS))
    loss = q.number(promises["confinement"]["loss"])
    parts = [at_most(point.L, loss, "confinement") for point in points]
    goal = promises["gradient-norm"]
    for t in range(1, len(points)):
        least = q.smallest([q.square(point.gradient) for point in points[:t]])
        bound = q.number(goal["gradient"]) * q.number(goal["gradient"]) * q.number(goal["T"] / t * sooner)
        parts.append(at_most(least, bound, "gradient-norm"))
    parts += _repaired(q, points, promises.get("repaired-theorem"))
    rated = {name: numbers for name, numbers in promises.items() if "rate" in numbers}
    if rated:
        lowest = q.at(q.number(minimiser(q.case))).L
        for name, numbers in rated.items():
            rate, start = (
                q.number(numbers["rate"] * slower),
                loss if name == "linear-convergence" else points[0].L - lowest,
            )
            for t, point in enumerate(points):
                left = q.of(rates.gap, rate * q.number(_ALMOST_ONE), start, t)
                parts.append(at_most(point.L - lowest + loss, left + loss, name, offset=loss))
    return parts


def _repaired(q: Quantities, points: list[Quantities], numbers: Any) -> list[Relation]:
    """delta below every F(M_t), and the guarantee with the eps that t steps reach."""
    if numbers is None or not numbers["mu"] > 1e-100 or not numbers["T"] < 1e200:
        return []
    mu, xi = q.number(numbers["mu"]), q.number(numbers["xi"])
    parts = [at_least(q.smallest([point.delta_allowed for point in points]), q.number(numbers["delta"]), "delta")]
    eps = 0.02 / q.n
    for t in range(1, len(points)):
        sizes = [mu * point.L_attn + q.lam * q.lam * q.square(point.M) for point in points[:t]]
        promise = (xi + q.number(eps * numbers["T"] / t)) * mu * q.n**2 / 2
        parts.append(at_most(q.smallest(sizes), promise, "repaired-theorem"))
    return parts


def _any_lam(rng: Generator, case: Case) -> dict[str, Any]:
    """lam in the range of each guarantee: tiny, moderate, and above C_- K^2."""
    W = case["W"] / max(1.0, float(np.abs(case["W"]).max()))
    if rng.integers(3):
        return {"W": W, "lam": float(rng.choice([1e-5, 1e-3, 0.05, 1.0, 20.0]))}
    K = Quantities(case.but(W=W)).K
    return {"W": W, "lam": 0.2404088 * K * K * float(rng.choice([1.01, 1.5, 4.0])) or 1.0}


def _no_attention() -> Iterator[Case]:
    """One token: K = 0 and L = lam, where the guarantees of confinement and of the least gradient are equalities."""
    for lam in (0.3, 2.0):
        values = {"X": np.array([[1.0, 2.0]]), "W": np.ones((2, 2)), "M": np.ones((2, 2)), "lam": lam, "mask": None}
        yield Case(values, "one token")


def _gradient_norm(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """r chosen for the case's T, which the formula must then give back; the least gradient of the first T iterates."""
    T, L = int(q.case["T"]), sharp_L(q)
    fraction = q.sqrt(L / (q.lam * T))
    steps = q.of(rates.steps_to_gradient, L, q.lam, fraction)
    walked = int(np.floor(float(steps) * (1 + 1e-9)))
    points = list(descend(q, step_below(q, _ALMOST_ONE), max(walked, 1)))[: max(walked, 1)]
    limit = fraction * q.lam * q.d * q.number(factor)
    return [at_most(q.norm(min(points, key=lambda p: float(q.square(p.gradient))).gradient), limit)]


def _steps(rng: Generator, case: Case) -> dict[str, Any]:
    return {"T": int(rng.choice([1, 3, 10])), "lam": float(rng.choice([0.01, 0.3, 3.0]))}


def _at_once() -> Iterator[Case]:
    yield from (case.but(T=1) for case in _no_attention())


def _convex_descent(q: Quantities, rate_factor: float = 1.0) -> list[Relation]:
    """lam above C_- K^2 by the case's part: the gap to the minimum from a start that is not M = 1."""
    lam = q.of(_beyond, q.K, q.number(float(q.case["part"])))
    if not q.of(rates.strongly_convex, q.K, lam):
        return []
    here = Quantities(q.case.but(lam=0.0), q.arithmetic)
    here.__dict__["lam"] = lam
    L = sharp_L(here)
    rate = q.of(rates.strongly_convex_rate, q.K, lam, L) * q.number(_ALMOST_ONE * rate_factor)
    eta = q.number(_ALMOST_ONE / float(L))
    lowest = here.at(q.number(minimiser(q.case.but(lam=float(lam))))).L
    point = here.at(q.M)
    start, parts = point.L - lowest, []
    for t in range(5):
        left = q.of(rates.gap, rate, start, t)
        parts.append(at_most(point.L - lowest + start, left + start, f"t = {t}", offset=start))
        point = here.at(point.M - point.gradient * eta)
    return parts


def _beyond(K: Any, part: Any, *, arithmetic: Any) -> Any:
    """0.2405 K^2 (1 + part), above C_- K^2 = 0.24041 K^2."""
    return K * K * arithmetic.lift(0.2405) * (1 + part)


def _part(rng: Generator, case: Case) -> dict[str, Any]:
    return {"part": float(rng.choice([0.0, 0.1, 1.0, 10.0]))}


_LAM = Hypothesis("lam > 0", lambda q: q.case.get("lam", 0.0) > 0, lambda rng: _no_attention())

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:certified_constants",
        kind=Kind.LEMMA,
        title="The library's own constants",
        section="F Lipschitz of Gradient",
        reading=ANY_MASK,
        says="`constants` gives K_lower <= ||Pi A|| <= K, with K at most 1.01 times ||Pi A|| for"
        f" d <= {DENSE_LIMIT} (no such promise above), a kappa_T and a least lambda_2(J_i) that are not above the true"
        " ones, and an L_sharp that is not below the curvature.",
        formula=f"K_lower <= ||Pi A|| <= K, K <= 1.01 ||Pi A|| for d <= {DENSE_LIMIT}, lambda_max(Hess L) <= L_sharp,"
        " kappa_T and lambda_2 from below",
        strength=Strength.UPPER,
        margin=_constants,
        supply=Instances("any", small=True, free=()),  # K does not depend on M, and at d = 33 M is long
        uses=("new:curvature_range",),
        attains=_known_numbers,
        wrong=(Wrong("0.9 K", lambda q: _constants(q, 0.9)), Wrong("0.999 K", lambda q: _constants(q, 0.999))),
        source="new",
    ),
    Claim(
        id="new:local_curvature",
        kind=Kind.LEMMA,
        title="Curvature at one M",
        section="F Lipschitz of Gradient",
        reading=ANY_MASK,
        says="With the actual residual c in place of the worst one: C_i = b^2 + b max_j (c_j - <c, s>)_+ with"
        " b = min(1/2, max s), or Gershgorin's bound, or C_+; near M = 1 only J^2 is left.",
        formula="-max_i C_i^- K^2 I <= Hess L(M) - lam I <= max_i C_i^+ K^2 I",
        strength=Strength.TIGHT,
        margin=_local,
        supply=Instances("any", small=True, free=("M",)),
        uses=("new:curvature_range", "new:curvature_domination"),
        attains=_bends,
        wrong=(Wrong("0.9 of both", lambda q: _local(q, 0.9)),),
        source="new",
    ),
    Claim(
        id="new:path_floor",
        kind=Kind.LEMMA,
        title="A floor of the attention on the way of descent",
        section=_SECTION,
        reading=ANY_MASK,
        says="The delta that the repaired theorem is printed with: every allowed F(M_t) is at least the better of two"
        " floors, v the largest ||W o x_i x_j^T||_F, m the number of tokens, f_min the least allowed entry of f.",
        formula="F(M_t)_ij >= max(f_min - sqrt(k lam) d, exp(-2 d v - log(m)))",
        strength=Strength.LOWER,
        margin=_floor,
        supply=Instances("any", extra=_small_lam, small=True, free=("W", "X")),
        hypotheses=(_LAM,),
        uses=("fix:practical", "new:confinement_sharp"),
        wrong=(Wrong("1.1 times the floor", lambda q: _floor(q, 1.1)),),
        source="new",
    ),
    Claim(
        id="new:guarantees",
        kind=Kind.THEOREM,
        title="What `check` guarantees",
        section=_SECTION,
        reading=ANY_MASK,
        says="Every number in the guarantees that `check` prints for descent from M = 1 with eta = 1/L_sharp:"
        " confinement, the least gradient, the repaired theorem, linear convergence, strong convexity.",
        formula="L(M_t) <= loss; min_{t<T} ||grad L(M_t)|| <= gradient; F(M_t) >= delta, min_{t<T} [L_attn/n^2 +"
        " lam^2 ||M||^2/(mu n^2)] <= (xi + eps)/2; L(M_t) - min L <= (1 - rate)^t (L(1) - min L)",
        strength=Strength.UPPER,
        margin=_promised,
        supply=Instances("any", extra=_any_lam, small=True, free=("W", "X"), rounds=1),
        hypotheses=(_LAM,),
        uses=(
            "new:confinement_sharp",
            "new:gradient_norm",
            "new:our_convergence_sharp",
            "new:linear_convergence",
            "new:strongly_convex_descent",
            "new:path_floor",
        ),
        attains=_no_attention,
        wrong=(
            Wrong("twice the rate", lambda q: _promised(q, slower=2.0)),
            Wrong("a tenth of the steps", lambda q: _promised(q, sooner=0.1)),
        ),
        source="new",
    ),
    Claim(
        id="new:gradient_norm",
        kind=Kind.THEOREM,
        title="Steps until the gradient is small",
        section=_SECTION,
        reading=ANY_MASK,
        says="From M = 1 with eta = 1/L some gradient is at most r times its start lam d within L/(lam r^2) steps.",
        formula="min_{t<T} ||grad L(M_t)||_F <= r lam d for T = L/(lam r^2)",
        strength=Strength.UPPER,
        margin=_gradient_norm,
        supply=Instances("any", extra=_steps, small=True, free=("W", "X")),
        hypotheses=(_LAM,),
        uses=("new:confinement_sharp",),
        attains=_at_once,
        wrong=(Wrong("0.9 r", lambda q: _gradient_norm(q, 0.9)),),
        source="new",
    ),
    Claim(
        id="new:strongly_convex_descent",
        kind=Kind.THEOREM,
        title="Linear convergence for large lam",
        section=_SECTION,
        reading=ANY_MASK,
        says="For lam > C_- K^2 descent with eta = 1/L closes the gap to the only minimum from any M_0.",
        formula="L(M_t) - min L <= (1 - rate)^t start, rate = (lam - C_- K^2)/L, start = L(M_0) - min L",
        strength=Strength.UPPER,
        margin=_convex_descent,
        supply=Instances("any", extra=_part, small=True, free=("M",)),
        uses=("new:strong_convexity", "fix:lip_grad_l"),
        wrong=(Wrong("three times the rate", lambda q: _convex_descent(q, 3.0)),),
        source="new",
    ),
)
