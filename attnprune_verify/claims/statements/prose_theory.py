"""What the text says about its own theory: rates, bounds, masks and steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Margin, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, FULL, LITERAL, several_tokens
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.relation import Relation, at_least, at_most, equal, less
from attnprune_verify.claims.supply import Arrays, Fixed, Instances, Supply
from attnprune_verify.claims.trajectory import descend, step_below
from attnprune_verify.theory import paper, rates, sharp

_SECTION = "4 Main Results"
_EPS = 1e-3


def _steps(q: Quantities, lam: Any) -> Any:
    """T with L(1) = lam d^2/2, d = n = mu = eps = 1 and eta = 1/(lam + C)."""
    return q.of(paper.iterations, q.of(rates.start_loss, 1, lam), 1 / (lam + q.C), 1, 1, 1)


def _xi(q: Quantities, lam: Any) -> Any:
    """xi of the theorem at n = 1, with d max|W| ||X||_F^2 / mu = C."""
    return q.of(paper.xi_theorem, 1, q.C, 1, 1, lam, 1)


def _positive(rng: Generator, case: Case) -> Case:
    return case.but(lam=abs(case["lam"]) + 1 / 16, C=abs(case["C"]) + 1.0)


def _far_out(rng: Generator, case: Case) -> dict[str, Any]:
    return {"M": case["M"] * float(rng.choice([1.0, 1e6, 1e12])), "lam": 0.04}


def _rounded(q: Quantities, factor: float = 1.0) -> Relation:
    """The mask of M_T from M_0 = 1 with the paper's mu, L, eta = 1/L and T for eps, against (xi + eps)/2."""
    eps, mu = q.number(_EPS), q.of(paper.mu, q.w_min, q.beta, q.smallest([q.delta, q.smallest(q.f)]))
    L = q.of(paper.lipschitz, q.n, q.d, q.R, q.lam)
    steps = math.ceil(float(q.of(paper.iterations, q.of(rates.start_loss, q.d, q.lam), 1 / L, mu, eps, q.n)))
    *_, last = descend(q, q.number(1 / float(L)), steps)
    mask = binary_mask(np.array([[float(entry) for entry in row] for row in last.M]), 0.5)
    xi = q.of(paper.xi_theorem, q.n, q.d, q.w_max, q.norm(q.X), q.lam, mu)
    return at_most(q.at(q.number(mask)).L_attn / q.n**2 * q.number(factor), q.of(paper.goal, xi, eps))


def _dense_start() -> Iterator[Case]:
    W = np.array([[3.0, -3.0], [-3.0, 3.0]])
    yield Case(
        {"X": np.eye(2), "W": W, "M": np.ones((2, 2)), "lam": 1e-10, "mask": None}, "X = I_2, |W| = 3, rho = 1/2"
    )


def _printed_zeros(M: Any, rho: Fraction) -> int:
    ordered = sorted(M.ravel())
    position = min(int(rho * len(ordered)), len(ordered) - 1)
    return sum(1 for entry in ordered if not entry > ordered[position])


def _with_rho(rng: Generator, case: Case) -> Case:
    d = max(2, len(case["M"]))
    M = rng.permutation(d * d).reshape(d, d) / 16.0
    if rng.integers(3) == 0:
        M = np.full((d, d), 0.5)
    return case.but(M=M, rho=Fraction(int(rng.integers(0, 4)), 4))


def _proportion(q: Quantities, more: int = 0) -> Relation:
    rho, M = q.case["rho"], q.case["M"]
    return equal(q.number(_printed_zeros(M, rho)), q.number(int(rho * M.size) + more))


def _leaves_the_box() -> Iterator[Case]:
    X, W = np.array([[-0.4, -0.6], [0.8, 0.8]]), np.array([[1.4, -1.8], [-1.4, -0.6]])
    yield Case({"X": X, "W": W, "M": np.ones((2, 2)), "lam": 0.2, "mask": None}, "two tokens, two features, lam = 1/5")


def _in_box(q: Quantities, low: float = 0.0) -> Relation:
    """The smallest entry met on the way; steps of 1/(lam + C_+ K^2)."""
    least = q.smallest([q.smallest(point.M) for point in descend(q, step_below(q, 0.99), 140)])
    return at_least(least + 2, q.number(2.0 + low))


