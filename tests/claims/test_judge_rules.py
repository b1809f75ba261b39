"""The rules by which a verdict, a grade and a standing come about, one by one, on statements that are made up."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb

from attnprune_verify.claims import evidence
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import (
    Relation,
    agrees_to,
    at_least,
    at_most,
    attained,
    decide,
    equal,
    kind_of,
    less,
    slack,
)
from attnprune_verify.claims.core import Claim, Hypothesis, Strength, Verdict
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.hypotheses import CAUSAL, FULL
from attnprune_verify.claims.judging.judge import Judgement, judge
from attnprune_verify.claims.judging.support import Standing
from attnprune_verify.claims.judging.trial import certain, matters, try_case
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import ClaimRecord, ClaimsResult, assemble
from attnprune_verify.claims.statements._template import CLAIMS
from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, working_precision

ONE = Case({"X": np.eye(2), "W": np.eye(2), "M": np.ones((2, 2)), "lam": 0.1, "mask": None}, "identity")
TEMPLATE = replace(CLAIMS[0], hypotheses=())


def saying(*relations: Relation, **more: Any) -> Claim:
    """Floats see equal sides, balls see these."""
    return replace(TEMPLATE, margin=lambda q: list(relations), arithmetic="ball", **more)


# --- one case -------------------------------------------------------------------------------------------------------


def test_one_relation_that_cannot_be_told_leaves_the_case_open() -> None:
    sure, unknown, false = at_most(arb(1), arb(2)), at_most(arb(1), arb(1, 1)), at_most(arb(2), arb(1))
    for relations, expected in (
        ((sure, sure), True),
        ((sure, unknown), None),
        ((unknown, sure), None),
        ((unknown, false, sure), False),
    ):
        with working_precision():
            assert try_case(saying(*relations), ONE, BALL).certain is expected
    assert judge(saying(sure, unknown), cases=[ONE]).statement is Verdict.OPEN
    assert judge(saying(sure, sure), cases=[ONE]).statement is Verdict.HOLDS


def test_below_zero_a_certain_relation_has_nothing_but_the_width_of_its_balls() -> None:
    with working_precision():
        trial = try_case(saying(equal(arb(1, 1e-17), arb("1.000000000000000001", 1e-17))), ONE, BALL)
        assert slack(trial.relation) < 0 and trial.certain is True and trial.slack == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [False, np.False_, 0])
def test_a_hypothesis_that_does_not_hold_in_any_words_is_not_met(answer: Any) -> None:
    never = Hypothesis("never", lambda q: answer, lambda rng: ())
    assert try_case(replace(TEMPLATE, hypotheses=(never,)), ONE, FLOAT).failed == "never"


def test_more_than_two_sides_that_differ_in_the_fiftieth_digit_are_not_equal() -> None:
    """An attained bound agrees to 60 digits; one that misses by 1e-45 is none."""
    with working_precision(512):
        near = arb(1) + arb(10) ** -45
        assert not agrees_to(at_most(near, arb(1)), 60) and agrees_to(at_most(near, arb(1)), 40)
    blurred = replace(TEMPLATE, margin=lambda q: at_most(arb(1) + arb("1e-45", "1e-44"), arb(1)))
    assert certain(blurred, ONE).certain is None


def test_attention_decides_above_a_tenth_and_where_a_row_has_a_choice() -> None:
    case = ONE.but(W=np.array([[1.0, 0.0], [0.0, 0.0]]))
    square = float(Quantities(case).K ** 2)
    assert matters(case.but(lam=8.9 * square)) and not matters(case.but(lam=9.1 * square))
    assert not matters(case.but(mask=np.eye(2, dtype=bool), lam=0.0))
    assert matters(Case({"v": np.ones(3)}, "no instance"))


# --- several cases and parts ----------------------------------------------------------------------------------------

OTHER = ONE.but(lam=0.2)


def by_case(one: Relation, other: Relation) -> Any:
    """The margin that is one relation on `ONE`, the other on `OTHER`."""
    return lambda q: [one if q.case["lam"] == ONE["lam"] else other]


def test_one_part_that_no_case_attains_leaves_a_tight_bound_open() -> None:
    parts = (at_most(1.0, 1.0, "met"), at_most(0.5, 1.0, "missed"))
    tight = replace(TEMPLATE, margin=lambda q: list(parts), arithmetic="float", strength=Strength.TIGHT)
    found = judge(tight, cases=[ONE])
    assert found.statement is Verdict.OPEN and found.attained == 0.5 and "in missed" in found.reason
    found = judge(replace(tight, margin=lambda q: list(parts[:1])), cases=[ONE])
    assert found.statement is Verdict.HOLDS and found.attained == 1.0


def test_one_case_that_cannot_be_told_leaves_the_statement_open() -> None:
    sure, unknown = at_most(arb(1), arb(2)), at_most(arb(1), arb(1, 1))
    for margin, expected in ((by_case(sure, unknown), Verdict.OPEN), (by_case(sure, sure), Verdict.HOLDS)):
        found = judge(replace(TEMPLATE, margin=margin, arithmetic="ball"), cases=[ONE, OTHER])
        assert found.statement is expected and found.met + found.undecided == 2


def test_a_defect_that_one_case_does_not_show_is_none() -> None:
    shows, hides = at_most(arb(1), arb(2)), at_most(arb(2), arb(1))
    supply = SimpleNamespace(families=lambda rng: [ONE, OTHER])
    wrong = replace(TEMPLATE, margin=lambda q: [shows], arithmetic="ball", supply=supply)
    for other, expected in ((shows, True), (hides, False)):
        found = judge(replace(wrong, defect=by_case(shows, other)), cases=[ONE])
        assert (found.statement in (Verdict.ILL_POSED, Verdict.MISSTATED)) is expected


# --- relations ------------------------------------------------------------------------------------------------------


def test_an_identity_of_balls_needs_small_balls_and_the_same_shape() -> None:
    assert decide(equal(arb(1, 1e-9), arb(1))) is None and decide(equal(arb(1, 1e-17), arb(1))) is True
    pair, three = np.array([arb(1)] * 2), np.array([arb(1)] * 3)
    assert decide(equal(pair, three)) is False and decide(equal(pair[:1], three)) is False
    assert decide(less(arb(1), arb(1))) is False and decide(less(arb(1), arb(1, 1e-30))) is None


def test_infinite_sides_are_as_far_off_as_can_be() -> None:
    assert slack(at_most(np.inf, 1.0)) == -1.0 and slack(at_most(1.0, np.inf)) == 1.0
    assert slack(at_least(-np.inf, 1.0)) == -1.0 and slack(less(1.0, 1.0)) == -1.0
    assert slack(equal(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 5.0]))) == pytest.approx(-1 / 9)


def test_what_is_lost_beside_an_offset_attains_nothing() -> None:
    """Sides of 1e-12 beside 1: both are rounding. Of a millionth beside 1, nine digits are left."""
    assert attained(at_most(1 + 2e-12, 1 + 1e-12, offset=1.0)) is None
    assert attained(at_most(1 + 0.5e-6, 1 + 1e-6, offset=1.0)) == pytest.approx(0.5, rel=1e-6)
    assert attained(at_most(-0.5, 1.0)) is None and attained(equal(1.0, 1.0)) is None


def test_only_rows_and_steps_are_parts_of_one_kind() -> None:
    assert kind_of("row 3, lower") == kind_of("row 12, lower") and kind_of("t = 4") == kind_of("t = 11")
    assert kind_of("bullet 3") == "bullet 3" and kind_of("1 of 2") == "1 of 2"


# --- grades ---------------------------------------------------------------------------------------------------------


def test_exact_samples_of_a_universal_statement_are_exact_and_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even beside a certificate of something less."""
    row = {
        "concerns": "statement",
        "kind": "confirmation",
        "reading": {"mask": "causal"},
        "file": "one",
        "part": "sharp",
    }
    entry = {"formal": [], "certificates": [row], "steps": None, "proof": "none"}
    monkeypatch.setattr(evidence, "index", lambda: {"new:nothing": entry})
    claim = replace(find("fix:mask_gd", "any"), id="new:nothing", arithmetic="exact")
    assert weigh(Judgement(claim, Verdict.HOLDS, certified=True)).grade == "exact"
    assert weigh(Judgement(claim, Verdict.HOLDS)).grade == "measured"
    balls = replace(claim, arithmetic="ball")
    assert weigh(Judgement(balls, Verdict.HOLDS, certified=True)).grade == "measured"


