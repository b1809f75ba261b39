"""Promises of `check` for descent from M = 1: floors, gradients, gaps and rates, as the library computes them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.batch import Batch, more_samples, problem, tokens
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.cases.trajectory import below_start, descend, lowest_loss, minimiser, sharp_L, step_below
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Strength, Unmet, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, lam_positive
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.formulas import rates, sharp
from attnprune_verify.theory.guarantees import guarantees, path_floor
from attnprune_verify.theory.numbers.balls import lower

_SECTION = "4 Main Results"
_ALMOST_ONE = 1 - 1e-9
"""eta L of the steps walked: just below 1, so that rounding does not decide."""
_STEPS = 8  # chosen: eight steps, each with a promise of its own


def _instance(case: Case) -> Instance:
    samples = tokens(case)
    return Instance(
        samples[0] if len(samples) == 1 else np.array(samples), case["W"], mask=case["mask"], lam=case["lam"]
    )


def _floor(q: Quantities, factor: float = 1.0, whole_mean: bool = False) -> list[Relation]:
    """The least allowed entry of F over the samples, wherever L is at most L(1), and on the way of descent.

    `whole_mean` takes ||c|| of one sample for no larger than the mean: false.
    """
    whole = problem(q)
    found = q.number(lower(path_floor(_instance(q.case))) * factor)
    if whole_mean:
        found = q.largest([found, q.of(rates.near_floor, q.d, whole.f_min, q.lam, 1)])
    eta = step_below(whole, float(q.case.get("stretch", 1.9)))
    points = list(descend(whole, eta, _STEPS))
    parts = [at_least(q.smallest([point.delta_allowed for point in points]), found, "descent")]
    q.note({"eta": eta, "M_0": points[0].M, "K": whole.K})
    widest = q.largest([q.norm(q.W * (x[:, None] * y[None, :])) for X in tokens(q.case) for x in X for y in X])
    q.note({"least": found, "min_t min F(M_t)_ij": parts[0].lhs, "f_min": whole.f_min, "k": len(tokens(q.case))})
    q.note({"v": widest, "m": q.n, "L(M)": whole.at(q.M).L, "min F(M)_ij": whole.at(q.M).delta_allowed})
    drawn = whole.at(q.M)
    if drawn.L <= q.of(rates.start_loss, q.d, q.lam):
        parts.append(at_least(drawn.delta_allowed, found, "where L <= L(1)"))
    return parts


def _small_lam(rng: Generator, case: Case) -> dict[str, Any]:
    W = case["W"] / max(1.0, float(np.abs(case["W"]).max()))
    drawn = more_samples(rng, case) | {"lam": float(rng.choice([1e-12, 1e-4, 0.04])), "W": W}
    drawn["stretch"] = float(rng.choice([0.5, 1.0, 1.9]))
    return drawn | {"M": below_start(case.but(**drawn), rng.standard_normal(W.shape), 0.999)}


def _one_sample_pays() -> Iterator[Case]:
    """Three samples of which one can move: its ||c|| is up to sqrt(3 lam) d. Uniform dense rows, M = (e, -e; 0, 0)."""
    lam, d, mask = 6.25e-4, 2, np.array([[1, 1], [0, 1]], dtype=bool)
    moved = 1.2 * lam**0.5 * d  # of the least entry, ||c|| being sqrt 2 times that
    for w in (10.0, 100.0):
        e = float(np.log((0.5 + moved) / (0.5 - moved))) / (2 * w)
        values = {"X": np.array([[1.0, 0.0], [2.0, 1.0]]), "W": np.array([[w, -w], [0.0, 0.0]])}
        more = {"others": np.zeros((2, 2, 2)), "M": np.array([[e, -e], [0.0, 0.0]]), "lam": lam, "mask": mask}
        yield Case({**values, **more}, f"three samples, one moves, W = {w}")
        yield Case({**values, **more, "M": np.ones((d, d))}, f"three samples at M = 1, W = {w}")


def _promised(
    q: Quantities, slower: float = 1.0, sooner: float = 1.0, steeper: float = 1.0, first: bool = False
) -> list[Relation]:
    """Every number of every guarantee that applies, along descent from M = 1 with eta = 1/L_sharp.

    A promise for T steps is one for every t < T as well: the bound of the least gradient, and eps, grow like T/t.
    """
    whole = problem(q)
    entries = {entry.id: entry for entry in guarantees(_instance(q.case.but(others=()) if first else q.case))}
    promises = {name: entry.numbers for name, entry in entries.items() if entry.applies}
    points = list(descend(whole, step_below(whole, _ALMOST_ONE), _STEPS))
    loss = q.number(promises["confinement"]["loss"])
    parts = [at_most(point.L, loss, "confinement") for point in points]
    attention = q.number(promises["confinement"]["attention"])
    parts += [at_most(point.L_attn, attention, "attention error") for point in points]
    goal = promises["gradient-norm"]
    for t in range(1, len(points)):
        least = q.smallest([q.square(point.gradient) for point in points[:t]])
        bound = q.number(goal["gradient"]) * q.number(goal["gradient"]) * q.number(goal["T"] / t * sooner)
        parts.append(at_most(least, bound, "gradient-norm"))
    parts += _repaired(q, points, promises.get("repaired-theorem"))
    limit = q.of(rates.linear_rate_threshold, q.d, whole.f_min, len(tokens(q.case)))
    parts += [
        at_most(q.number(entries["linear-convergence"].numbers.get("threshold", 0.0)), limit, "threshold below"),
        at_least(
            q.number(entries["strong-convexity"].numbers["threshold"]),
            q.of(sharp.convexity_threshold, whole.K),
            "threshold above",
        ),
    ]
    q.note(_letters(whole, points, entries))
    q.note({"||M - 1||^2": [], "<grad L(M) - grad L(1), M - 1>": [], "modulus": 0.0})
    near = whole.at(q.number(minimiser(q.case)))
    for name in ("linear-convergence", "strong-convexity"):
        numbers = promises.get(name)
        sign = "'" * (name == "strong-convexity")
        if numbers is None:
            q.note({f"L(M_t) - min{sign} L": [], f"rate{sign}": 1.0, f"start{sign}": 0.0, f"t{sign}": []})
            continue
        modulus = q.lam if name == "linear-convergence" else q.number(numbers["modulus"])
        lowest, certain = lowest_loss(near, modulus, loss)
        rate = q.number(numbers["rate"] * slower)
        start = points[0].L - lowest if certain or name == "strong-convexity" else loss
        q.note({f"L(M_t) - min{sign} L": [point.L - lowest for point in points]})
        q.note({f"rate{sign}": rate * q.number(_ALMOST_ONE), f"start{sign}": start, f"t{sign}": range(len(points))})
        for t, point in enumerate(points):
            left = q.of(rates.gap, rate * q.number(_ALMOST_ONE), start, t)
            parts.append(at_most(point.L - lowest + loss, left + loss, name, offset=loss))
    if "strong-convexity" in promises:
        parts.append(_modulus(q, points[0], whole.at(q.M), promises["strong-convexity"]["modulus"] * steeper))
    return parts


def _letters(whole: Quantities, points: list[Quantities], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the formula's letters: the walk, and the numbers of the guarantees that apply."""
    goal, limits = entries["gradient-norm"].numbers, entries["confinement"].numbers
    squares = [whole.square(point.gradient) for point in points]
    return {
        "M_0": points[0].M,
        "L(M_t)": [point.L for point in points],
        "L_attn(M_t)": [point.L_attn for point in points],
        "min_{s<t} ||grad L(M_s)||^2": np.minimum.accumulate(np.asarray(squares[:-1])),
        "s": range(1, len(points)),
        "T": goal["T"],
        "gradient": goal["gradient"],
        "loss": limits["loss"],
        "attention": limits["attention"],
        "threshold": entries["linear-convergence"].numbers.get("threshold", 0.0),
        "convexity": entries["strong-convexity"].numbers["threshold"],
        "f_min": whole.f_min,
        "k": len(tokens(whole.case)),
        "K": whole.K,
    }


