"""Gradient descent: the imported convergence theorem, the printed algorithm and its repair, and where iterates stay."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.claims.cases.agreement import agree, conformable
from attnprune_verify.claims.cases.batch import Batch, more_samples, tokens
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.lipschitz_pairs import smooth, steepest_rest
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, equal, less
from attnprune_verify.claims.cases.supply import Arrays, Fixed, Instances
from attnprune_verify.claims.cases.trajectory import descend, moving, sharp_L, simple_L, step_below
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Reading, Strength, Unmet, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL, lam_positive
from attnprune_verify.theory.formulas import rates

_SECTION = "4 Main Results"
_APPENDIX = "G Convergence of Gradient Descent"
_MOST_STEPS = 4000  # chosen: seconds
_LEAVING = 50  # chosen: the stored case leaves the box earlier


# The imported theorem on f(w) = 1/2 sum a_i w_i^2 with the proxy g = xi + 2 ||grad f||^alpha / mu, which satisfies the
# (g, xi, alpha, mu)-proxy PL inequality with equality: the theorem then bounds the smallest gradient seen.


def _powers(rng: Generator, case: Case) -> Case:
    a = np.abs(case["a"]) % 4 + 1 / 16
    alpha = int(rng.integers(1, 4))
    shrink = float(rng.choice([0.05, 0.2, 0.5]))
    return case.but(a=a, w=case["w"] % 8, alpha=alpha, step=float(rng.choice([0.1, 0.5, 1.0])), shrink=shrink)


def _imported(q: Quantities, fraction: float = 1.0) -> Relation | tuple[Relation, ...]:
    """After T = 2 f(w0) / (eta (mu eps/2)^{2/alpha}) steps min g <= xi + eps, with mu = 2, xi = 0."""
    a, w, alpha = q.a, q.w, int(q.case["alpha"])
    gradient = a * w
    first = q.norm(gradient)
    level = first * q.number(float(q.case["shrink"]))  # the gradient norm that eps asks for
    eps = level
    for _ in range(alpha - 1):
        eps = eps * level
    eta = q.number(float(q.case["step"])) / q.largest(a)
    value = (a * w * w).sum() / 2
    T = 2 * value / (eta * level * level)
    steps = math.ceil(float(T) * fraction)
    if steps > _MOST_STEPS:
        raise Unmet(_LONG_RUN.name)
    best = None
    for _ in range(max(steps, 1)):
        size = q.norm(a * w)
        power = size
        for _ in range(alpha - 1):
            power = power * size
        best = power if best is None else q.smallest([best, power])
        w = w - a * w * moving(eta)
    q.note({"T": T, "f(w_0)": value, "eta": eta, "L": q.largest(a), "mu": q.number(2.0), "xi": q.number(0.0)})
    q.note({"min_{t<T} g(w_t)": best, "eps": eps, "alpha": alpha})
    return at_most(best, eps)


def _slow() -> Iterator[Case]:
    """One flat and one steep direction: the step is set by the steep one, the gradient by the flat one."""
    yield Case(
        {"a": np.array([1.0, 0.02]), "w": np.array([0.0, 1.0]), "alpha": 2, "step": 0.99, "shrink": 0.45}, "flat"
    )


# The algorithm


def _printed_threshold(M: Lifted, rho: Lifted) -> int:
    """Zeros left by the printed rule: tau = sorted(vec M)[floor(rho d^2)], 0-based ascending; M_ij > tau becomes 1."""
    ordered = sorted(M.ravel())
    tau = ordered[int(rho * len(ordered))]
    return sum(1 for entry in ordered if not entry > tau)


def _distinct(rng: Generator, case: Case) -> Case:
    """Distinct entries of M, and more tokens than features, so that a d x d mask does not fit."""
    d = max(2, len(case["M"]))
    n, M = d + int(rng.integers(1, 3)), rng.permutation(d * d).reshape(d, d) / 16.0
    X, W = rng.integers(-8, 9, (n, d)) / 8.0, rng.integers(-8, 9, (d, d)) / 8.0
    rho, k = float(rng.choice([0.0, 0.25, 0.5, 0.75])), int(rng.integers(2, 9))
    return case.but(M=M, X=X, W=W, rho=rho, k=k, lam=0.25, mask="causal")


def _printed_step(q: Quantities, k: int) -> Lifted:
    """M - (eta/k) (W o sum_j X_j^T p_j X_j + lam M) for k equal samples, eta = 1/8."""
    return q.M - (q.G * k + q.M * q.lam) / (8 * k)


def _gradient_step(q: Quantities) -> Lifted:
    """M - eta grad of the mean of k equal samples' losses, regulariser included; the gradient by differentiation."""
    slopes = [[q.directional(q.unit(i, j), lambda m: m.L) for j in range(q.d)] for i in range(q.d)]
    return q.M - np.array(slopes) / 8