def _momentum_case() -> Iterator[Case]:
    values = {"X": np.eye(2), "W": np.array([[2.0, -1.0], [-1.0, 3.0]]), "M": np.ones((2, 2)), "lam": 0.5, "mask": None}
    yield Case(values, "X = I_2, lam = 1/2")


def _monotone(q: Quantities, momentum: float) -> Relation:
    """The largest ratio L(M_{t+1})/L(M_t) in 60 heavy-ball steps of 0.99/L."""
    eta = step_below(q, 0.99)
    losses = [point.L for point in descend(q, eta, 60, momentum)]
    ratios = [after / before for before, after in zip(losses, losses[1:], strict=False)]
    return at_most(q.largest(ratios), q.number(1.0))


def _exp(
    id_: str,
    title: str,
    says: str,
    formula: str,
    margin: Margin,
    supply: Supply,
    wrong: tuple[Wrong, ...],
    *,
    section: str = _SECTION,
    reading: Reading = LITERAL,
    strength: Strength = Strength.UPPER,
    arithmetic: str = "float",
    hypotheses: tuple[Hypothesis, ...] = (),
    uses: tuple[str, ...] = (),
    repaired_by: str | None = None,
    note: str = "",
    tags: frozenset[str] = frozenset(),
) -> Claim:
    return Claim(
        id=id_, kind=Kind.EXPERIMENT, title=title, section=section, reading=reading, says=says, formula=formula,
        strength=strength, margin=margin, supply=supply, hypotheses=hypotheses, uses=uses, wrong=wrong,
        arithmetic=arithmetic, repaired_by=repaired_by, note=note, tags=tags, source="the paper's text",
    )  # fmt: skip