def _modulus(q: Quantities, one: Quantities, other: Quantities, modulus: float) -> Relation:
    """<grad L(M) - grad L(M'), M - M'> >= modulus ||M - M'||^2, and K^2 ||M - M'||^2 on both sides."""
    step = one.M - other.M
    shift = one.K * one.K * q.square(step)
    bend = ((one.gradient - other.gradient) * step).sum()
    q.note({"||M - 1||^2": q.square(step), "<grad L(M) - grad L(1), M - 1>": bend, "modulus": modulus})
    return at_least(bend + shift, q.number(modulus) * q.square(step) + shift, "modulus", offset=shift)


def _repaired(q: Quantities, points: list[Quantities], numbers: Lifted) -> list[Relation]:
    """delta below every F(M_t), and the guarantee with the eps that t steps reach."""
    least = "min_{s<t} [L_attn(M_s)/n^2 + lam^2 ||M_s||^2/(mu n^2)]"
    if numbers is None or not numbers["mu"] > 1e-100 or not numbers["T"] < 1e200:
        nothing: dict[str, Any] = {least: [], "delta(M_t)": [], "||1||^2": [], "eps_s": []}
        q.note(nothing | dict.fromkeys(("delta", "xi", "at_ones", "mu"), 1.0))
        return []
    mu, xi = q.number(numbers["mu"]), q.number(numbers["xi"])
    parts = [at_least(q.smallest([point.delta_allowed for point in points]), q.number(numbers["delta"]), "delta")]
    eps = 0.02 / q.n
    smallest = []
    for t in range(1, len(points)):
        sizes = [mu * point.L_attn + q.lam * q.lam * q.square(point.M) for point in points[:t]]
        smallest.append(q.smallest(sizes))
        promise = (xi + q.number(eps * numbers["T"] / t)) * mu * q.n**2 / 2
        parts.append(at_most(smallest[-1], promise, "repaired-theorem"))
    q.note({least: [one / (mu * q.n**2) for one in smallest], "delta(M_t)": parts[0].lhs, "delta": numbers["delta"]})
    left = [eps * numbers["T"] / t for t in range(1, len(points))]
    q.note({"xi": xi, "eps_s": left, "mu": mu, "at_ones": numbers["at_ones"], "||1||^2": q.d**2})
    at_ones = q.number(numbers["at_ones"]) * mu * q.n**2
    parts.append(at_least(at_ones, q.lam * q.lam * q.d**2, "at M = 1"))
    return parts