def _zeros(q: Quantities, more: int) -> Relation:
    wanted = int(q.case["rho"] * q.case["M"].size)
    return equal(q.number(_printed_threshold(q.case["M"], q.case["rho"])), q.number(wanted + more))


def _defects(q: Quantities) -> list[Relation]:
    """A gradient step at k = 1; d x d attention mask, one zero too many, regulariser divided by k."""
    d, n, k = q.d, q.n, int(q.case["k"])
    wanted = int(q.case["rho"] * d * d)
    short = q.M * q.lam * (q.number(1) - q.number(1) / k) / 8
    return [
        equal(_printed_step(q, 1), _gradient_step(q), "a gradient step at k = 1"),
        equal(_printed_step(q, k) - short, _gradient_step(q), "the regulariser is divided by k, unlike the loss"),
        less(q.number(0), q.square(short), "and that makes a difference"),
        equal(q.number(conformable((d, d), (n, n))), q.number(0), "the d x d mask M_c meets an n x n matrix"),
        equal(q.number(_printed_threshold(q.case["M"], q.case["rho"])), q.number(wanted + 1), "one zero too many"),
    ]


def _batch(rng: Generator, case: Case) -> dict[str, Any]:
    more = more_samples(rng, case) | {"rho": float(rng.choice([0.0, 0.3, 0.5, 1.0]))}
    return more | {"eta": float(rng.choice([0.1, 0.02])), "start": int(rng.integers(2))}


def _repaired_step(q: Quantities, divided: bool = False, largest: bool = False) -> list[Relation]:
    """Two steps from M_0 = 1 or the case's M over one to three samples, against the library's descent; then rounding.

    `divided` takes the regulariser's gradient by k, as printed; `largest` prunes the largest entries.
    """
    eta, whole = float(q.case["eta"]), Batch(q.case, q.arithmetic)
    start = np.ones((q.d, q.d)) if q.case["start"] else np.asarray(q.case["M"], dtype=float)
    share = 1 / q.number(float(whole.k if divided else 1))
    point = whole.at(q.number(start))
    for _ in range(2):
        point = whole.at(point.M - (point.G + point.M * q.lam * share) * q.number(eta))
    samples = np.array(tokens(q.case))
    batch = samples if len(samples) > 1 else samples[0]
    result = prune_mask_gd(
        batch, q.case["W"], q.case["rho"], q.case["lam"], mask=q.case["mask"], eta=eta, steps=2, initial=start
    )
    wanted = int(np.floor(q.case["rho"] * q.d**2))
    # stable: of equal entries the first ones in the order of rows
    order = sorted(range(q.d**2), key=lambda place: (result.M.flat[place], place))
    pruned = np.ones(q.d**2)
    pruned[order[-wanted:] if largest and wanted else order[:wanted]] = 0.0
    rounded = binary_mask(result.M, q.case["rho"])
    return [
        agree(q, point.M, result.M, "two steps"),
        equal(q.number(rounded.ravel()), q.number(pruned), "the floor(rho d^2) smallest become 0"),
        equal(q.number(result.mask.ravel()), q.number(pruned), "and so in what is returned"),
    ]


