"""Two-sided neighbours: a bound called sharp, 1 % stronger, is refuted, and 1 % weaker, is no longer attained."""

import pytest

from attnprune_verify.claims.cases.relation import at_least, at_most, attained, kind_of, scaled
from attnprune_verify.claims.core import Claim, Strength, Verdict, neighbour
from attnprune_verify.claims.judging.falsifier import QUICK, Effort
from attnprune_verify.claims.judging.judge import ATTAINED, judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import assemble

TIGHT = [claim for claim in claims() if claim.strength is Strength.TIGHT]
SAMPLE = {"fix:lip_grad_l", "fix:PL_ineq", "new:ones_witness", "new:strong_convexity", "fix:practical"}
NOT_PINNED = {
    "new:confinement_sharp": {"smallest gradient before t ="},
    "new:our_convergence_sharp": set(),  # a formal type pins it
    "new:gradient_inner_product": {"W0", "n log n"},
}


NONE = Effort(limits=0, examples=0, starts=0, evaluations=0)
"""The cases that are known: those that attain the bound, stored attacks, families."""


def sharp_parts(claim: Claim, effort: Effort = NONE) -> list[str]:
    judgement = judge(claim, effort)
    assert judgement.statement is Verdict.HOLDS and judgement.best, judgement.reason
    return [part for part in judgement.best if part not in claim.loose]


@pytest.mark.parametrize("claim", TIGHT, ids=lambda claim: claim.test_id)
def test_every_part_is_attained_where_attention_decides_and_one_percent_less_is_refuted(
    claim: Claim, one_witness: None
) -> None:
    for part in sharp_parts(claim):
        stronger = judge(neighbour(claim, part, 0.99), NONE)
        assert stronger.statement is Verdict.REFUTED and stronger.certified, f"{part}: {stronger.reason}"


def weaker_is_noticed(claim: Claim) -> None:
    for part in sharp_parts(claim, QUICK):
        weaker = judge(neighbour(claim, part, 1.01))
        assert weaker.statement is Verdict.OPEN and (weaker.attained or 0.0) < ATTAINED, part


@pytest.mark.parametrize("claim", [c for c in TIGHT if c.id in SAMPLE], ids=lambda claim: claim.test_id)
def test_one_percent_more_is_not_attained(claim: Claim) -> None:
    weaker_is_noticed(claim)


@pytest.mark.thorough
@pytest.mark.parametrize("claim", [c for c in TIGHT if c.id not in SAMPLE], ids=lambda claim: claim.test_id)
def test_one_percent_more_is_attained_nowhere(claim: Claim) -> None:
    weaker_is_noticed(claim)


@pytest.mark.parametrize("name", ["new:our_convergence_sharp", "new:gradient_inner_product", "new:confinement_sharp"])
def test_what_is_not_pinned_is_listed(name: str) -> None:
    (record,) = assemble([judge(find(name, "any"))]).records
    assert set(record.not_pinned) == NOT_PINNED[name]
    listed = bool(NOT_PINNED[name])
    assert ("not pinned" in record.note) is bool(record.as_dict()["not_pinned"]) is listed


def test_a_part_is_scaled_without_its_offset() -> None:
    assert scaled(at_most(3.0, 5.0, offset=1.0), 0.5).rhs == 3.0
    assert scaled(at_least(5.0, 3.0, offset=1.0), 0.5).lhs == 3.0
    assert attained(at_most(3.0, 5.0, offset=1.0)) == 0.5 and attained(at_least(5.0, 3.0)) == 0.6
    assert attained(at_most(-1.0, 5.0)) is None and attained(at_most(0.0, 0.0)) is None
    assert kind_of("row 12, lower") == "row, lower" and kind_of("descent, t = 3") == "descent, t ="
