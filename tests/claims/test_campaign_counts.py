"""What a campaign counts and says, on decisions that are made up: violations, what is met, what balls take back."""

from typing import Any

import numpy as np
import pytest

from attnprune_verify.claims import registry
from attnprune_verify.claims.campaign import examine, judge
from attnprune_verify.claims.campaign.checkpoint import Checkpoint
from attnprune_verify.claims.campaign.decide import HOLDS, NOT_MET, UNDECIDED, VIOLATED, Decision, _weigh
from attnprune_verify.claims.campaign.draw import Draw, Sizes, index_of, locate
from attnprune_verify.claims.campaign.plan import CampaignPlan
from attnprune_verify.claims.campaign.run import CampaignResult
from attnprune_verify.claims.campaign.tally import LeastSlack, Tally
from attnprune_verify.claims.cases.relation import at_least, at_most, equal, less
from attnprune_verify.claims.judging.trial import Trial
from attnprune_verify.theory.numbers.lane_arithmetic import stacked
from attnprune_verify.theory.numbers.lanes import Lane

OURS, PAPER = registry.find("fix:lip_f", "any"), registry.find("lem:PL_ineq", "full")
STATES = [HOLDS, NOT_MET, VIOLATED, UNDECIDED, HOLDS, VIOLATED]
SLACKS = [0.5, np.nan, -0.2, -0.4, 0.25, -0.3]


def group() -> judge.Group:
    return judge.Group(Draw.of(1, Sizes((2, 2), (2, 2)), 0, 0, len(STATES)))


def made(claim: Any, one: judge.Group) -> Decision:
    return Decision(np.array(STATES, dtype=np.int8), np.array(SLACKS))


