"""The numbers that `check` prints, judged: those of `constants` and of the guarantees, on the instances themselves."""

from collections.abc import Iterator

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.numbers.balls import lower, upper
from attnprune_verify.theory.quantities.curvature import local_curvature
from attnprune_verify.theory.quantities.operator_norm import DENSE_LIMIT

_CURVATURE_LIMIT = 4
"""Up to this d the Hessian is formed entry by entry."""
_NEARLY = 1.01  # the promise of `certified_constants`: K within 1 %


def _instance(q: Quantities, lam: float | None = None, M: Lifted = None) -> Instance:
    case = q.case
    return Instance(case["X"], case["W"], M=M, mask=case["mask"], lam=case["lam"] if lam is None else lam)


def _constants(q: Quantities, low: float = 1.0, near_for_every_d: bool = False) -> list[Relation]:
    """K from both sides, the factors of mu from below, and L_sharp above every curvature."""
    found = constants(_instance(q, M=q.case["M"]))
    parts = [
        at_most(q.K, q.number(found.K * low), "K from above"),
        at_most(q.number(found.K_lower), q.K, "K from below"),
    ]
    if q.d <= DENSE_LIMIT or near_for_every_d:
        parts.append(at_most(q.number(found.K), q.K * q.number(_NEARLY), "K within 1 %"))
    if q.d <= _CURVATURE_LIMIT:
        _, largest = extreme_eigenvalues(q.curvature, q.arithmetic)
        parts.append(at_most(largest + q.lam, q.number(found.L_sharp * low), "L_sharp"))
    if q.n_e:  # without a row that has a choice the factors of mu multiply c = 0
        parts.append(at_most(q.number(found.kappa_T), q.kappa_T, "kappa_T"))
        parts.append(at_most(q.number(found.row_eigenvalue), q.lambda_2, "lambda_2"))
    numbers = {
        "K_lower": found.K_lower,
        "K": found.K,
        "L_sharp": found.L_sharp,
        "k": found.kappa_T,
        "l": found.row_eigenvalue,
    }
    q.note({**numbers, "||Pi A||": q.K})
    return parts


def _many_features() -> Iterator[Case]:
    """Up to the last d for which the Gram matrix of K is formed, and the first beyond: there K is a product of norms.

    Few tokens and many, and weights of 0.
    """
    rng = np.random.default_rng(0)
    more = ((2, _CURVATURE_LIMIT + 1, None), (1, 2, None))
    for n, d, mask in ((4, DENSE_LIMIT + 1, "causal"), (3, DENSE_LIMIT, None), (9, 4, rng.random((9, 9)) < 0.3), *more):
        W = np.where(rng.random((d, d)) < 0.2, 0.0, rng.standard_normal((d, d)))
        allowed = mask | np.eye(n, dtype=bool) if isinstance(mask, np.ndarray) else mask
        values = {"X": rng.standard_normal((n, d)), "W": W, "M": np.ones((d, d)), "lam": 0.0, "mask": allowed}
        yield Case(values, f"n = {n}, d = {d}")


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


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:certified_constants",
        kind=Kind.LEMMA,
        title="The library's own constants",
        section="F Lipschitz of Gradient",
        reading=ANY_MASK,
        formula=f"K_lower <= ||Pi A|| <= K, K <= {_NEARLY} ||Pi A|| wherever d <= {DENSE_LIMIT}, lambda_max(Hess L(M))"
        f" <= L_sharp wherever d <= {_CURVATURE_LIMIT}, k <= kappa_T wherever n_e > 0, l <= lambda_2 wherever n_e > 0",
        strength=Strength.UPPER,
        margin=_constants,
        supply=Instances("any", small=True, free=()),  # K does not depend on M, and at d = 33 M is long
        uses=("new:curvature_range",),
        attains=_known_numbers,
        wrong=(
            Wrong("0.9 K", lambda q: _constants(q, 0.9)),
            Wrong("0.999 K", lambda q: _constants(q, 0.999)),
            Wrong("within 1 % for every d", lambda q: _constants(q, near_for_every_d=True)),
        ),
        source="new",
    ),
    Claim(
        id="new:local_curvature",
        kind=Kind.LEMMA,
        title="Curvature at one M",
        section="F Lipschitz of Gradient",
        reading=ANY_MASK,
        formula="-max_i C_i^- K^2 I <= Hess L(M) - lam I <= max_i C_i^+ K^2 I, C_i^+ = b^2 + b max_j (c_j - <c,"
        " s>)_+, C_i^- = b (max_j (<c, s> - c_j) - min s)_+, b = s1 (1 - s1 + s2) of the two largest weights of row"
        " i, or Gershgorin's bounds, or C_+ and C_-, the least of them",
        strength=Strength.TIGHT,
        margin=_local,
        supply=Instances("any", small=True, free=("M",)),
        uses=("new:curvature_range", "new:curvature_domination", "new:jacobian_two_largest"),
        attains=_bends,
        wrong=(Wrong("0.9 of both", lambda q: _local(q, 0.9)),),
        source="new",
    ),
)
