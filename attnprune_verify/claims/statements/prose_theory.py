"""Sentences of the text on its own theory: rates, bounds, masks and steps."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal, less
from attnprune_verify.claims.cases.supply import Arrays, Fixed, Instances
from attnprune_verify.claims.cases.trajectory import descend, step_below
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, FULL, mask_in_box
from attnprune_verify.claims.prose import sentence
from attnprune_verify.claims.reported import synthetic
from attnprune_verify.theory.formulas import paper, rates, sharp

_SECTION = "4 Main Results"
_EPS = 1e-3  # chosen: small, and large beside rounding
_MOMENTUM = float(synthetic().momentum)


def _steps(q: Quantities, lam: Lifted) -> Lifted:
    """T with L(1) = lam d^2/2, d = n = mu = eps = 1 and eta = 1/(lam + C)."""
    return q.of(paper.iterations, q.of(rates.start_loss, 1, lam), 1 / (lam + q.C), 1, 1, 1)


def _longer(q: Quantities) -> Relation:
    """T at half of lam and at lam; d = n = mu = eps = 1."""
    half, whole = _steps(q, q.lam / 2), _steps(q, q.lam)
    q.note({"T(lam/2)": half, "T(lam)": whole, **dict.fromkeys(("d", "n", "mu", "eps"), 1)})
    return at_least(half, whole)


def _halved(q: Quantities) -> Relation:
    half, whole = _xi(q, q.lam / 2), _xi(q, q.lam)
    q.note({"xi(lam/2)": half, "xi(lam)": whole, "d": q.C, **dict.fromkeys(("n", "max|W|", "||X||_F", "mu"), 1)})
    return equal(half, whole / 2)


def _xi(q: Quantities, lam: Lifted) -> Lifted:
    """xi of the theorem at n = 1, with d max|W| ||X||_F^2 / mu = C."""
    return q.of(paper.xi_theorem, 1, q.C, 1, 1, lam, 1)


def _positive(rng: Generator, case: Case) -> Case:
    return case.but(lam=abs(case["lam"]) + 1 / 16, C=abs(case["C"]) + 1.0)


def _bounded(q: Quantities, factor: float = 1.0) -> Relation:
    limit = 3 * q.sqrt(q.number(float(q.n))) * q.w_max * q.square(q.X) + q.lam * q.d
    return at_most(q.norm(q.gradient), limit * q.number(factor))


def _far_out(rng: Generator, case: Case) -> dict[str, Any]:
    return {"M": case["M"] * float(rng.choice([1.0, 1e6, 1e12])), "lam": 0.04}


def _rounded(q: Quantities, factor: float = 1.0) -> Relation:
    """The best 0/1 mask with rho d^2 zeros or more, however the threshold cuts, against (xi + eps)/2.

    mu is the printed one, with half of delta at M = 1: from there the T steps of 1/L move M by less than 1e-3.
    """
    eps, delta = q.number(_EPS), q.delta / 2
    mu = q.of(paper.mu, q.w_min, q.beta, delta)
    masks = (np.array(entries).reshape(q.d, q.d) for entries in product((0.0, 1.0), repeat=q.d**2))
    pruned = [mask for mask in masks if (mask == 0).sum() >= q.d**2 / 2]
    best = q.smallest([q.at(q.number(mask)).L_attn for mask in pruned])
    xi = q.of(paper.xi_theorem, q.n, q.d, q.w_max, q.norm(q.X), q.lam, mu)
    q.note({"min_M L_attn(M)": best, "eps": eps, "delta": delta, "xi": xi, "mu": mu})
    return at_most(best / q.n**2 * q.number(factor), q.of(paper.goal, xi, eps))


def _dense_start() -> Iterator[Case]:
    W = np.array([[3.0, -3.0], [-3.0, 3.0]])
    yield Case(
        {"X": np.eye(2), "W": W, "M": np.ones((2, 2)), "lam": 1e-10, "mask": None}, "X = I_2, |W| = 3, rho = 1/2"
    )


def _printed_zeros(M: Lifted, rho: Fraction) -> set[int]:
    """Zeros that M_ij > tau leaves, tau the entry floor(rho d^2) of the ascending order, counted from 0 and from 1."""
    ordered = sorted(M.ravel())
    place = int(rho * len(ordered))
    return {
        sum(1 for entry in ordered if not entry > ordered[min(max(place - first, 0), len(ordered) - 1)])
        for first in (0, 1)
    }


def _with_rho(rng: Generator, case: Case) -> Case:
    d = max(2, len(case["M"]))
    M = rng.permutation(d * d).reshape(d, d) / 16.0
    if rng.integers(3) == 0:
        M = np.full((d, d), 0.5)
    return case.but(M=M, rho=Fraction(int(rng.integers(0, 4)), 4))


def _proportion(q: Quantities, more: int = 0) -> Relation:
    """Return the nearer of both ways to count."""
    M = q.case["M"]
    wanted = int(q.case["rho"] * M.size) + more
    zeros = min(_printed_zeros(M, q.case["rho"]), key=lambda zeros: abs(zeros - wanted))
    q.note({"#zeros": zeros, "d": len(M)})
    return equal(q.number(zeros), q.number(wanted))


def _leaves_the_box() -> Iterator[Case]:
    X, W = np.array([[-0.4, -0.6], [0.8, 0.8]]), np.array([[1.4, -1.8], [-1.4, -0.6]])
    yield Case({"X": X, "W": W, "M": np.ones((2, 2)), "lam": 0.2, "mask": None}, "two tokens, two features, lam = 1/5")


def _in_box(q: Quantities, low: float = 0.0) -> Relation:
    """The smallest entry met on the way; steps of 1/(lam + C_+ K^2)."""
    eta = step_below(q, 0.99)
    points = list(descend(q, eta, 140))
    least = q.smallest([q.smallest(point.M) for point in points])
    q.note({f"min_{{t<{len(points)}}} min_ij (M_t)_ij": least, "M_0": points[0].M, "eta": eta})
    return at_least(least + 2, q.number(2.0 + low))


def _momentum_case() -> Iterator[Case]:
    values = {"X": np.eye(2), "W": np.array([[2.0, -1.0], [-1.0, 3.0]]), "M": np.ones((2, 2)), "lam": 0.5, "mask": None}
    yield Case(values, "X = I_2, lam = 1/2")


def _monotone(q: Quantities, momentum: float) -> Relation:
    """The largest ratio L(M_{t+1})/L(M_t) in 60 heavy-ball steps of 0.99/L."""
    eta = step_below(q, 0.99)
    points = list(descend(q, eta, 60, momentum))
    ratios = [after.L / before.L for before, after in pairwise(points)]
    q.note({f"max_{{t<{len(ratios)}}} L(M_{{t+1}})/L(M_t)": max(ratios, key=float)})
    q.note({"momentum": momentum, "M_0": points[0].M, "eta": eta})
    return at_most(q.largest(ratios), q.number(1.0))


def _least_weights(q: Quantities, factor: float = 1.0) -> list[Relation]:
    """Bound the least weight of each row over its allowed positions."""
    rows = zip(q.F, q.allowed, q.row_sizes.tolist(), strict=True)
    return [at_most(q.smallest(row[S]), q.of(sharp.largest_delta, m) * q.number(factor)) for row, S, m in rows]


CLAIMS: tuple[Claim, ...] = (
    sentence(
        "exp:smaller_lam_takes_longer",
        "The regulariser's strength and the run time",
        "T(lam/2) >= T(lam), T(lam) = 2 lam d^2 (lam + C)/(mu eps n^2), T(lam/2) = lam d^2 (lam/2 + C)/(mu eps n^2)",
        _longer,
        Arrays({"lam": "", "C": ""}, make=_positive),
        (Wrong("T independent of lam", lambda q: equal(_steps(q, q.lam / 2), _steps(q, q.lam))),),
        strength=Strength.LOWER,
        arithmetic="exact",
        uses=("thm:our_convergence",),
        finding="at fixed mu and eps T falls with lam: L grows with lam, and L(M_0) = lam d^2/2 is a factor of T",
    ),
    sentence(
        "exp:xi_vanishes",
        "xi vanishes with lam",
        "xi(lam/2) = xi(lam)/2, xi(lam) = 12 max|W| ||X||_F^2 lam d/mu at n = 1",
        _halved,
        Arrays({"lam": "", "C": ""}, make=_positive),
        (Wrong("proportional to lam^2", lambda q: equal(_xi(q, q.lam / 2), _xi(q, q.lam) / 4)),),
        section="1 Introduction",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        uses=("thm:our_convergence",),
        tags=frozenset({"tautology"}),
        note="true of the formula as printed, whatever is measured; at lam = 0 M = 1 is a minimiser (def:attn_prun)",
    ),
    sentence(
        "exp:gradient_bounded",
        "A Lipschitz gradient is bounded",
        "||grad L(M)||_F <= 3 sqrt(n) max|W| ||X||_F^2 + lam d for all real M",
        _bounded,
        Instances("any", extra=_far_out, small=True, lam=0.04),
        (Wrong("||grad L|| <= ||M||", lambda q: at_most(q.norm(q.gradient), q.norm(q.M) / 1000)),),
        section="5 Technique Overview",
        reading=ANY_MASK,
        uses=("thm:lip_grad_l_informal",),
        repaired_by="new:attention_gradient_sharp",
        finding="lam M is not bounded; only the attention part of the gradient is",
    ),
    sentence(
        "exp:gradient_bounded",
        "A Lipschitz gradient is bounded",
        "||grad L(M)||_F <= 3 sqrt(n) max|W| ||X||_F^2 + lam d if 0 <= M_ij <= 1",
        _bounded,
        Instances("any", in_box=True, small=True),
        (Wrong("a thousandth of it", lambda q: _bounded(q, 1e-3)),),
        section="5 Technique Overview",
        reading=Reading("box", "any attention mask without an empty row; M in [0,1]^{dxd}", "any"),
        hypotheses=(mask_in_box("any"),),
        uses=("new:attention_gradient_upper", "lem:M_bounds"),
    ),
    sentence(
        "exp:near_optimal_mask",
        "The returned mask is near-optimal",
        "min_M L_attn(M)/n^2 <= (xi + eps)/2, mu = 2 min|W| beta delta, xi = 12 n^{-3/2} max|W| ||X||_F^2 lam d/mu,"
        f" eps = {_EPS:g}",
        _rounded,
        Fixed(_dense_start),
        (Wrong("a hundred times the left side", lambda q: _rounded(q, 100.0)),),
        section="1 Introduction",
        reading=FULL,
        arithmetic="ball",
        uses=("thm:our_convergence", "alg:mask_gd"),
        finding="rounding is not covered: on an instance with two tokens every 0/1 mask with at least half zeros misses"
        " the bound",
    ),
    sentence(
        "exp:exact_proportion",
        "The pruned proportion",
        "#zeros = floor(rho d^2)",
        _proportion,
        Arrays({"M": "dd"}, make=_with_rho),
        (Wrong("always one fewer", lambda q: _proportion(q, -1)),),
        strength=Strength.IDENTITY,
        arithmetic="exact",
        uses=("alg:mask_gd",),
        repaired_by="fix:mask_gd",
        finding="not where entries are tied, whether positions are counted from 0 or from 1; all entries are cut where"
        " all are equal",
    ),
    sentence(
        "exp:any_attention_mask",
        "The analysis and the attention mask",
        "min_ij F(M)_ij > 0 for every attention mask",
        lambda q: less(q.number(0.0), q.delta),
        Instances("given", small=True, free=()),
        (Wrong("min F >= 1/n^2", lambda q: at_least(q.delta, q.number(1.0 / q.n**2))),),
        section="3 Preliminary",
        reading=Reading("given", "a general attention mask", "given"),
        strength=Strength.LOWER,
        arithmetic="ball",
        uses=("lem:lower_bound_p", "thm:mat_view_l", "thm:lip_grad_l"),
        repaired_by="fix:lower_bound_p",
        finding="gradient and Lipschitz constant are as stated for any mask; but as soon as a position is forbidden"
        " (block-wise, causal) min f(M) is 0, and no delta > 0 exists",
    ),
    sentence(
        "exp:mask_stays_in_box",
        "M stays in the box",
        "min_{t<141} min_ij (M_t)_ij >= 0, M_0 = 1, L = lam + C_+ K^2 if eta < 1/L",
        _in_box,
        Fixed(_leaves_the_box),
        (Wrong("entries stay above 1/2", lambda q: _in_box(q, 0.5)),),
        reading=FULL,
        strength=Strength.LOWER,
        uses=("lem:PL_ineq", "alg:mask_gd"),
        repaired_by="new:confinement",
        finding="descent leaves the box, as on an instance with two tokens and two features; it stays in ||M||_F <= d",
    ),
    sentence(
        "exp:momentum",
        "Momentum is covered",
        f"max_{{t<60}} L(M_{{t+1}})/L(M_t) <= 1, momentum = {_MOMENTUM:g}, M_0 = 1, L = lam + C_+ K^2 if eta < 1/L",
        lambda q: _monotone(q, _MOMENTUM),
        Fixed(_momentum_case),
        (Wrong("momentum 0.99", lambda q: _monotone(q, 0.99)),),
        section="6 Experiment",
        reading=FULL,
        uses=("thm:our_convergence",),
        finding="it can rise, as on an instance with two tokens and two features",
    ),
    Claim(
        id="new:delta_le_inverse_n",
        kind=Kind.LEMMA,
        title="Ceiling of delta",
        section="6 Experiment",
        reading=ANY_MASK,
        formula="min_j F(M)_i <= 1/m_i",
        strength=Strength.TIGHT,
        margin=_least_weights,
        supply=Instances("any"),
        uses=("def:soft_prob_func",),
        wrong=(Wrong("0.95/m", lambda q: _least_weights(q, 0.95)),),
        source="new",
    ),
)