@pytest.mark.parametrize(("reading", "grade"), [(FULL, "measured"), (CAUSAL, "certified")])
def test_an_instance_under_a_causal_mask_refutes_no_statement_without_a_mask(
    reading: Any, grade: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"concerns": "statement", "kind": "refutation", "reading": {"mask": "causal"}, "file": "one", "part": "whole"}
    entry = {"formal": [], "certificates": [row], "steps": None, "proof": "none"}
    monkeypatch.setattr(evidence, "index", lambda: {"lem:made_up": entry})
    claim = replace(TEMPLATE, id="lem:made_up", reading=reading)
    found = weigh(Judgement(claim, Verdict.REFUTED))
    assert found.grade == grade and found.files == (("one",) if grade == "certified" else ())


# --- standing and outcome -------------------------------------------------------------------------------------------


def listed(monkeypatch: pytest.MonkeyPatch, *made: tuple[Claim, Verdict]) -> Standing:
    verdicts = {claim.test_id: verdict for claim, verdict in made}
    monkeypatch.setattr(
        "attnprune_verify.claims.judging.support.registry.claims", lambda: tuple(claim for claim, _ in made)
    )
    return Standing(lambda claim: Judgement(claim, verdicts[claim.test_id]))


def named(id_: str, reading: Any = FULL, **more: Any) -> Claim:
    return replace(TEMPLATE, id=id_, reading=reading, **{"uses": (), "repaired_by": None, **more})


