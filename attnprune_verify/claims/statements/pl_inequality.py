"""The PL inequality: false as printed, because three constants were not squared; vacuous under the causal mask."""

from collections.abc import Iterator

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.pl_relation import as_printed, pl_inequality
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, equal, less
from attnprune_verify.claims.cases.supply import Arrays, Fixed, Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import (
    ANY_MASK,
    CAUSAL,
    FULL,
    LITERAL,
    beta_positive,
    delta_allowed_positive,
    delta_positive,
    lam_in_unit_interval,
    mask_in_box,
    mask_norm,
    several_tokens,
    weights_nonzero,
)
from attnprune_verify.theory.formulas import sharp
from attnprune_verify.theory.theorem import HYPOTHESES

_USES = (
    "thm:mat_view_l",
    "lem:lower_bound_B_plus_M",
    "lem:lower_bound_hadamard",
    "lem:lower_bound_XBX",
    "lem:lower_bound_p",
    "lem:bound_c",
    "lem:bound_diag_f",
)
_FORMULA = (
    "||grad L||^2 >= (mu/2) (||c||^2 + (2 lam^2/mu) ||M||^2 - xi), mu = 2 min|W| beta delta,"
    " xi = 12 sqrt(n) max|W| ||X||_F^2 lam d / mu"
)
_BOXED = ", if beta > 0, delta > 0, min|W| > 0, 0 <= M_ij <= 1 and 0 <= lam <= 1"


def squared(q: Quantities) -> Relation:
    """mu = 2 (min|W| beta delta)^2, delta over the allowed positions."""
    return pl_inequality(q, q.of(sharp.mu, q.w_min, q.beta, q.delta_allowed) / 2)


def _larger_mu(q: Quantities, factor: float = 1.1) -> Relation:
    kappa = q.w_min * q.beta * q.delta_allowed
    return pl_inequality(q, kappa * kappa * q.number(factor))


def _unsquared_allowed(q: Quantities) -> Relation:
    return pl_inequality(q, q.w_min * q.beta * q.delta_allowed)


def _literal_hypotheses(mask: str, formal: bool) -> tuple:  # type: ignore[type-arg]
    """Return the assumptions that `check` tests; the informal version leaves out M and lam."""
    known = {
        "beta": beta_positive(mask),
        "delta": delta_positive(mask),
        "W-nonzero": weights_nonzero(mask),
        "M-in-box": mask_in_box(mask),
        "lam-in-unit-interval": lam_in_unit_interval(mask),
    }
    asked = HYPOTHESES if formal else HYPOTHESES[:3]
    return (several_tokens(mask), *(known[name] for name in asked))


_ALLOWED = (beta_positive("any"), delta_allowed_positive(), weights_nonzero("any"))


def _attained() -> Iterator[Case]:
    """X = I_n, |W| = 1 and F uniform: ||grad||^2 / ||c||^2 = (min|W| beta delta)^2 exactly."""
    for n in (2, 3, 4, 5):
        W = np.ones((n, n)) - 2 * np.eye(n)
        yield Case({"X": np.eye(n), "W": W, "M": np.zeros((n, n)), "lam": 0.0, "mask": None}, f"X = I_{n}, M = 0")


def _causal_counterexamples() -> Iterator[Case]:
    """X = I_2, W = [[1, -1], [-1, 1]]/10, M = 0, causal; lam = 0 and lam = 1e-7."""
    W = 0.1 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    for lam in (0.0, 1e-7):
        values = {"X": np.eye(2), "W": W, "M": np.zeros((2, 2)), "lam": lam, "mask": "causal"}
        yield Case(values, f"X = I_2, |W| = 1/10, M = 0, causal, lam = {lam:g}")


def _diagonal(q: Quantities, extreme: object) -> Relation:
    """f(w) = 1/2 ||diag(a) w||^2 satisfies the (2f, 0, 2, 2 min a^2)-PL inequality."""
    a, w = q.a, q.w
    value = (a * a * w * w).sum()
    return at_least((a * a * a * a * w * w).sum(), extreme * value)


