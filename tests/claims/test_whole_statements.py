"""What a statement says beside its main line is checked as well; each part with something that gets it wrong."""

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import at_least
from attnprune_verify.claims.cases.supply import Supply
from attnprune_verify.claims.core import Claim, Verdict, Wrong, mutant
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import run_claims
from attnprune_verify.claims.statements import descent, fused_mask, labelled_equations, pl_ingredients
from attnprune_verify.report.claims_text import render_claims


def cases(supply: Supply) -> list[Any]:
    return list(supply.families(np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("id_", "name", "wrong"),
    [
        ("def:exp_func-literal", "u", lambda q: q.exp(q.logits_dense) * 2),
        ("def:sum_func-any", "alpha", lambda q: q.u.sum(axis=1) + 1),
        ("def:soft_prob_func-any", "f", lambda q: q.F),
        ("def:p-any", "p1", lambda q: q.f * q.c),
    ],
)
def test_both_of_a_pair_of_definitions_are_checked(
    id_: str, name: str, wrong: Callable[[Quantities], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """u, alpha and f of the dense weight stand in the same definitions as those of M; p_1 and p_2 in p's."""
    claim: Claim = find(*id_.rsplit("-", 1))
    assert judge(claim).statement is Verdict.HOLDS
    monkeypatch.setattr(Quantities, name, property(wrong), raising=False)  # computed once, not an attribute
    assert judge(claim).statement is Verdict.REFUTED


def test_the_sandwich_is_checked_for_negative_beta_too() -> None:
    claim = find("lem:lower_bound_XBX", "literal")
    assert {case["level"] < 0 for case in cases(claim.supply)} == {True, False}
    signless = Wrong(
        "beta^2 whatever its sign",
        lambda q: at_least(q.square(q.X.T @ q.B @ q.X), q.level * q.level * q.square(q.B)),
    )
    assert judge(mutant(claim, signless)).statement is Verdict.REFUTED
    assert pl_ingredients._sandwich(Quantities(cases(claim.supply)[0]))[0].part in ("beta >= 0", "beta < 0")


def test_the_algorithm_s_line_is_taken_against_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With lam outside the division nothing is wrong there, and with another sign it is no gradient step."""
    claim = find("alg:mask_gd", "literal")
    assert judge(claim).statement is Verdict.ILL_POSED
    for wrong in (
        lambda q, k: q.M - (q.G * k + q.M * q.lam * k) / (8 * k),
        lambda q, k: q.M - (q.M * q.lam - q.G * k) / (8 * k),
    ):
        monkeypatch.setattr(descent, "_printed_step", wrong)
        assert judge(claim).statement is not Verdict.ILL_POSED


def test_a_displayed_line_is_an_identity_and_not_nearly_one(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = find("eq:lip_l_0", "any")
    assert judge(claim).statement is Verdict.HOLDS
    monkeypatch.setattr(labelled_equations, "p2_of", lambda q: q.p2 * q.number(1 + 1e-7))
    assert judge(claim).statement is Verdict.REFUTED


def test_repeated_key_heads_are_no_single_head_s() -> None:
    claim = find("new:repeated_key_heads", "grouped heads")
    for case in claim.supply.families(np.random.default_rng(0)):
        m = fused_mask._size(case)
        alone = case.but(W_Q=np.where(np.arange(case["W_Q"].shape[1]) < m, case["W_Q"], 0))
        total, first, *_ = fused_mask._sum_of_heads(Quantities(alone))
        assert total.lhs == 0  # the other heads are nothing: the sum is the first head's
        assert first.part == "no head's own" and first.lhs == 0


def test_masks_that_lift_a_rank_are_counted() -> None:
    for reading in ("no rotary positions", "rotary positions"):
        claim = find("new:fused_mask_rank", reading)
        assert claim.formula.endswith(f"layers = {len(cases(claim.supply))}")


def test_the_listing_marks_what_no_instance_could_refute() -> None:
    """A definition that is compared with itself is printed as `holds`; the reader must see why."""
    found = run_claims(ids=["def:reg_term", "lem:M_bounds", "exp:xi_vanishes"])
    shown = io.StringIO()
    Console(file=shown, width=200).print(render_claims(found))
    lines = [line for line in shown.getvalue().splitlines() if "a tautology" in line]
    assert len(lines) == 2 == sum("tautology" in record.claim.tags for record in found.records)


def test_vacuous_readings_say_what_cannot_be_met() -> None:
    vacuous = [claim for claim in claims() if claim.reading.mask == "causal" and claim.id.startswith("lem:")]
    assert {claim.id for claim in vacuous} >= {"lem:PL_ineq", "lem:lower_bound_p"}
    assert [claim.test_id for claim in vacuous if not re.search(r"makes min F = 0|no f\(M\) with", claim.note)] == []
