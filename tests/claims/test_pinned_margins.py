"""What every margin asserts is pinned in numbers, and so are the rules by which the judge concludes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnprune_verify.claims import evidence
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, less
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Strength, Verdict, mutant
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import Judgement, judge
from attnprune_verify.claims.registry import find
from attnprune_verify.claims.statements import landscape
from attnprune_verify.claims.statements._template import CLAIMS
from attnprune_verify.theory.numbers.arithmetic import BALL, working_precision
from tests.claims.pins import PINS, alike, pin, pinned_claims, same_reach, says_nothing

STORED = json.loads(PINS.read_text("utf-8"))
NOTHING = Effort(limits=0, examples=0, starts=0, evaluations=0)
ONE = Case({"X": np.eye(2), "W": np.eye(2), "M": np.ones((2, 2)), "lam": 0.1, "mask": None}, "identity")
PINNED = pinned_claims()


@pytest.mark.parametrize("claim", PINNED, ids=lambda claim: claim.test_id)
def test_a_margin_says_what_it_said(claim: Claim) -> None:
    stored = STORED[claim.test_id]
    found = pin(claim, says_nothing(stored["sides"]))
    assert found["cases"] == stored["cases"] and same_reach(found["fails"], stored["fails"])
    assert same_reach(found["reach"], stored["reach"]), (found["reach"], stored["reach"])
    assert len(found["sides"]) == len(stored["sides"])
    for one, other in zip(found["sides"], stored["sides"], strict=True):
        assert alike(one, other), f"{one} was {other}; on purpose? then python -m tests.claims.pins"


def test_the_pins_are_those_of_the_claims_and_few_are_empty() -> None:
    assert set(STORED) == {claim.test_id for claim in PINNED}
    empty = [name for name, entry in STORED.items() if len(entry["sides"]) == says_nothing(entry["sides"])]
    assert len(empty) <= 12, empty


@pytest.mark.parametrize("strength", [0.98, 1.02])
def test_a_margin_that_moves_by_two_percent_is_noticed(strength: float) -> None:
    claim = find("new:descent_lemma", "any")
    changed = replace(claim, margin=lambda q: at_most(1.0, strength * 3.0))
    assert not alike(pin(changed)["sides"][0], [["<=", "", 1.0, 3.0]])


@pytest.mark.parametrize("starts", [(0.3,), (0.3, 0.5), (0.5,)])
def test_what_the_last_bits_decide_is_not_pinned_and_the_next_case_is(starts: tuple[float, ...]) -> None:
    """x -> 4 x (1 - x), 60 times: from 0.3 it ends elsewhere on every machine, from 1/2 at 0 on each."""

    def far(q: Quantities) -> list[Relation]:
        x = q.lam
        for _ in range(60):
            x = 4 * x * (1 - x)
        return [at_most(x, 1 + x)]

    cases = [ONE.but(lam=start) for start in starts]
    claim = replace(CLAIMS[0], margin=far, supply=Fixed(lambda: iter(cases)), hypotheses=(), attains=None)
    unsteady, exact = ["<=", "", None, None], ["<=", "", 0.0, 1.0]
    expected = [[unsteady if start == 0.3 else exact] for start in starts]
    assert pin(claim)["sides"] == expected
    assert len(pin(claim, says_nothing(expected))["sides"]) == len(starts)


def test_null_is_only_what_is_unsteady() -> None:
    assert not alike([["<=", "", None, None]], [["<", "", 1.0, 2.0]])
    nulls = {name for name, entry in STORED.items() for sides in entry["sides"] for side in sides if None in side}
    assert len(nulls) <= 6, nulls


@pytest.mark.parametrize(
    ("statement", "reading"),
    [("new:our_convergence_sharp", "any"), ("new:descent_leaves_box", "full"), ("thm:convergence", "literal")],
)
def test_a_weakened_statement_says_something_else(statement: str, reading: str) -> None:
    """Those with unsteady sides, too."""
    claim = find(statement, reading)
    stored = STORED[claim.test_id]["sides"]
    for wrong in claim.wrong:
        found = pin(mutant(claim, wrong), says_nothing(stored))["sides"]
        assert len(found) != len(stored) or not all(map(alike, found, stored)), wrong


def by(lhs: float, rhs: float) -> Claim:
    return replace(CLAIMS[0], margin=lambda q: at_most(q.number(lhs), q.number(rhs)))


def test_a_violation_by_a_millionth_is_one() -> None:
    assert judge(by(1 + 1e-6, 1.0), cases=[ONE]).statement is Verdict.REFUTED
    assert judge(by(1 + 1e-12, 1.0), cases=[ONE]).statement is Verdict.HOLDS


def test_tight_means_to_a_thousandth() -> None:
    near = replace(by(0.998, 1.0), strength=Strength.TIGHT)
    assert judge(near, cases=[ONE]).statement is Verdict.OPEN
    assert judge(replace(by(0.9995, 1.0), strength=Strength.TIGHT), cases=[ONE]).statement is Verdict.HOLDS


def test_a_defect_that_shows_on_some_cases_only_makes_nothing_ill_posed() -> None:
    cases = [ONE, ONE.but(lam=2.0)]
    claim = replace(by(0.5, 1.0), supply=Fixed(lambda: iter(cases)), hypotheses=())
    some = replace(claim, defect=lambda q: less(q.number(1.0), q.lam))
    every = replace(claim, defect=lambda q: less(q.number(0.01), q.lam))
    assert judge(some, NOTHING).statement is Verdict.HOLDS
    assert judge(every, NOTHING).statement is Verdict.ILL_POSED


def test_a_proof_under_a_causal_mask_grades_no_other_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = find("lem:lip_f", "any")
    entry = evidence.index()["lem:lip_f"]
    assert weigh(Judgement(claim, Verdict.HOLDS)).grade == "formal"
    causal = {"lem:lip_f": entry | {"formal": [row | {"reading": "causal"} for row in entry["formal"]]}}
    monkeypatch.setattr(evidence, "index", lambda: causal)
    assert weigh(Judgement(claim, Verdict.HOLDS)).grade == "measured"


def test_the_spurious_minima_are_convex_on_a_ball_and_not_at_a_point_only() -> None:
    """Near its minimum the least eigenvalue moves; the bound on the ball lies below each of them."""
    case = next(iter(landscape._spurious()))
    plain = Quantities(case)
    least = extreme_eigenvalues(plain.curvature, plain.arithmetic)[0]
    corners = [np.array(signs).reshape(2, 2) for signs in np.ndindex(2, 2, 2, 2)]
    moved = [plain.at(plain.M + landscape._RADIUS * (2 * corner - 1)) for corner in corners]
    lowest = min(extreme_eigenvalues(q.curvature, q.arithmetic)[0] for q in moved)
    assert lowest < least * (1 - 1e-9)
    with working_precision():
        q = Quantities(case, BALL)
        (inside, *_) = landscape._strict_minimum(q)
        assert float((inside.rhs / landscape._RADIUS).lower()) <= lowest


@pytest.mark.parametrize(("share", "inside"), [(0.99, True), (1.01, False)])
def test_where_convexity_near_the_dense_attention_is_claimed(share: float, inside: bool) -> None:
    """X = (1, 0)^T, d = 1: M moved until ||c|| is that share of f_min/sqrt 5."""
    claim = find("new:convex_near_dense", "any")
    values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[1.0]]), "lam": 0.0, "mask": None}

    def at(M: float) -> Quantities:
        return Quantities(Case({**values, "M": np.array([[M]])}, ""))

    wanted = share * float(at(1.0).f_min) / 5**0.5
    low, high = 1.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).norm(at(middle).c) < wanted else (low, middle)
    (hypothesis,) = claim.hypotheses
    assert hypothesis.holds(at(low)) is inside