def _literal(id_: str, title: str, section: str, formal: bool) -> list[Claim]:
    made = []
    for reading in (FULL, CAUSAL):
        mask = str(reading.mask)
        made.append(
            Claim(
                id=id_,
                kind=Kind.LEMMA,
                title=title,
                section=section,
                reading=reading,
                formula=_FORMULA + (_BOXED if formal else ""),
                strength=Strength.LOWER,
                margin=as_printed,
                supply=Instances(mask, in_box=formal, least_tokens=2),
                hypotheses=_literal_hypotheses(mask, formal),
                uses=_USES if formal else ("lem:PL_ineq",),
                wrong=(
                    Wrong("mu without squares, delta over allowed positions", _unsquared_allowed, _ALLOWED),
                    Wrong("the squared mu, times 1.1", _larger_mu, _ALLOWED),
                ),
                repaired_by="fix:PL_ineq",
                note="alpha_2, alpha_3 and alpha_4 of the proof each need a square"
                if mask == "full"
                else "a forbidden position makes min F = 0 exactly, so delta > 0 cannot hold; with n = 1 the lemma is"
                " trivial",
            )
        )
    return made


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="def:PL",
        kind=Kind.DEFINITION,
        title="g-proxy, xi-optimal PL inequality",
        section="5 Technique Overview",
        reading=LITERAL,
        formula="||grad f(w)||^alpha >= (mu/2) (g(w) - xi), f(w) = 1/2 ||diag(a) w||^2, grad f(w) = diag(a)^2 w,"
        " g(w) = 2 f(w), xi = 0, alpha = 2, mu = 2 min_i a_i^2",
        strength=Strength.LOWER,
        arithmetic="exact",
        margin=lambda q: _diagonal(q, min(q.a * q.a)),
        supply=Arrays({"a": "n", "w": "n"}),
        wrong=(Wrong("mu = 2 max a^2", lambda q: _diagonal(q, max(q.a * q.a))),),
        note="mu is quantified twice; 'for all w in R^p' is not met when delta is fixed in advance",
    ),
    *_literal("lem:PL_ineq_informal", "PL inequality (informal)", "5 Technique Overview", formal=False),
    *_literal("lem:PL_ineq", "PL inequality", "G Convergence of Gradient Descent", formal=True),
    Claim(
        id="fix:PL_ineq",
        kind=Kind.LEMMA,
        title="PL inequality with the squares",
        section="G Convergence of Gradient Descent",
        reading=ANY_MASK,
        formula="||grad L||^2 + 6 sqrt(n) max|W| ||X||_F^2 lam d >= (mu/2) ||c||^2 + lam^2 ||M||^2,"
        " mu = 2 (min|W| beta delta)^2, if beta > 0, delta > 0, min|W| > 0 and ||M||_F <= d",
        strength=Strength.TIGHT,
        margin=squared,
        supply=Instances("any"),
        hypotheses=(*_ALLOWED, mask_norm()),
        uses=("thm:mat_view_l", "fix:lower_bound_p", "lem:lower_bound_XBX", "lem:lower_bound_hadamard"),
        attains=_attained,
        wrong=(
            Wrong("1.1 mu", _larger_mu),
            Wrong("mu without squares", _unsquared_allowed),
            Wrong("the cross term dropped", lambda q: at_least(q.square(q.gradient), q.lam * q.lam * q.square(q.M))),
        ),
        repairs="lem:PL_ineq",
        source="new: the paper's proof with alpha_2, alpha_3, alpha_4 squared and row bounds over allowed positions",
    ),
    Claim(
        id="new:causal_floor",
        kind=Kind.LEMMA,
        title="The floor of causal attention",
        section="4 Main Results",
        reading=CAUSAL,
        formula="min_ij F(M)_ij = 0 if n >= 2",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: equal(q.smallest(q.F), q.number(0.0)),
        supply=Instances("causal", small=True),
        hypotheses=(several_tokens("causal"),),
        uses=("def:mask", "def:soft_prob_func"),
        wrong=(Wrong("the smallest allowed entry is 0", lambda q: equal(q.delta_allowed, q.number(0.0))),),
        source="new: a forbidden position has weight 0",
    ),
    Claim(
        id="new:PL_ineq_sharp",
        kind=Kind.LEMMA,
        title="The squared constant is the best of its form",
        section="G Convergence of Gradient Descent",
        reading=FULL,
        formula="||W o (X^T p X)||^2 = (min|W| beta delta)^2 ||c||^2 at X = I, W = 1 1^T - 2 I, M = 0",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: equal(q.square(q.G) * q.n**2, q.square(q.c)),
        supply=Fixed(_attained),
        uses=("fix:PL_ineq",),
        wrong=(Wrong("the paper's min|W| beta delta", lambda q: equal(q.square(q.G) * q.n, q.square(q.c))),),
        source="new",
        tags=frozenset({"existential"}),
    ),
    Claim(
        id="new:PL_ineq_paper_mu_allowed",
        kind=Kind.LEMMA,
        title="The paper's mu fails over allowed positions too",
        section="G Convergence of Gradient Descent",
        reading=CAUSAL,
        formula="||grad L||^2 < min|W| beta delta_allowed ||c||^2 + lam^2 ||M||^2 - 6 sqrt(n) max|W| ||X||^2 lam d",
        strength=Strength.UPPER,
        arithmetic="ball",
        margin=lambda q: less(_unsquared_allowed(q).lhs, _unsquared_allowed(q).rhs),
        supply=Fixed(_causal_counterexamples),
        uses=("thm:mat_view_l",),
        wrong=(Wrong("the squared mu fails as well", lambda q: less(squared(q).lhs, squared(q).rhs)),),
        source="new",
        tags=frozenset({"existential"}),
    ),
)
