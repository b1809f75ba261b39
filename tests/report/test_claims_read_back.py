"""The text of `claims` and `show` says what the records hold: verdicts, counts, sides, flags."""

import re
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.hypotheses import CAUSAL
from attnprune_verify.claims.run import ClaimRecord, ClaimsResult, run_claims, witness
from attnprune_verify.report.claims_text import render_claims
from attnprune_verify.report.show_text import page_of
from tests.report.reading import known, text_of, unknown

IDS = ["lem:bound_c", "new:bound_p", "def:p", "exp:lam_in_unit_interval", "exp:smaller_lam_takes_longer"]
GROUPS = ("paper", "text", "consequence", "own")


@pytest.fixture(scope="module")
def result() -> ClaimsResult:
    return run_claims(ids=IDS)


def with_verdicts(result: ClaimsResult, verdict: Verdict) -> ClaimsResult:
    """Return the result with another verdict for every second record."""
    changed = [
        replace(record, judgement=replace(record.judgement, statement=verdict)) if place % 2 else record
        for place, record in enumerate(result.records)
    ]
    return ClaimsResult(tuple(changed))


def compared(result: ClaimsResult) -> None:
    text = text_of(render_claims(result))
    for record in result.records:
        name = f"{record.claim.id} ({record.claim.reading.name})"
        (line,) = [line for line in text.splitlines() if f" {name} " in f"{line} "]
        assert line.split()[0] == record.statement.value
        assert line.split()[-1] == record.evidence.grade
        assert ("proof " in line) is (record.evidence.proof.value != "none")
    (counts,) = [line for line in text.splitlines() if re.match(r"\d+ [a-z-]+( {3}|$)", line)]
    assert {word: int(count) for count, word in re.findall(r"(\d+) ([a-z-]+)", counts)} == counted(result)
    last = [line for line in text.splitlines() if "Outcome:" in line][0]
    assert last.endswith(f"Outcome: {result.outcome.replace('passed', 'judged')}.")
    shares = [(int(a), int(b)) for a, b in re.findall(r"(\d+) of (\d+)", last)]
    assert shares == [held(result, group) for group in GROUPS]


def counted(result: ClaimsResult) -> Counter[str]:
    return Counter(record.statement.value for record in result.records)


def held(result: ClaimsResult, group: str) -> tuple[int, int]:
    """Count the statements of a group that hold under every reading, and all of them."""
    verdicts: dict[str, list[bool]] = {}
    for record in result.records:
        if record.claim.group == group:
            verdicts.setdefault(record.claim.id, []).append(record.statement is Verdict.HOLDS)
    return sum(all(one) for one in verdicts.values()), len(verdicts)


def test_claims(result: ClaimsResult) -> None:
    compared(result)


@pytest.mark.parametrize("verdict", [*Verdict])
def test_claims_with_other_verdicts(result: ClaimsResult, verdict: Verdict) -> None:
    compared(with_verdicts(result, verdict))


def page(record: ClaimRecord) -> str:
    blocks = page_of(record, (), kept=False)
    return "\n".join("".join(text for text, _ in block["spans"]) for block in blocks)


@pytest.mark.parametrize("id_", IDS)
def test_show(result: ClaimsResult, id_: str) -> None:
    for record in result.records:
        if record.claim.id != id_:
            continue
        text, found = page(record), witness(record)
        refuted = record.statement is Verdict.REFUTED
        assert f"\n{record.statement.value}: " in text
        assert ("counterexample" in text.replace("the counterexample below", "")) is (
            record.statement is Verdict.REFUTED
        )
        assert ("; false here: lhs" in " ".join(text.split())) is refuted
        assert f"claimed: lhs {found['relation']} rhs" in text
        sides = re.search(r"lhs = (\S+), rhs = (\S+)", text)
        assert float(sides[1]) == pytest.approx(found["lhs"], rel=1e-9, abs=1e-300)
        assert float(sides[2]) == pytest.approx(found["rhs"], rel=1e-9, abs=1e-300)
        assert ("all of them hold" in text) is bool(record.claim.uses)
        assert ("not all of them hold" in text) is (bool(record.claim.uses) and not record.ancestors_hold)
        shown = "\n".join(re.findall(r"^(?:claimed|slack).*", text, flags=re.MULTILINE))
        assert unknown(shown, [*known(record.as_dict()), *known(found)]) == []


def test_show_says_the_opposite_where_the_verdict_is(result: ClaimsResult) -> None:
    """Each verdict's sentence stands under it and under no other."""
    record = result.records[0]
    said = {}
    for verdict in Verdict:
        text = page(replace(record, judgement=replace(record.judgement, statement=verdict)))
        said[verdict] = re.search(rf"\n{re.escape(verdict.value)}: (.*)\n", text)[1]
    assert len({*said.values()}) == len(Verdict)
    words = {
        "holds": "no case",
        "refuted": "false",
        "vacuous": "nothing meets",
        "open": "neither",
        "misstated": "cannot be what",
        "ill-posed": "no definite",
        "not-reproduced": "otherwise",
    }
    for verdict, word in words.items():
        assert word in said[Verdict(verdict)]
    assert "not" not in said[Verdict.HOLDS].split()


@pytest.mark.parametrize("verdicts", [*product((Verdict.HOLDS, Verdict.REFUTED), repeat=2)])
def test_a_statement_holds_where_each_of_its_readings_does(
    verdicts: tuple[Verdict, Verdict], result: ClaimsResult
) -> None:
    """The first and the last of two readings of one statement count alike."""
    first, claim = result.records[0], result.records[0].claim
    assert claim.reading.name != CAUSAL.name
    pairs = zip((claim, replace(claim, reading=CAUSAL)), verdicts, strict=True)
    records = [replace(first, judgement=replace(first.judgement, claim=one, statement=told)) for one, told in pairs]
    compared(ClaimsResult((*records, *result.records[1:])))
