"""The pruning problem and its loss: well-defined numbers, but nothing in them requires sparsity."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.claims.cases.agreement import agree
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, equal, less
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, CAUSAL, FULL, LITERAL
from attnprune_verify.claims.reported import real
from attnprune_verify.model import attention, factored_loss, loss

_FULL = Instances("full", small=True, rounds=1)
_ANY = Instances("any", small=True, rounds=1)


def _loss(q: Quantities, attention_factor: float = 0.5, regulariser_factor: float = 0.5) -> Relation:
    """The loss written out, against the model's."""
    ours = q.square(q.c) * q.number(attention_factor) + q.lam * q.square(q.M) * q.number(regulariser_factor)
    return agree(q, np.array([ours]), [loss(q.case["M"], q.case["X"], q.case["W"], q.case["lam"], q.case["mask"])])


def _nothing_pruned_is_optimal(q: Quantities) -> list[Relation]:
    """M = 1 has attention loss 0, its minimum, and prunes nothing, whatever rho."""
    dense = q.at(q.number(np.ones((q.d, q.d))))
    zeros = sum(1 for entry in dense.M.ravel() if entry == 0)
    return [
        equal(dense.L_attn, q.number(0.0), "L_attn(1) = 0"),
        less(q.number(zeros), q.number(Fraction(q.d**2 + 1, 2)), "zeros of M = 1 below rho d^2 at rho = 1/2"),
    ]


def _entry_sum(q: Quantities) -> Lifted:
    total = q.number(0.0)
    for i in range(q.n):
        for j in range(q.n):
            total = total + q.c[i, j] * q.c[i, j]
    return total


def _with_rho(rng: Generator, case: Case) -> Case:
    return case.but(rho=float(rng.choice([0.0, 0.25, 0.5, 0.7, 1.0])))


def _feasible(q: Quantities, count: Lifted) -> list[Relation]:
    """The rounded mask is a feasible 0/1 mask, and no feasible mask has fewer entries kept."""
    rounded = binary_mask(q.case["M"], float(q.case["rho"]))
    d = len(rounded)
    wanted = count(float(q.case["rho"]), d)
    found = [equal(q.number(int((rounded == 0).sum())), q.number(wanted), "zeros of the rounded mask")]
    order = sorted(range(d * d), key=lambda place: (q.case["M"].flat[place], place))  # stable: the first of equals
    zeros = {int(place) for place in np.flatnonzero(rounded == 0)}
    found.append(equal(q.number(int(zeros == set(order[: len(zeros)]))), q.number(1), "the smallest, in stable order"))
    found.append(equal(q.number(int(((rounded == 0) | (rounded == 1)).sum())), q.number(d * d), "entries are 0 or 1"))
    if d <= 2:  # the feasible set, listed
        masks = list(combinations(range(d * d), wanted)) if 0 <= wanted <= d * d else []
        listed = any(zeros == set(one) for one in masks)
        found.append(equal(q.number(int(listed)), q.number(1), "the rounded mask is in the feasible set"))
    return found


def _factors(rng: Generator, case: Case) -> dict[str, Any]:
    d, m = len(case["W"]), int(rng.integers(1, 4))
    return {name: np.round(rng.uniform(-1, 1, (d, m)), 3) for name in ("W_Q", "W_K", "M_Q", "M_K")}


def _factored(q: Quantities, regulariser: Lifted) -> Relation:
    """1/2 ||D^{-1} A - D~^{-1} A~||^2 + regulariser, written out, against the model's."""
    fused = (q.M_Q * q.W_Q) @ (q.M_K * q.W_K).T
    weights = q.exp(q.X @ fused @ q.X.T) * q.number(q.allowed.astype(float))
    pruned = weights / weights.sum(axis=1)[:, None]
    dense = q.number(attention(q.case["X"], q.case["W_Q"] @ q.case["W_K"].T, q.case["mask"]))
    ours = q.square(pruned - dense) / 2 + regulariser(q)
    M_Q, M_K, X, W_Q, W_K = (q.case[name] for name in ("M_Q", "M_K", "X", "W_Q", "W_K"))
    found = factored_loss(M_Q, M_K, X, W_Q, W_K, q.case["lam"], q.case["mask"])
    q.note({"L(M_Q, M_K)": found, "F(M_Q, M_K)": pruned, "F(1, 1)": dense})
    return agree(q, np.array([ours]), [found])