def test_a_tally_counts_each_state_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not met is not tried; what nobody can decide is never the worst."""
    monkeypatch.setattr(judge, "decide", made)
    found = judge.tally(PAPER, group())
    assert (found.instances, found.met, found.undecided, found.violations) == (6, 5, 1, 2)
    assert found.worst is not None and (found.worst.slack, found.worst.index) == (-0.3, index_of(0, 5))


@pytest.mark.parametrize("answer", [HOLDS, UNDECIDED, VIOLATED])
def test_what_speaks_against_ours_is_judged_again_in_balls(answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def in_balls(claim: Any, case: Any) -> tuple[int, Trial]:
        asked.append(case)
        return answer, Trial(case)

    monkeypatch.setattr(judge, "decide", made)
    monkeypatch.setattr(judge, "in_balls", in_balls)
    found = judge.tally(OURS, group())
    assert len(asked) == 2 and found.violations == (2 if answer == VIOLATED else 0)
    assert found.undecided == (3 if answer == UNDECIDED else 1)
    judge.tally(PAPER, group())
    assert len(asked) == 2, "a violated statement of the paper is a finding, confirmed at its worst instance"


def result(violations: int, claim: str) -> CampaignResult:
    plan = CampaignPlan.of(["lem:PL_ineq", "fix:lip_f"], 50, 0, None)
    tallies = tuple(Tally(50, 40, 0, violations if one.id == claim else 0) for one in plan.claims)
    return CampaignResult(plan, tallies, (None,) * len(tallies), 2.0, False)


@pytest.mark.parametrize("violations", [0, 1, 7])
def test_one_violation_of_ours_is_a_failure(violations: int) -> None:
    ours, paper = result(violations, "fix:lip_f"), result(violations, "lem:PL_ineq")
    assert ours.outcome == ("failed" if violations else "passed") and not ours.found
    assert paper.outcome == "passed" and len(paper.found) == (2 if violations else 0) and not paper.broken
    assert ours.rate == 50 * 3 / 2.0, "three readings in two seconds"


def test_merging_adds_all_counts() -> None:
    left, right = Tally(5, 4, 1, 2, LeastSlack(0.5, 3, 2, 2)), Tally(7, 6, 2, 3, LeastSlack(0.5, 1, 2, 2))
    assert left + right == Tally(12, 10, 3, 5, LeastSlack(0.5, 1, 2, 2)) == right + left


@pytest.mark.parametrize(("answer", "sure"), [(HOLDS, True), (VIOLATED, False), (UNDECIDED, None), (NOT_MET, None)])
def test_the_worst_instance_is_what_balls_say(answer: int, sure: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "in_balls", lambda claim, case: (answer, Trial(case)))
    plan = CampaignPlan.of("fix:lip_f", 5, 0, "n=2,d=2")
    assert examine.confirmed(plan, OURS, Tally(5, 5, 0, 1, LeastSlack(-0.1, 2, 2, 2))) is sure
    assert examine.confirmed(plan, OURS, Tally(5, 5)) is None


def lanes(values: list[float], radius: float = 0.0) -> Any:
    return Lane(np.array(values), np.full(len(values), radius))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_a_side_that_is_a_thousandth_too_large_is_a_violation(scale: float) -> None:
    """Radii of 1e-12: nothing of it is rounding. An equality holds, and is no strict inequality."""
    small, large = [scale * x for x in (1.001, 1.0, 0.999)], [scale] * 3
    blur = scale * 1e-12
    states = _weigh([at_most(lanes(small, blur), lanes(large, blur))], 3).state.tolist()
    assert states == [VIOLATED, HOLDS, HOLDS]
    assert _weigh([at_least(lanes(large, blur), lanes(small, blur))], 3).state.tolist() == states
    assert _weigh([less(stacked(np.array(small)), stacked(np.array(large)))], 3).state.tolist() == [
        VIOLATED, VIOLATED, HOLDS,
    ]  # fmt: skip
    assert _weigh([equal(lanes(small, blur), lanes(large, blur))], 3).state.tolist() == [VIOLATED, HOLDS, VIOLATED]


@pytest.mark.parametrize(("radius", "state"), [(1e-9, HOLDS), (1e-4, UNDECIDED)])
def test_sides_that_rounding_may_have_exchanged_are_equal_only_where_it_is_small(radius: float, state: int) -> None:
    """A radius of one in ten thousand says nothing; one in a billion says that both are the same."""
    assert _weigh([at_most(lanes([1.0], radius), lanes([1.0], radius))], 1).state.tolist() == [state]


KNOWN = [
    ((0, 0), (3, 2, None), [1.1239619469606075, -0.0009900398959824049, 0.9498519891455641, 0.3981344986132851, 1.0]),
    ((7, 40_000), (2, 2, "causal"), [1.7708324543557248, 0.01, 0.25840877259775785, 0.322845254474593, 1e-6]),
]


@pytest.mark.parametrize(("number", "shape", "values"), KNOWN)
def test_an_instance_is_what_it_was_when_it_was_reported(number: Any, shape: Any, values: list[float]) -> None:
    """By its seed and index: who reads of a counterexample today must be able to make it tomorrow."""
    seed, index = number
    group, lane = locate(index)
    drawn = Draw.of(seed, Sizes((2, 3), (2, 3)), group, lane, 1)
    assert (drawn.n, drawn.d, drawn.mask) == shape
    assert [float(drawn.values[name].ravel()[0]) for name in ("X", "W", "M", "N", "lam")] == pytest.approx(values)
    assert [locate(index) for index in (31, 32, 32_767, 32_768, 10**6)] == [
        (31, 0), (0, 1), (31, 1023), (32, 0), (960, 530),
    ]  # fmt: skip


def test_a_group_that_comes_twice_counts_once() -> None:
    kept = Checkpoint(None, {}, 1)
    for group_number in (3, 3, 5):
        kept.add(group_number, [Tally(instances=2, met=1)], 0.5)
    assert (kept.done, kept.tallies, kept.seconds) == ({3, 5}, [Tally(instances=4, met=2)], 1.0)
