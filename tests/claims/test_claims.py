"""Every claim judged once, every wrong neighbour refuted, and `vacuous` where nothing meets the hypotheses."""

from dataclasses import replace

import numpy as np
import pytest

from attnprune_verify.claims.core import Claim, Proof, Statement, Wrong, mutant
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.falsifier import THOROUGH, Effort
from attnprune_verify.claims.hypotheses import never
from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.registry import claims
from attnprune_verify.claims.statements import _template
from attnprune_verify.claims.supply import Fixed

CLAIMS = [*claims(), *_template.CLAIMS]
assert len(CLAIMS) > 150

# What the search must end in where it is not `holds`. The judge does not see this table: it computes.
NOT_HOLDING = {
    "def:attn_prun-full": Statement.ILL_POSED,
    "thm:our_convergence:informal-literal": Statement.REFUTED,
    "alg:mask_gd-literal": Statement.ILL_POSED,
    "thm:our_convergence-full": Statement.REFUTED,
    "thm:our_convergence-causal": Statement.VACUOUS,
    "rem:practical-causal": Statement.REFUTED,
    "rem:practical-full": Statement.REFUTED,
    "lem:PL_ineq_informal-full": Statement.REFUTED,
    "lem:PL_ineq_informal-causal": Statement.VACUOUS,
    "lem:lower_bound_p_informal-causal": Statement.VACUOUS,
    "eq:new_loss-literal": Statement.ILL_POSED,
    "fac:calculus-literal": Statement.ILL_POSED,
    "lem:lower_bound_p-causal": Statement.VACUOUS,
    "lem:PL_ineq-full": Statement.REFUTED,
    "lem:PL_ineq-causal": Statement.VACUOUS,
    "exp:square_weights-Llama-3.2-1B": Statement.ILL_POSED,
    "exp:baselines_reference-literal": Statement.ILL_POSED,
    "new:lip_diag-any": Statement.OPEN,
    "new:lip_diag_f-any": Statement.OPEN,
    "new:softmax_second_derivative-literal": Statement.OPEN,
    "new:row_third_derivative-literal": Statement.OPEN,
}
HOLDING_PROSE = {"exp:xi_vanishes-literal"}


def expected(claim: Claim) -> Statement:
    if claim.id.startswith("exp:") and claim.test_id not in {*NOT_HOLDING, *HOLDING_PROSE}:
        return Statement.REFUTED
    return NOT_HOLDING.get(claim.test_id, Statement.HOLDS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.test_id)
def test_claim(claim: Claim) -> None:
    verdict = judge(claim)
    if "measured" in claim.tags:  # follows what was measured
        assert verdict.tried > 0
        assert verdict.statement in (Statement.HOLDS, Statement.REFUTED, Statement.OPEN)
        return
    assert verdict.statement is expected(claim), verdict.reason
    if verdict.statement in (Statement.REFUTED, Statement.ILL_POSED):
        assert verdict.certified and verdict.witness is not None, "a refutation needs a confirmed witness"
    if verdict.statement is Statement.HOLDS:
        assert verdict.met >= 1


@pytest.mark.thorough
@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.supply.free], ids=lambda claim: claim.test_id)
def test_claim_under_a_long_attack(claim: Claim) -> None:
    verdict = judge(claim, THOROUGH)
    assert verdict.statement is expected(claim), verdict.reason


MUTANTS = [(claim, wrong) for claim in CLAIMS for wrong in claim.wrong]


def test_every_claim_names_a_wrong_formula() -> None:
    assert [claim.test_id for claim in CLAIMS if not claim.wrong] == []


@pytest.mark.parametrize(("claim", "wrong"), MUTANTS, ids=lambda x: x.test_id if isinstance(x, Claim) else x.says)
def test_wrong_formula_is_refuted(claim: Claim, wrong: Wrong) -> None:
    changed = mutant(claim, wrong)
    if "measured" in claim.tags:
        case = {"score": 1}
        changed = replace(changed, supply=Fixed(lambda: iter([_case(case)])))
        assert judge(replace(claim, supply=changed.supply)).statement is Statement.HOLDS
    verdict = judge(changed)
    assert verdict.statement is Statement.REFUTED, verdict.reason
    assert verdict.certified


def _case(values):  # type: ignore[no-untyped-def]
    from attnprune_verify.claims.case import Case

    return Case(values, "made for this test")


@pytest.mark.parametrize("claim", [c for c in CLAIMS if "measured" not in c.tags], ids=lambda claim: claim.test_id)
def test_nothing_meets_the_hypotheses(claim: Claim) -> None:
    verdict = judge(replace(claim, hypotheses=(never(),), defect=None), Effort(0, 0, 0, 0))
    assert verdict.statement is Statement.VACUOUS
    assert verdict.met == 0 < verdict.tried


def test_statement_and_proof_are_judged_apart() -> None:
    by_name = {claim.test_id: claim for claim in CLAIMS}
    pairs = {
        "fac:abs_inequality-literal": (Statement.HOLDS, Proof.SOUND),
        "lem:lower_bound_B_plus_M-literal": (Statement.HOLDS, Proof.GAP),
        "lem:PL_ineq-full": (Statement.REFUTED, Proof.WRONG),
        "lem:PL_ineq-causal": (Statement.VACUOUS, Proof.WRONG),
        "lem:bound_basic_func-any": (Statement.HOLDS, Proof.GAP),
        "lem:grad_rec-any": (Statement.HOLDS, Proof.GAP),
    }
    for name, (statement, proof) in pairs.items():
        verdict = judge(by_name[name])
        assert (verdict.statement, weigh(verdict).proof) == (statement, proof), name


def test_the_row_lemma_has_no_vacuous_reading() -> None:
    """Its f is one vector in [delta, 1]^n: the last row of a causal matrix meets that, and attains the bound."""
    assert [claim.test_id for claim in CLAIMS if claim.id == "lem:lower_bound_p_row"] == ["lem:lower_bound_p_row-full"]
    last_row, b = np.array([0.5, 0.5]), np.array([1.0, -1.0])
    assert np.linalg.norm((b - b @ last_row) * last_row) == last_row.min() * np.linalg.norm(b)
