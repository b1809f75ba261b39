"""Judge and grades against rules of twenty lines each, on every combination of cases, parts and readings."""

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from flint import arb

from attnprune_verify.claims import evidence
from attnprune_verify.claims.campaign.judge import ROUNDING, _slack
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.relation import Relation, agrees_to, at_most, equal
from attnprune_verify.claims.core import Claim, Hypothesis, Strength, Verdict
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.hypotheses import ANY_MASK, CAUSAL, FULL
from attnprune_verify.claims.judging.judge import Judgement, judge
from attnprune_verify.claims.statements._template import CLAIMS

SHOWS: dict[str, tuple[Any, Any]] = {
    "attained": (1, 1),
    "loose": (1, 2),
    "false": (2, 1),
    "unknown": ("1.5 +/- 1", 1),
    "unmet": (1, 1),
}
"""Kind of a case by two sides that show it; ``unmet`` breaks a hypothesis. Floats see the middles."""
CASE = Case({"X": np.eye(2), "W": np.eye(2), "M": np.ones((2, 2)), "mask": None}, "identity")


def wanted(shown: tuple[str, ...], claim: Claim) -> tuple[Verdict, bool]:
    """The verdict, and whether exact or ball arithmetic stands behind it."""
    met = [one for one in shown if one != "unmet"]
    if "false" in met:
        told = "measured" in claim.tags and not claim.own
        return (Verdict.NOT_REPRODUCED if told else Verdict.REFUTED), True
    if shown and not met:
        return Verdict.VACUOUS, False
    if not met or "unknown" in met or claim.conjecture:
        return Verdict.OPEN, False
    if claim.strength is Strength.TIGHT and "attained" not in met:
        return Verdict.OPEN, False
    return Verdict.HOLDS, claim.arithmetic != "float"


def made(shown: tuple[str, ...], **more: Any) -> Claim:
    def margin(q: Any) -> list[Relation]:
        left, right = SHOWS[shown[int(q.case["place"])]]
        return [at_most(arb(left), arb(right))]

    met = Hypothesis("met", lambda q: shown[int(q.case["place"])] != "unmet", lambda rng: ())
    return replace(CLAIMS[0], hypotheses=(met,), margin=margin, **more)


@pytest.mark.parametrize("arithmetic", ["float", "ball"])
@pytest.mark.parametrize("strength", [Strength.TIGHT, Strength.UPPER])
@pytest.mark.parametrize("conjecture", [False, True])
@pytest.mark.parametrize(
    ("id_", "tags"), [("lem:made_up", ()), ("exp:made_up", ("measured",)), ("fix:made_up", ("measured",))]
)
def test_two_cases(arithmetic: Any, strength: Strength, conjecture: bool, id_: str, tags: tuple[str, ...]) -> None:
    for shown in [(), *product(SHOWS, repeat=1), *product(SHOWS, repeat=2)]:
        claim = made(
            shown, arithmetic=arithmetic, strength=strength, conjecture=conjecture, id=id_, tags=frozenset(tags)
        )
        cases = [Case({**CASE.values, "lam": 0.1, "place": place}, "made up") for place in range(len(shown))]
        found = judge(claim, cases=cases)
        assert (found.statement, found.certified) == wanted(shown, claim), shown
        assert found.tried == len(shown) and sum(found.failed.values()) + found.met == len(shown)
        assert found.undecided == shown.count("unknown"), shown


# --- grades: which theorems prove which parts, under which readings ---------------------------------------------------

LABELS = ("whole", "bound", "sharp", "bound 1 of 2", "bound 2 of 2", "part 1 of 3", "part 2 of 3", "part 3 of 3")


def proved(labels: set[str], tight: bool) -> dict[str, str]:
    """The grade of each part that has to be proved."""
    bound = "bound" in labels or {"bound 1 of 2", "bound 2 of 2"} <= labels
    pieces = {f"part {k} of 3" for k in (1, 2, 3)} <= labels
    whole = "whole" in labels or pieces or (bound and "sharp" in labels)
    parts = {"bound": whole or bound, "sharp": whole or "sharp" in labels} if tight else {"whole": whole}
    return {part: "formal" if done else "measured" for part, done in parts.items()}


def theorem(part: str, reading: str = "any") -> dict[str, str]:
    row = dict.fromkeys(("theorem", "type", "type_sha256"), "made up")
    return {**row, "supports": "holds", "reading": reading, "part": part, "file": f"{part}.v"}


@pytest.mark.parametrize("tight", [False, True])
def test_a_part_is_formal_where_all_of_its_pieces_are(tight: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    strength = Strength.TIGHT if tight else Strength.UPPER
    found = Judgement(replace(CLAIMS[0], id="new:made_up", strength=strength), Verdict.HOLDS)
    for count in range(len(LABELS) + 1):
        for labels in combinations(LABELS, count):
            entry = {"formal": [theorem(label) for label in labels], "certificates": [], "steps": None, "proof": "none"}
            monkeypatch.setattr(evidence, "index", lambda entry=entry: {"new:made_up": entry})
            weighed, expected = weigh(found), proved(set(labels), tight)
            assert weighed.parts == expected, labels
            assert weighed.grade == ("measured" if "measured" in expected.values() else "formal"), labels
            assert list(weighed.files) == [f"{label}.v" for label in labels]


@pytest.mark.parametrize("reading", [FULL, CAUSAL, ANY_MASK])
@pytest.mark.parametrize("of_theorem", ["any", "full", "causal", "given"])
def test_a_theorem_about_one_mask_proves_nothing_about_another(
    reading: Any, of_theorem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"formal": [theorem("whole", of_theorem)], "certificates": [], "steps": None, "proof": "none"}
    monkeypatch.setattr(evidence, "index", lambda: {"lem:made_up": entry})
    covers = of_theorem in ("any", reading.mask)
    for verdict in (Verdict.HOLDS, Verdict.REFUTED):
        weighed = weigh(Judgement(replace(CLAIMS[0], id="lem:made_up", reading=reading), verdict))
        assert (weighed.grade == "formal") is (covers and verdict is Verdict.HOLDS)


@pytest.mark.parametrize("far", [(), (0,), (2,), (0, 1, 2)])
def test_arrays_agree_where_every_entry_does(far: tuple[int, ...]) -> None:
    sides = np.array([arb(1)] * 3), np.array([arb(2) if place in far else arb(1) for place in range(3)])
    assert agrees_to(at_most(*sides), 30) is (not far)


@pytest.mark.parametrize("off", [(), (1e-6,), (1e-6, 1e-8), (1e-8, 0.0, 1e-6), (0.0, 1e-6, 1e-7)])
def test_an_identity_has_the_slack_of_its_worst_entry(off: tuple[float, ...]) -> None:
    """Floats a millionth apart beside floats that are nearer: 1 - error/bound of the worst, wherever it stands."""
    lhs = np.ones(max(len(off), 1))
    found = _slack(0.0, equal(lhs, lhs + np.array(off or (0.0,))))
    assert found == (pytest.approx(1 - 1e-6 / (ROUNDING * 2), rel=1e-3) if off else 1.0)
