"""Every claim judged once, every wrong neighbour refuted, and `vacuous` where nothing meets the hypotheses."""

from dataclasses import replace

import numpy as np
import pytest

from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Proof, Verdict, Wrong, mutant
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.hypotheses import never
from attnprune_verify.claims.judging.falsifier import THOROUGH, Effort
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims
from attnprune_verify.claims.statements import _template

CLAIMS = [*claims(), *_template.CLAIMS]
assert len(CLAIMS) > 150

# What the search must end in where it is not `holds`. The judge does not see this table: it computes.
NOT_HOLDING = {
    "def:attn_prun-full": Verdict.MISSTATED,
    "thm:our_convergence:informal-literal": Verdict.REFUTED,
    "alg:mask_gd-literal": Verdict.ILL_POSED,
    "thm:our_convergence-full": Verdict.REFUTED,
    "thm:our_convergence-causal": Verdict.VACUOUS,
    "rem:practical-causal": Verdict.REFUTED,
    "lem:PL_ineq_informal-full": Verdict.REFUTED,
    "lem:PL_ineq_informal-causal": Verdict.VACUOUS,
    "lem:lower_bound_p_informal-causal": Verdict.VACUOUS,
    "eq:new_loss-literal": Verdict.MISSTATED,
    "fac:calculus-literal": Verdict.ILL_POSED,
    "lem:lower_bound_p-causal": Verdict.VACUOUS,
    "lem:PL_ineq-full": Verdict.REFUTED,
    "lem:PL_ineq-causal": Verdict.VACUOUS,
    "exp:square_weights-Llama-3.2-1B": Verdict.ILL_POSED,
    "exp:baselines_reference-literal": Verdict.ILL_POSED,
    "new:row_third_derivative-literal": Verdict.OPEN,
}
HOLDING_PROSE = {
    "exp:xi_vanishes-literal",
    "exp:gradient_bounded-box",
    "exp:divergent_step-algorithm",
    "exp:full_rank_tokens-rank",
}


def expected(claim: Claim) -> Verdict:
    if claim.id.startswith("exp:") and claim.test_id not in {*NOT_HOLDING, *HOLDING_PROSE}:
        return Verdict.REFUTED
    return NOT_HOLDING.get(claim.test_id, Verdict.HOLDS)


SHORT = Effort(limits=2, examples=20, starts=1, evaluations=60)
"""About half of the usual attack; the thorough profile's is ten times the usual one."""


def otherwise(claim: Claim) -> Verdict:
    """The verdict where a check finds otherwise; a sentence that was measured elsewhere is then not reproduced."""
    return Verdict.REFUTED if claim.own or "measured" not in claim.tags else Verdict.NOT_REPRODUCED


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.test_id)
def test_claim(claim: Claim, one_witness: None) -> None:
    judgement = judge(claim, SHORT)
    if "measured" in claim.tags:  # follows what was measured
        assert judgement.tried > 0
        assert judgement.statement in (Verdict.HOLDS, otherwise(claim), Verdict.OPEN)
        return
    assert judgement.statement is expected(claim), judgement.reason
    if judgement.statement in (Verdict.REFUTED, Verdict.MISSTATED, Verdict.ILL_POSED):
        assert judgement.certified and judgement.witness is not None, "a refutation needs a confirmed witness"
    if judgement.statement is Verdict.HOLDS:
        assert judgement.met >= 1


@pytest.mark.thorough
@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.supply.free], ids=lambda claim: claim.test_id)
def test_claim_under_a_long_attack(claim: Claim) -> None:
    judgement = judge(claim, THOROUGH)
    assert judgement.statement is expected(claim), judgement.reason


MUTANTS = [(claim, wrong) for claim in CLAIMS for wrong in claim.wrong]


def test_every_claim_names_a_wrong_formula() -> None:
    assert [claim.test_id for claim in CLAIMS if not claim.wrong] == []


@pytest.mark.parametrize(("claim", "wrong"), MUTANTS, ids=lambda x: x.test_id if isinstance(x, Claim) else x.says)
def test_wrong_formula_is_refuted(claim: Claim, wrong: Wrong, one_witness: None) -> None:
    changed = mutant(claim, wrong)
    if "measured" in claim.tags:
        case = {"score": 1}
        changed = replace(changed, supply=Fixed(lambda: iter([_case(case)])))
        found = judge(replace(claim, supply=changed.supply)).statement
        assert found is (Verdict.OPEN if claim.conjecture else Verdict.HOLDS)
    judgement = judge(changed)
    assert judgement.statement is otherwise(claim), judgement.reason
    assert judgement.certified


def _case(values):  # type: ignore[no-untyped-def]
    from attnprune_verify.claims.cases.case import Case

    return Case(values, "made for this test")


@pytest.mark.parametrize("claim", [c for c in CLAIMS if "measured" not in c.tags], ids=lambda claim: claim.test_id)
def test_nothing_meets_the_hypotheses(claim: Claim) -> None:
    judgement = judge(replace(claim, hypotheses=(never(),), defect=None, printed=False), Effort(0, 0, 0, 0))
    assert judgement.statement is Verdict.VACUOUS
    assert judgement.met == 0 < judgement.tried


def test_statement_and_proof_are_judged_apart() -> None:
    by_name = {claim.test_id: claim for claim in CLAIMS}
    pairs = {
        "fac:abs_inequality-literal": (Verdict.HOLDS, Proof.SOUND),
        "lem:lower_bound_B_plus_M-literal": (Verdict.HOLDS, Proof.GAP),
        "lem:PL_ineq-full": (Verdict.REFUTED, Proof.WRONG),
        "lem:PL_ineq-causal": (Verdict.VACUOUS, Proof.WRONG),
        "lem:bound_basic_func-any": (Verdict.HOLDS, Proof.GAP),
        "lem:grad_rec-any": (Verdict.HOLDS, Proof.GAP),
    }
    for name, (statement, proof) in pairs.items():
        judgement = judge(by_name[name])
        assert (judgement.statement, weigh(judgement).proof) == (statement, proof), name


def test_the_row_lemma_has_no_vacuous_reading() -> None:
    """Its f is one vector in [delta, 1]^n: the last row of a causal matrix meets that, and attains the bound."""
    assert [claim.test_id for claim in CLAIMS if claim.id == "lem:lower_bound_p_row"] == ["lem:lower_bound_p_row-full"]
    last_row, b = np.array([0.5, 0.5]), np.array([1.0, -1.0])
    assert np.linalg.norm((b - b @ last_row) * last_row) == last_row.min() * np.linalg.norm(b)