HOLDS, REFUTED, ILL = Verdict.HOLDS, Verdict.REFUTED, Verdict.ILL_POSED


@pytest.mark.parametrize("verdicts", [(HOLDS, HOLDS), (HOLDS, REFUTED), (REFUTED, HOLDS)])
def test_an_ancestor_with_other_readings_holds_under_all_of_them(
    verdicts: tuple[Verdict, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = named("lem:one", TEMPLATE.reading, uses=("lem:two",))
    two = zip((named("lem:two", FULL), named("lem:two", CAUSAL)), verdicts, strict=True)
    standing = listed(monkeypatch, (one, HOLDS), *two)
    assert TEMPLATE.reading.name not in ("full", "causal")
    assert standing.ancestors_hold(one) is (verdicts == (HOLDS, HOLDS))


@pytest.mark.parametrize("verdicts", [(HOLDS, HOLDS), (HOLDS, REFUTED), (REFUTED, HOLDS)])
def test_what_each_reading_of_an_ancestor_rests_on_counts(
    verdicts: tuple[Verdict, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = named("lem:one", TEMPLATE.reading, uses=("lem:two",))
    two = [named("lem:two", FULL, uses=("lem:a",)), named("lem:two", CAUSAL, uses=("lem:b",))]
    last = zip((named("lem:a"), named("lem:b")), verdicts, strict=True)
    standing = listed(monkeypatch, (one, HOLDS), *((each, HOLDS) for each in two), *last)
    assert standing.ancestors_hold(one) is (verdicts == (HOLDS, HOLDS))


@pytest.mark.parametrize("last", [HOLDS, REFUTED, Verdict.OPEN, Verdict.VACUOUS])
def test_what_an_ancestor_rests_on_counts_too(last: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [named("lem:a", uses=("lem:b",)), named("lem:b", uses=("lem:c",)), named("lem:c")]
    standing = listed(monkeypatch, *zip(chain, (HOLDS, HOLDS, last), strict=True))
    assert standing.ancestors_hold(chain[0]) is (last is HOLDS) and standing.ancestors_hold(chain[2])


@pytest.mark.parametrize("verdict", [Verdict.ILL_POSED, Verdict.MISSTATED])
@pytest.mark.parametrize("repairs", [(), (HOLDS,), (REFUTED,), (HOLDS, REFUTED), (HOLDS, HOLDS)])
def test_an_ill_posed_ancestor_counts_through_all_of_its_repair(
    repairs: tuple[Verdict, ...], verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, ill = named("lem:one", uses=("def:ill",)), named("def:ill", repaired_by="fix:ill")
    fixed = zip((named("fix:ill", FULL), named("fix:ill", CAUSAL)), repairs, strict=False)
    standing = listed(monkeypatch, (one, HOLDS), (ill, verdict), *fixed)
    assert standing.ancestors_hold(one) is (bool(repairs) and set(repairs) == {HOLDS})


def outcome(id_: str, verdict: Verdict, **more: Any) -> str:
    claim = replace(TEMPLATE, id=id_, conjecture=more.pop("conjecture", False))
    found = assemble([Judgement(claim, verdict, **more)])
    assert isinstance(found, ClaimsResult)
    return found.outcome


@pytest.mark.parametrize("id_", ["fix:made_up", "new:made_up", "lem:made_up"])
def test_the_outcome_of_one_statement(id_: str) -> None:
    """A statement of ours that is refuted, misstated, ill-posed or vacuous is an error, one that is open an"
    " unfinished run."""
    ours = not id_.startswith("lem:")
    assert outcome(id_, HOLDS) == "passed"
    for verdict in (REFUTED, ILL, Verdict.MISSTATED, Verdict.VACUOUS):
        assert outcome(id_, verdict) == ("failed" if ours else "passed")
        assert outcome(id_, verdict, conjecture=True) == "passed"
    assert outcome(id_, Verdict.OPEN) == ("incomplete" if ours else "passed")
    assert outcome(id_, Verdict.OPEN, conjecture=True) == "passed"
    assert outcome(id_, Verdict.OPEN, error="KeyError") == "incomplete"
    assert outcome(id_, Verdict.OPEN, conjecture=True, error="KeyError") == "incomplete"
    assert outcome(id_, Verdict.OPEN, misprint="printed otherwise") == "failed"


@pytest.mark.parametrize(
    ("grade", "listed_"), [("formal", False), ("certified", False), ("exact", True), ("measured", True)]
)
def test_a_loose_part_is_listed_unless_something_stronger_pins_it(grade: str, listed_: bool) -> None:
    claim = next(one for one in claims() if one.strength is Strength.UPPER and not one.tags)
    found = Judgement(claim, HOLDS, best={"near": 0.995, "far": 0.98})
    weighed = weigh(found)._replace(grade=grade)
    assert ClaimRecord(found, weighed, True).not_pinned == ({"far": 0.98} if listed_ else {})