def _any_lam(rng: Generator, case: Case) -> dict[str, Any]:
    """lam in the range of each guarantee: tiny, moderate, and above C_- K^2."""
    W = case["W"] / max(1.0, float(np.abs(case["W"]).max()))
    drawn = more_samples(rng, case) | {"W": W}
    if rng.integers(3):
        return drawn | {"lam": float(rng.choice([1e-5, 1e-3, 0.05, 1.0, 20.0]))}
    K = problem(Quantities(case.but(**drawn))).K
    lam = 0.2404088 * K * K * float(rng.choice([1.01, 1.5, 4.0])) or 1.0
    return drawn | {"lam": lam}


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
    here = Quantities(q.case.but(lam=0.0), q.arithmetic)
    here.__dict__["lam"] = lam
    L = sharp_L(here)
    rate = q.of(rates.strongly_convex_rate, q.K, lam, L) * q.number(_ALMOST_ONE * rate_factor)
    eta = q.number(_ALMOST_ONE / float(L))
    near, first = here.at(q.number(minimiser(q.case.but(lam=float(lam))))), here.at(q.M)
    lowest, certain = lowest_loss(near, q.of(sharp.lower_curvature, q.K, lam), first.L - near.L)
    if not certain:
        raise Unmet(_ENCLOSED.name)
    start, parts = first.L - lowest, []
    points = list(descend(here, eta, 4, start=q.M))
    q.note({"lam": lam, "rate": rate, "eta": eta, "start": start, "t": range(len(points))})
    q.note({"L(M_t) - min L": [point.L - lowest for point in points], "L(M_0) - min L": first.L - lowest})
    for t, point in enumerate(points):
        left = q.of(rates.gap, rate, start, t)
        parts.append(at_most(point.L - lowest + start, left + start, f"t = {t}", offset=start))
    return parts


def _beyond(K: Lifted, part: Lifted, *, arithmetic: Lifted) -> Lifted:
    """0.2405 K^2 (1 + part), above C_- K^2 = 0.24041 K^2."""
    return K * K * arithmetic.lift(0.2405) * (1 + part)


def _part(rng: Generator, case: Case) -> dict[str, Any]:
    return {"part": float(rng.choice([0.0, 0.1, 1.0, 10.0]))}


def _stacked(q: Quantities, times: bool = True) -> list[Relation]:
    """Loss, gradient and an iterate of k samples, and of their tokens below each other under the block-diagonal mask.

    `times` takes k lam and eta/k there.
    """
    whole, samples = Batch(q.case, q.arithmetic), tokens(q.case)
    k, n = len(samples), q.n
    blocks = np.zeros((k * n, k * n), dtype=bool)
    for s in range(k):
        blocks[s * n : (s + 1) * n, s * n : (s + 1) * n] = q.allowed
    case = q.case.but(X=np.vstack(samples), mask=blocks, others=np.zeros((0, n, q.d)))
    one = Quantities(case, q.arithmetic)
    one.__dict__["lam"] = whole.lam * (k if times else 1)
    steepest = float(sharp_L(whole))  # 0 where lam = 0 and nothing moves: any step will do
    eta = q.number(float(q.case["share"]) / steepest if steepest else 1.0)
    *_, moved = descend(whole, eta, 2)
    *_, other = descend(one, eta / k, 2)
    left, right = whole.at(q.M), one.at(q.M)
    q.note({"k": k, "L'(M)": one.L, "grad L'(M)": one.gradient, "L(M)": whole.L, "grad L(M)": whole.gradient})
    q.note({"M_2": moved.M, "M'_2": other.M, "sum_s L_attn,s(M)": left.L_attn * k, "L'_attn(M)": right.L_attn})
    return [
        equal(whole.L * k, one.L, "loss"),
        equal(whole.gradient * k, one.gradient, "gradient"),
        equal(moved.M, other.M, "the second iterate"),
    ]