def _with_lam(q: Quantities) -> Lifted:
    return q.lam * (q.square(q.M_Q) + q.square(q.M_K)) / 2


def _printed(q: Quantities) -> Lifted:
    return (q.square(q.M_Q) + q.square(q.M_K)) / 2


_LAM = real().lam
_LAM_MATTERS = Reading("literal", f"as printed, without lam, although Section 6.2 sets lam = {float(_LAM):g}")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="def:attn_prun",
        kind=Kind.DEFINITION,
        title="Attention weights pruning",
        section="1 Introduction",
        reading=FULL,
        formula="min_{M in [0,1]^{dxd}} L(M), L(M) = 1/2 ||D^{-1} A - D~^{-1} A~||_F^2 + (lam/2) ||M||_F^2",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_loss,
        defect=lambda q: [_loss(q), *_nothing_pruned_is_optimal(q)],
        has_meaning=True,
        finding="the minimum exists, but asks for no zero: M = 1 minimises the attention term and prunes nothing",
        supply=_FULL,
        uses=("def:attn_matrix",),
        wrong=(Wrong("without the factor 1/2", lambda q: _loss(q, attention_factor=1.0)),),
        repaired_by="fix:attn_prun",
    ),
    Claim(
        id="def:attn_prun_causal",
        kind=Kind.DEFINITION,
        title="Attention weights pruning with causal mask",
        section="3 Preliminary",
        reading=CAUSAL,
        formula="L(M) = 1/2 ||D~^{-1} A~ - D^{-1} A||_F^2 + (lam/2) ||M||_F^2, A = exp(X W X^T) o M_c, D = diag(A 1),"
        " A~ = exp(X (M o W) X^T) o M_c, D~ = diag(A~ 1)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_loss,
        supply=Instances("causal", small=True, rounds=1),
        uses=("def:mask", "def:attn_prun"),
        wrong=(
            Wrong("without the factor 1/2", lambda q: _loss(q, attention_factor=1.0)),
            Wrong("regulariser lam instead of lam/2", lambda q: _loss(q, regulariser_factor=1.0)),
        ),
        note="M, X, W and lam are not introduced in it, though later statements cite it for them",
    ),
    Claim(
        id="def:one_unit_loss",
        kind=Kind.DEFINITION,
        title="One unit loss c",
        section="C Gradient Calculation",
        reading=ANY_MASK,
        formula="c(M) = f(M) - f",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: [
            agree(
                q,
                q.c,
                attention(q.case["X"], q.case["M"] * q.case["W"], q.case["mask"])
                - attention(q.case["X"], q.case["W"], q.case["mask"]),
            ),
            at_most(q.largest(np.abs(q.c.sum(axis=1))), q.number(1e-25), "rows sum to 0"),
        ],
        supply=_ANY,
        uses=("def:soft_prob_func",),
        wrong=(
            Wrong(
                "the sign flipped",
                lambda q: agree(
                    q,
                    -q.c,
                    attention(q.case["X"], q.case["M"] * q.case["W"], q.case["mask"])
                    - attention(q.case["X"], q.case["W"], q.case["mask"]),
                ),
            ),
        ),
    ),
    Claim(
        id="def:rec_err",
        kind=Kind.DEFINITION,
        title="Reconstruction error",
        section="C Gradient Calculation",
        reading=ANY_MASK,
        formula="L_attn(M) = 1/2 ||c(M)||_F^2 = 1/2 sum_ij c(M)_ij^2",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: equal(q.L_attn, _entry_sum(q) / 2),
        supply=_ANY,
        uses=("def:one_unit_loss",),
        wrong=(Wrong("without the factor 1/2", lambda q: equal(q.L_attn, _entry_sum(q))),),
    ),
    Claim(
        id="def:reg_term",
        kind=Kind.DEFINITION,
        title="Regularisation term",
        section="C Gradient Calculation",
        reading=LITERAL,
        formula="L_reg(M) = (lam/2) ||M||_F^2",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: equal(q.lam * (q.M * q.M).sum() / 2, sum(q.lam * entry**2 for entry in q.M.ravel()) / 2),
        supply=Arrays({"M": "dd", "lam": ""}),
        tags=frozenset({"tautology"}),
        wrong=(Wrong("lam |M|_1 / 2", lambda q: equal(q.lam * (q.M * q.M).sum() / 2, q.lam * np.abs(q.M).sum() / 2)),),
    ),
    Claim(
        id="def:loss_func",
        kind=Kind.DEFINITION,
        title="Overall loss",
        section="C Gradient Calculation",
        reading=ANY_MASK,
        formula="L(M) = L_attn(M) + L_reg(M)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: [_loss(q), equal(q.L, q.L_attn + q.lam * q.square(q.M) / 2)],
        supply=_ANY,
        uses=("def:rec_err", "def:reg_term"),
        wrong=(Wrong("regulariser lam instead of lam/2", lambda q: _loss(q, regulariser_factor=1.0)),),
    ),
    Claim(
        id="fix:attn_prun",
        kind=Kind.DEFINITION,
        title="Pruning as a problem with a sparsity constraint",
        section="1 Introduction",
        reading=LITERAL,
        formula="min { L_attn(M) : M in {0,1}^{dxd}, exactly floor(rho d^2) zeros }",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: _feasible(q, lambda rho, d: int(np.floor(rho * d * d))),
        supply=Arrays({"M": "dd"}, make=_with_rho),
        wrong=(Wrong("one zero more", lambda q: _feasible(q, lambda rho, d: int(np.floor(rho * d * d)) + 1)),),
        repairs="def:attn_prun",
        source="new",
    ),
    Claim(
        id="eq:new_loss",
        kind=Kind.EQUATION,
        title="Loss with one mask per factor",
        section="6 Experiment",
        reading=_LAM_MATTERS,
        formula="L(M_Q, M_K) = 1/2 ||D^{-1} A - D~^{-1} A~||_F^2 + 1/2 (||M_Q||_F^2 + ||M_K||_F^2)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _factored(q, _with_lam),
        defect=lambda q: (
            equal(_printed(q), _with_lam(q) / q.lam, "printed = intended / lam, so lam has no place in it")
            if q.lam != 1 and q.lam != 0
            else ()
        ),
        supply=Instances("full", extra=_factors, small=True, rounds=1, lam=float(_LAM)),
        wrong=(Wrong("only M_Q regularised", lambda q: _factored(q, lambda q: q.lam * q.square(q.M_Q) / 2)),),
        has_meaning=True,
        repaired_by="fix:new_loss",
        finding=f"it is printed without lam: at lam = {float(_LAM):g} it is {float(1 / _LAM):g} times what the"
        " experiments"
        " set",
        note="bilinear in the two masks: Theorem 4.1 does not cover it",
    ),
    Claim(
        id="fix:new_loss",
        kind=Kind.EQUATION,
        title="Loss with one mask per factor, with lam",
        section="6 Experiment",
        reading=ANY_MASK,
        formula="L(M_Q, M_K) = 1/2 ||F(M_Q, M_K) - F(1, 1)||_F^2 + (lam/2) (||M_Q||_F^2 + ||M_K||_F^2)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _factored(q, _with_lam),
        supply=Instances("any", extra=_factors, small=True, rounds=1),
        wrong=(
            Wrong("the regulariser without lam", lambda q: _factored(q, _printed)),
            Wrong("only M_Q regularised", lambda q: _factored(q, lambda q: q.lam * q.square(q.M_Q) / 2)),
        ),
        repairs="eq:new_loss",
        source="new",
    ),
)
