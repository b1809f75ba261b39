"""The judge itself: what it concludes from what it saw, and that it is the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from flint import arb

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, agrees_to, at_least, at_most, decide, equal, less, slack
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Hypothesis, Strength, Verdict
from attnprune_verify.claims.judging.falsifier import Effort, attacks, stored_attacks
from attnprune_verify.claims.judging.judge import judge, judge_safely
from attnprune_verify.claims.judging.trial import certain, try_case
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import assemble
from attnprune_verify.claims.statements._template import CLAIMS
from attnprune_verify.theory.numbers.arithmetic import BALL, EXACT, FLOAT, Undecidable, working_precision

TEMPLATE = CLAIMS[0]
ONE = Case({"X": np.eye(2), "W": np.eye(2), "M": np.ones((2, 2)), "lam": 0.1, "mask": None}, "identity")


def margin_of(lhs, rhs):  # type: ignore[no-untyped-def]
    return replace(TEMPLATE, margin=lambda q: at_most(q.number(lhs), q.number(rhs)))


def test_a_clear_violation_is_refuted_and_confirmed_in_balls() -> None:
    judgement = judge(margin_of(2.0, 1.0), cases=[ONE])
    assert judgement.statement is Verdict.REFUTED and judgement.certified
    assert judgement.witness is not None and judgement.witness.certain is False


def test_float_noise_is_no_violation() -> None:
    judgement = judge(margin_of(1.0 + 1e-12, 1.0), cases=[ONE])
    assert judgement.statement is Verdict.HOLDS


def test_a_reader_is_shown_the_nearest_case_where_attention_decides() -> None:
    def meets_alone(q: Quantities) -> Relation:  # one token meets the bound exactly, two come close
        return at_most(q.number(1.0 if q.n == 1 else 0.9), q.number(1.0))

    alone = Case({**ONE.values, "X": np.ones((1, 2))}, "one token: nothing to choose")
    judgement = judge(replace(TEMPLATE, margin=meets_alone), cases=[alone, ONE])
    assert judgement.worst is not None and judgement.worst.case is alone  # which decides, as before
    assert judgement.slack == 0.0 and judgement.shown is not None and judgement.shown.case is ONE


def test_a_violation_that_balls_deny_is_no_violation() -> None:
    def cancels(q):  # type: ignore[no-untyped-def]
        big = q.number(1e17)
        return at_most(q.number(1.0), (big + q.number(1.0)) - big)  # 0 in float64, 1 in balls

    judgement = judge(replace(TEMPLATE, margin=cancels), cases=[ONE])
    assert judgement.statement is Verdict.HOLDS and judgement.slack == 0.0


def test_what_nobody_can_decide_is_open() -> None:
    def unknown(q):  # type: ignore[no-untyped-def]
        return at_most(1.0, 0.5) if q.arithmetic is FLOAT else at_most(arb(1), arb(1, 1))

    assert judge(replace(TEMPLATE, margin=unknown), cases=[ONE]).statement is Verdict.OPEN

    def impossible(q):  # type: ignore[no-untyped-def]
        raise Undecidable("no such quantity")

    judgement = judge(replace(TEMPLATE, margin=impossible), cases=[ONE])
    assert judgement.statement is Verdict.OPEN and "no such quantity" in judgement.reason


def test_a_violation_on_the_edge_of_a_hypothesis_is_not_passed_over() -> None:
    """1/3 of it is at most 1/3 of it: floats say yes, balls cannot tell. It was counted as a case that is not meant."""

    def third(q: Quantities) -> bool:
        return bool(q.number(1.0) / 3 * q.lam <= q.number(1.0) / 3)

    edge = Hypothesis("lam/3 <= 1/3", third, lambda rng: ())
    false = replace(margin_of(2.0, 1.0), hypotheses=(edge,))
    judgement = judge(false, cases=[Case({**ONE.values, "lam": 1.0}, "on the edge"), ONE.but(lam=3.0)])
    assert judgement.statement is Verdict.OPEN and "lam/3 <= 1/3" in judgement.reason
    assert judge(false, cases=[ONE]).statement is Verdict.REFUTED


def test_a_bound_called_tight_must_be_attained() -> None:
    loose = replace(margin_of(0.5, 1.0), strength=Strength.TIGHT)
    assert judge(loose, cases=[ONE]).statement is Verdict.OPEN
    assert judge(replace(loose, strength=Strength.UPPER), cases=[ONE]).statement is Verdict.HOLDS


def test_a_conjecture_that_survives_stays_open() -> None:
    assert judge(replace(TEMPLATE, conjecture=True), cases=[ONE]).statement is Verdict.OPEN


def test_no_case_is_no_verdict() -> None:
    assert judge(TEMPLATE, cases=[]).statement is Verdict.OPEN


def test_an_ill_posed_statement_is_judged_normally_once_the_defect_is_gone() -> None:
    claim = find("fac:calculus", "literal")
    square = replace(claim, supply=Fixed(lambda: iter([_square()])))
    assert judge(claim).statement is Verdict.ILL_POSED
    assert judge(square).statement is Verdict.HOLDS  # with d = m the printed shapes multiply


def _square() -> Case:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-3, 4, (2, 2)).astype(float) for name in ("X", "X1", "Y", "Y1", "Z")}
    return Case({**arrays, "a": 1.0, "b": 2.0}, "square")


def test_a_check_that_breaks_leaves_the_run_incomplete() -> None:
    def broken(q):  # type: ignore[no-untyped-def]
        raise KeyError("a bug")

    judgement = judge_safely(replace(TEMPLATE, margin=broken))
    assert judgement.statement is Verdict.OPEN and "could not be run: KeyError" in judgement.reason
    assert assemble([judgement]).outcome == "incomplete"


def test_outcomes() -> None:
    good, bad = judge(TEMPLATE, cases=[ONE]), judge(margin_of(2.0, 1.0), cases=[ONE])
    paper = judge(replace(margin_of(2.0, 1.0), id="lem:template"), cases=[ONE])
    assert assemble([good, paper]).outcome == "passed"  # a refuted statement of the paper is a finding
    assert assemble([good, bad]).outcome == "failed"


@pytest.mark.parametrize("name", ["fix:PL_ineq-any", "new:row_hessian-literal", "lem:lip_f-any"])
def test_the_same_run_gives_the_same_verdict(name: str) -> None:
    claim = next(claim for claim in claims() if claim.test_id == name)
    first, second = judge(claim), judge(claim)
    assert (first.slack, first.tried, first.met) == (second.slack, second.tried, second.met)
    assert first.worst is not None and second.worst is not None
    assert first.worst.case.as_json() == second.worst.case.as_json()


def test_relations_in_every_arithmetic() -> None:
    third = EXACT.lift(1) / 3
    assert decide(equal(third * 3, EXACT.lift(1))) is True
    assert decide(less(third, third)) is False
    with working_precision():
        ball = BALL.lift(1) / 3
        assert decide(at_most(ball, BALL.lift(third))) is None  # both enclose 1/3
        assert agrees_to(at_most(ball, BALL.lift(third)), 30)
        assert decide(equal(ball * 3, BALL.lift(1))) is True
        assert decide(at_least(ball, BALL.lift(0.34))) is False
    assert slack(at_most(1.0, 3.0)) == 0.5
    assert slack(at_most(np.array([1.0, 3.0]), np.array([3.0, 1.0]))) == -0.5
    assert slack(equal(np.ones(2), np.ones(3))) == -1.0
    assert np.isnan(slack(at_most(np.nan, 1.0)))


def test_the_famous_counterexample_by_hand() -> None:
    """X = I, W = log [[1, 2], [2, 1]] / log 2, M = 0: 0.0333... >= 0.0385... is false at lam = 0."""
    W = np.array([[0.0, 1.0], [1.0, 0.0]]) + 1e-9
    case = Case({"X": np.eye(2), "W": W * np.log(2), "M": np.zeros((2, 2)), "lam": 0.0, "mask": None}, "by hand")
    trial = certain(find("lem:PL_ineq", "full"), case)
    assert trial.failed is None  # min |W| = 1e-9 log 2 > 0: the hypotheses hold, but mu is tiny, so the lemma survives
    assert trial.certain is True
    s = 0.1
    case = case.but(W=s * np.array([[1.0, -1.0], [-1.0, 1.0]]), lam=1e-5 * s * s)
    trial = certain(find("lem:PL_ineq", "full"), case)
    assert trial.certain is False and trial.relation is not None
    assert float(trial.relation.lhs) == pytest.approx(2.483e-5, rel=1e-3)
    assert float(trial.relation.rhs) == pytest.approx(4.963e-4, rel=1e-3)
    assert certain(find("fix:PL_ineq", "any"), case).certain is True


def test_stored_attacks_are_replayed_and_still_bite() -> None:
    replayed = 0
    for claim in claims():
        for case in stored_attacks(claim.test_id):
            replayed += 1
            trial = try_case(claim, case, FLOAT)
            assert trial.failed is None, f"{claim.test_id}: {trial.failed}"
            assert trial.slack == pytest.approx(attacks()[claim.test_id]["slack"], rel=1e-6, abs=1e-9), claim.test_id
    assert replayed >= 40
    names = {claim.test_id for claim in claims()}
    assert set(attacks()) <= names, "an attack on a claim that does not exist (any more)"
    assert judge(find("lem:PL_ineq", "full"), Effort(0, 0, 0, 0)).statement is Verdict.REFUTED