# Where the iterates stay


def _stretch(rng: Generator, case: Case) -> dict[str, Any]:
    return {"stretch": float(rng.choice([0.1, 1.0, 1.5, 1.95]))}


def _confined(
    q: Quantities,
    stretch: float = 1.0,
    room: float = 1.0,
    constant: Callable[[Quantities], Lifted] = sharp_L,
    gradients: bool = True,
    power: float = 0.0,
) -> list[Relation]:
    """One step of size stretch/L from the case's M, whatever it is, does not raise L: so no step of a descent does.

    And along a descent from M = 1, of 8 steps or as many as the case says: ||M||^2 + ||c||^2/lam is 2 L(M)/lam.
    """
    s = float(q.case["stretch"]) * stretch
    eta = step_below(q, s, constant)
    found, smallest, before = [], None, None
    limit, L = q.of(rates.start_loss, q.d, q.lam) * q.number(room), constant(q)
    moved = q.at(q.M - q.gradient * eta)
    found.append(at_most(moved.L, q.L, "from any M"))
    for t, point in enumerate(descend(q, eta, int(q.case.get("steps", 8)))):
        found.append(at_most(point.L, limit, f"t = {t}"))
        if before is not None:
            found.append(at_most(point.L + limit, before + limit, f"descent, t = {t}", offset=limit))
        before = point.L
        if gradients and t and stretch == 1.0:
            bound = q.of(rates.smallest_gradient, q.d, q.lam, eta, L, t)
            found.append(at_most(smallest, bound * q.number(room * t**-power), f"smallest gradient before t = {t}"))
        size = q.square(point.gradient)
        smallest = size if smallest is None else q.smallest([smallest, size])
    return found


def _only_regulariser(rng: Generator) -> Iterator[Case]:
    """n = 1: only the regulariser moves M; the smallest gradient bound is nearly met."""
    for s in (0.1, 1.0, 1.9):
        yield Case(
            {
                "X": np.array([[1.0, 2.0]]),
                "W": np.ones((2, 2)),
                "M": np.ones((2, 2)),
                "lam": 0.3,
                "mask": None,
                "stretch": s,
            },
            "one token",
        )


def _long_walks(rng: Generator) -> Iterator[Case]:
    """Hundreds of steps, with weights of 0, n > d and a mask under which a row has no choice; and one token."""
    yield from _only_regulariser(rng)
    mask = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]], dtype=bool)
    for lam, stretch in ((0.02, 1.0), (0.3, 1.9)):
        values = {"X": np.array([[1.0, 0.5], [-1.0, 2.0], [0.5, -1.5]]), "W": np.array([[1.0, 0.0], [-0.5, 2.0]])}
        more = {"M": np.array([[-1.0, 3.0], [2.0, -2.0]]), "lam": lam, "mask": mask, "stretch": stretch, "steps": 300}
        yield Case({**values, **more}, f"300 steps, lam = {lam}")


def _where_rows_bend_most() -> Iterator[Case]:
    """Beside a stationary point of curvature L, so that 2/L is the longest step."""
    rest = steepest_rest()
    for near in (1.01, 0.99):
        yield rest.but(f"{rest.origin} times {near}", M=near * rest["M"], stretch=1.99)


def _one_step(q: Quantities, share: float | None = None) -> Relation:
    """Both sides plus the required decrease, so that neither is a small difference."""
    eta = step_below(q, float(q.case["stretch"]), simple_L)
    rate = 1 - eta * simple_L(q) / 2 if share is None else q.number(share)
    reached = q.at(q.M - q.gradient * eta).L
    return at_most(reached + eta * rate * q.square(q.gradient), q.L, offset=reached)