def _several(rng: Generator, case: Case) -> dict[str, Any]:
    lam = float(rng.choice([0.05, 1.0]))
    return more_samples(rng, case) | {"lam": lam, "share": float(rng.choice([0.3, 1.5]))}


_LAM = lam_positive(lambda rng: _no_attention())
_ENCLOSED = Hypothesis("min L is enclosed from both sides", limit=True)
_CONVEX = Hypothesis(
    "lam > C_- K^2", lambda q: bool(q.of(rates.strongly_convex, q.K, q.of(_beyond, q.K, q.number(q.case["part"]))))
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:batch",
        kind=Kind.LEMMA,
        title="A batch is one sample",
        section=_SECTION,
        reading=ANY_MASK,
        formula="k L(M) = L'(M), k grad L(M) = grad L'(M), M_2 = M'_2, L(M) = (1/k) sum_s L_attn,s(M) + (lam/2)"
        " ||M||^2, L'(M) = L'_attn(M) + (k lam/2) ||M||^2",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_stacked,
        supply=Instances("any", extra=_several, small=True, free=("M", "W", "X"), rounds=1),
        uses=("def:attn_prun_causal",),
        wrong=(Wrong("lam in place of k lam", lambda q: _stacked(q, times=False)),),
        source="new",
        tags=frozenset({"every step"}),
    ),
    Claim(
        id="new:path_floor",
        kind=Kind.LEMMA,
        title="A floor of the attention on the way of descent",
        section=_SECTION,
        reading=ANY_MASK,
        formula="min_t min F(M_t)_ij >= least, min F(M)_ij >= least wherever L(M) <= lam d^2/2, least = max(f_min -"
        " sqrt(k lam) d, exp(-2 d v - log(m))), M_0 = 1, L = lam + C_+ K^2 if lam > 0 and 0 < eta < 2/L",
        strength=Strength.LOWER,
        margin=_floor,
        supply=Instances("any", extra=_small_lam, small=True, free=("W", "X")),
        hypotheses=(_LAM,),
        tags=frozenset({"every step"}),
        uses=("fix:practical", "new:confinement_sharp"),
        attains=_one_sample_pays,
        wrong=(
            Wrong("1.1 times the floor", lambda q: _floor(q, 1.1)),
            Wrong("k left out", lambda q: _floor(q, whole_mean=True)),
        ),
        source="new",
    ),
    Claim(
        id="new:guarantees",
        kind=Kind.THEOREM,
        title="What `check` guarantees",
        section=_SECTION,
        reading=ANY_MASK,
        formula="L(M_t) <= loss, L_attn(M_t) <= attention, min_{s<t} ||grad L(M_s)||^2 <= gradient^2 T/s, delta(M_t)"
        " >= delta, min_{s<t} [L_attn(M_s)/n^2 + lam^2 ||M_s||^2/(mu n^2)] <= (xi + eps_s)/2, lam^2 ||1||^2/(mu n^2)"
        " <= at_ones, L(M_t) - min L <= (1 - rate)^t start, L(M_t) - min' L <= (1 - rate')^{t'} start', threshold <="
        " f_min^2/(5 k d^2), C_- K^2 <= convexity, <grad L(M) - grad L(1), M - 1> >= modulus ||M - 1||^2, M_0 = 1 if"
        " lam > 0",
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
            Wrong("1.1 times the modulus", lambda q: _promised(q, steeper=1.1)),
            Wrong("the first sample's numbers", lambda q: _promised(q, first=True)),
        ),
        source="new",
    ),
    Claim(
        id="new:gradient_norm",
        kind=Kind.THEOREM,
        title="Steps to a small gradient",
        section=_SECTION,
        reading=ANY_MASK,
        formula="min_{t<T} ||grad L(M_t)||_F <= r lam d, T = L/(lam r^2), L = lam + C_+ K^2, eta = 1/L, M_0 = 1"
        " if lam > 0",
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
        formula="L(M_t) - min L <= (1 - rate)^t start, rate = (lam - C_- K^2)/L, start = L(M_0) - min L, L = lam +"
        " C_+ K^2, eta = 1/L if lam > C_- K^2",
        strength=Strength.UPPER,
        margin=_convex_descent,
        supply=Instances("any", extra=_part, small=True, free=("M",)),
        hypotheses=(_CONVEX, _ENCLOSED),
        uses=("new:strong_convexity", "fix:lip_grad_l"),
        wrong=(Wrong("three times the rate", lambda q: _convex_descent(q, 3.0)),),
        source="new",
    ),
)