def _least_weights(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """Row by row over the allowed positions."""
    rows = zip(q.F, q.allowed, q.row_sizes.tolist(), strict=True)
    return [at_most(q.smallest(row[S]), q.of(sharp.largest_delta, m) * q.number(factor)) for row, S, m in rows]


CLAIMS: tuple[Claim, ...] = (
    _exp(
        "exp:smaller_lam_takes_longer",
        "Smaller lam means longer run time",
        "T grows as lam shrinks ('T prop. to 1/eta prop. to L'): reversed, because L(M_0) = lam d^2/2 is a factor of"
        " T.",
        "T(lam/2) >= T(lam), T = 2 lam d^2 (lam + C)/(mu eps n^2)",
        lambda q: at_least(_steps(q, q.lam / 2), _steps(q, q.lam)),
        Arrays({"lam": "", "C": ""}, make=_positive),
        (Wrong("T independent of lam", lambda q: equal(_steps(q, q.lam / 2), _steps(q, q.lam))),),
        strength=Strength.LOWER,
        arithmetic="exact",
        uses=("thm:our_convergence",),
    ),
    _exp(
        "exp:xi_vanishes",
        "xi vanishes with lam",
        "At fixed mu, xi is proportional to lam. (But M = 1 is then exactly optimal.)",
        "xi(lam/2) = xi(lam)/2",
        lambda q: equal(_xi(q, q.lam / 2), _xi(q, q.lam) / 2),
        Arrays({"lam": "", "C": ""}, make=_positive),
        (Wrong("proportional to lam^2", lambda q: equal(_xi(q, q.lam / 2), _xi(q, q.lam) / 4)),),
        section="1 Introduction",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        uses=("thm:our_convergence",),
        tags=frozenset({"tautology"}),
        note="true of the formula as printed, whatever is measured; the U-shape of Figure 2(a) is not explained by it",
    ),
    _exp(
        "exp:gradient_bounded",
        "A Lipschitz gradient is bounded",
        "'The gradient for M is upper bounded': lam M is not; only the attention part is.",
        "||grad L(M)||_F <= 3 sqrt(n) max|W| ||X||_F^2 + lam d for all real M",
        lambda q: at_most(
            q.norm(q.gradient),
            3 * q.sqrt(q.number(float(q.n))) * q.w_max * q.square(q.X) + q.lam * q.d,
        ),
        Instances("any", extra=_far_out, small=True, lam=0.04),
        (Wrong("||grad L|| <= ||M||", lambda q: at_most(q.norm(q.gradient), q.norm(q.M) / 1000)),),
        section="5 Technique Overview",
        reading=ANY_MASK,
        uses=("thm:lip_grad_l_informal",),
        repaired_by="new:attention_gradient_sharp",
    ),
    _exp(
        "exp:near_optimal_mask",
        "The returned mask is near-optimal",
        "The guarantee of the theorem for the 0/1 mask that is returned: rounding is not covered, and the bound fails.",
        "L_attn(rounded M)/n^2 <= (xi + eps)/2",
        _rounded,
        Fixed(_dense_start),
        (Wrong("a hundred times the left side", lambda q: _rounded(q, 100.0)),),
        section="1 Introduction",
        reading=FULL,
        uses=("thm:our_convergence", "alg:mask_gd"),
    ),
    _exp(
        "exp:exact_proportion",
        "Only the specified proportion is pruned",
        "Thresholding at the percentile leaves exactly floor(rho d^2) zeros: one too many for distinct entries, all of"
        " them for ties.",
        "#zeros = floor(rho d^2)",
        _proportion,
        Arrays({"M": "dd"}, make=_with_rho),
        (Wrong("always one fewer", lambda q: _proportion(q, -1)),),
        strength=Strength.IDENTITY,
        arithmetic="exact",
        uses=("alg:mask_gd",),
        repaired_by="fix:mask_gd",
    ),
    _exp(
        "exp:any_attention_mask",
        "The analysis covers any attention mask",
        "With any forbidden position (block-wise, causal) min f(M) is 0, so the stated lemma's delta > 0 cannot hold.",
        "min_ij F(M)_ij > 0 for every attention mask",
        lambda q: less(q.number(0.0), q.delta),
        Instances("given", small=True, free=()),
        (Wrong("min F >= 1/n^2", lambda q: at_least(q.delta, q.number(1.0 / q.n**2))),),
        section="3 Preliminary",
        reading=Reading("given", "a general attention mask", "given"),
        strength=Strength.LOWER,
        arithmetic="ball",
        uses=("lem:lower_bound_p",),
        repaired_by="fix:lower_bound_p",
    ),
    _exp(
        "exp:mask_stays_in_box",
        "M stays in [0,1]",
        "The lemmas use M in [0,1]^{dxd}; plain descent with a safe step leaves the box.",
        "0 <= M_t for all t",
        _in_box,
        Fixed(_leaves_the_box),
        (Wrong("entries stay above 1/2", lambda q: _in_box(q, 0.5)),),
        reading=FULL,
        strength=Strength.LOWER,
        uses=("lem:PL_ineq", "alg:mask_gd"),
        repaired_by="new:confinement",
    ),
    _exp(
        "exp:momentum",
        "Momentum is covered",
        "The theorem's descent lemma needs a loss that never rises; heavy-ball momentum 0.9 makes it rise.",
        "L(M_{t+1}) <= L(M_t) with momentum 0.9 and eta < 1/L",
        lambda q: _monotone(q, 0.9),
        Fixed(_momentum_case),
        (Wrong("momentum 0.99", lambda q: _monotone(q, 0.99)),),
        section="6 Experiment",
        reading=FULL,
        uses=("thm:our_convergence",),
    ),
    Claim(
        id="new:delta_le_inverse_n",
        kind=Kind.LEMMA,
        title="delta is at most 1/n",
        section="6 Experiment",
        reading=ANY_MASK,
        says="No row of m non-negative numbers with sum 1 has a minimum above 1/m; attained by uniform rows, and with"
        " m = n by rows without a mask.",
        formula="min_j F(M)_ij <= 1/m over the m allowed positions of row i",
        strength=Strength.TIGHT,
        margin=_least_weights,
        supply=Instances("any"),
        hypotheses=(several_tokens("any"),),
        uses=("def:soft_prob_func",),
        wrong=(Wrong("0.95/m", lambda q: _least_weights(q, 0.95)),),
        source="new",
    ),
)