def _out_of_the_box() -> Iterator[Case]:
    X, W = np.array([[-0.4, -0.6], [0.8, 0.8]]), np.array([[1.4, -1.8], [-1.4, -0.6]])
    yield Case({"X": X, "W": W, "M": np.ones((2, 2)), "lam": 0.2, "mask": None}, "two tokens, two features, lam = 1/5")


def _leaves(q: Quantities, level: float = 0.0) -> list[Relation]:
    """These steps suffice; balls widen too much for many more at this precision."""
    eta = step_below(q, 0.99)
    points = list(descend(q, eta, _LEAVING))
    least = q.smallest([q.smallest(point.M) for point in points])
    q.note({f"min_{{t<{len(points)}}} min_ij (M_t)_ij": least, "M_0": points[0].M, "eta": eta})
    q.note({"||M_t||_F^2": [q.square(point.M) for point in points]})
    inside = [at_most(q.square(point.M), q.number(float(q.d**2)), f"t = {t}") for t, point in enumerate(points)]
    return [less(least, q.number(level), "an entry below"), *inside]


_LAM = lam_positive(_long_walks)
_LONG_RUN = Hypothesis(f"T <= {_MOST_STEPS}", limit=True)
_WALK = Instances("any", extra=_stretch, small=True, free=("W", "X"))
_SAME_STEP = Reading(
    "literal", "as printed: tau the entry floor(rho d^2) of the ascending order, counted from 0; distinct entries"
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="alg:mask_gd",
        kind=Kind.ALGORITHM,
        title="Gradient descent for the pruning mask",
        section="3 Preliminary",
        reading=_SAME_STEP,
        formula="M <- M - (eta/k)(W o sum_j X_j^T p_j X_j + lam M); the floor(rho d^2) smallest M_ij <- 0, the"
        " others 1",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _zeros(q, 1),
        defect=_defects,
        supply=Arrays({"M": "dd"}, make=_distinct),
        uses=("thm:mat_view_l", "def:mask"),
        wrong=(Wrong("exactly floor(rho d^2) zeros", lambda q: _zeros(q, 0)),),
        repaired_by="fix:mask_gd",
        finding="the update is a gradient step for k = 1, but M_c is declared d x d and meets n x n matrices, the"
        " regulariser is divided by k, and the threshold, counted from 0, leaves one zero too many",
    ),
    Claim(
        id="fix:mask_gd",
        kind=Kind.ALGORITHM,
        title="Gradient descent for the pruning mask, repaired",
        section="3 Preliminary",
        reading=ANY_MASK,
        formula="M <- M - eta ((1/k) sum_j W o (X_j^T p_j X_j) + lam M); the floor(rho d^2) smallest become 0",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_repaired_step,
        supply=Instances("any", extra=_batch, small=True, rounds=1),
        uses=("thm:mat_view_l",),
        wrong=(
            Wrong("the regulariser divided by k", lambda q: _repaired_step(q, divided=True)),
            Wrong("the largest become 0", lambda q: _repaired_step(q, largest=True)),
        ),
        repairs="alg:mask_gd",
        source="new",
    ),
    Claim(
        id="thm:convergence",
        kind=Kind.THEOREM,
        title="Convergence from a proxy PL inequality",
        section="5 Technique Overview",
        reading=LITERAL,
        formula="min_{t<T} g(w_t) <= xi + eps, T = 2 eta^{-1} (mu eps/2)^{-2/alpha} f(w_0) if eps > 0 and 0 < eta"
        " <= 1/L",
        strength=Strength.UPPER,
        margin=_imported,
        supply=Arrays({"a": "n", "w": "n"}, make=_powers, rounds=24),
        hypotheses=(Hypothesis("eps > 0", lambda q: bool(q.norm(q.a * q.w) > 0)), _LONG_RUN),
        uses=("def:PL",),
        attains=_slow,
        wrong=(Wrong("a tenth of the steps", lambda q: _imported(q, 0.1)),),
        source="the paper, imported",
        note="f(w0) = 0 makes T = 0 and leaves nothing to take the minimum of: read T as at least 1",
    ),
    Claim(
        id="new:confinement",
        kind=Kind.THEOREM,
        title="Iterates are confined",
        section=_APPENDIX,
        reading=ANY_MASK,
        formula="L(M - eta g) <= L(M), L(M_{t+1}) - L(M_t) <= 0, ||M_t||_F^2 + ||c_t||_F^2 / lam <= d^2, that is"
        " L(M_t) <= lam d^2/2, L = lam + (5/4) K^2, M_0 = 1 if lam > 0 and 0 < eta < 2/L",
        strength=Strength.TIGHT,
        margin=lambda q: _confined(q, constant=simple_L, gradients=False),
        supply=_WALK,
        hypotheses=(_LAM,),
        uses=("new:lip_grad_row_constant",),
        wrong=(
            Wrong("0.9 of the right sides", lambda q: _confined(q, room=0.9, constant=simple_L, gradients=False)),
            Wrong("steps a tenth too long", lambda q: _confined(q, stretch=1.1, constant=simple_L)),
        ),
        source="new",
        tags=frozenset({"every step"}),
    ),
    Claim(
        id="new:confinement_sharp",
        kind=Kind.THEOREM,
        title="Iterates are confined, with the sharp constant",
        section=_APPENDIX,
        reading=ANY_MASK,
        formula="L(M - eta g) <= L(M), L(M_{t+1}) - L(M_t) <= 0, ||M_t||_F^2 + ||c_t||_F^2 / lam <= d^2, that is"
        " L(M_t) <= lam d^2/2; min_{t<T} ||grad L(M_t)||_F^2 <= lam d^2 / (eta (2 - eta L) T), L = lam + C_+ K^2,"
        " M_0 = 1 if lam > 0 and 0 < eta < 2/L",
        strength=Strength.TIGHT,
        loose=frozenset({"smallest gradient before t ="}),
        margin=_confined,
        supply=_WALK,
        attains=_where_rows_bend_most,
        hypotheses=(_LAM,),
        uses=("fix:lip_grad_l",),
        wrong=(
            Wrong("0.9 of the right sides", lambda q: _confined(q, room=0.9)),
            Wrong("steps a tenth too long", lambda q: _confined(q, stretch=1.1)),
            Wrong("0.3 in place of C_+", lambda q: _confined(q, constant=lambda point: smooth(point, 0.3))),
            Wrong("T^{1.36} in place of T", lambda q: _confined(q, power=0.36)),
        ),
        source="new",
    ),
    Claim(
        id="new:descent_lemma",
        kind=Kind.LEMMA,
        title="Descent lemma",
        section=_APPENDIX,
        reading=ANY_MASK,
        formula="L(M - eta g) <= L(M) - eta (1 - eta L/2) ||g||^2, L = lam + (5/4) K^2 if lam > 0",
        strength=Strength.UPPER,
        margin=_one_step,
        supply=_WALK,
        hypotheses=(_LAM,),
        uses=("new:lip_grad_row_constant",),
        wrong=(Wrong("a decrease of 1.02 eta ||g||^2", lambda q: _one_step(q, 1.02)),),
        source="new",
    ),
    Claim(
        id="new:descent_leaves_box",
        kind=Kind.LEMMA,
        title="Descent leaves the box",
        section=_APPENDIX,
        reading=Reading("full", "no attention mask; M_0 = 1, step below 1/L", "full"),
        formula=f"min_{{t<{_LEAVING + 1}}} min_ij (M_t)_ij < 0, ||M_t||_F^2 <= d^2, M_0 = 1, L = lam + C_+ K^2 if eta"
        " < 1/L",
        strength=Strength.UPPER,
        arithmetic="ball",
        margin=_leaves,
        supply=Fixed(_out_of_the_box),
        uses=("new:confinement",),
        wrong=(Wrong("an entry falls below -1", lambda q: _leaves(q, -1.0)),),
        source="new",
        tags=frozenset({"existential"}),
    ),
)
