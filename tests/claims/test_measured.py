"""The verdicts on the measured sentences follow the findings of the stored runs."""

from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.run import run_claims
from attnprune_verify.claims.statements.measured import CLAIMS
from attnprune_verify.experiments.paired import LEVEL
from attnprune_verify.experiments.stored.findings import measured


def test_verdicts_follow_the_measurements() -> None:
    prose = sum(id_.startswith("exp:") for id_ in measured())
    assert len(CLAIMS) == len(measured()) + prose and prose >= 14
    for claim in CLAIMS:
        refuted = "refuted" if claim.own else "not-reproduced"  # the paper measured other models and texts
        words = {one.verdict for one in measured()[claim.id].findings}
        judgement = judge(claim)
        if claim.reading.name == "every":
            expected = refuted if "disagrees" in words else "open" if "undecided" in words else "holds"
        else:
            expected = "holds" if "agrees" in words else "open" if "undecided" in words else refuted
        assert judgement.statement is Verdict(expected), claim.test_id
        assert weigh(judgement).grade == "measured"


def test_a_sentence_says_what_it_was_measured_on() -> None:
    """Without it a sentence about one encoder reads as one about every model."""
    for claim in CLAIMS:
        entry = measured()[claim.id]
        assert entry.data and all(part in claim.says for data in entry.data for part in data.split(": ")), claim.test_id
        assert all(command in claim.note for command in entry.commands), claim.test_id
    several = {id_: entry.data for id_, entry in measured().items() if len(entry.data) > 1}
    assert len(several["new:output-obs-beats-sparsegpt"]) == 3


def test_what_is_open_says_why() -> None:
    """So many readings, and the probability that a verdict on any of them may be wrong with."""
    for claim in CLAIMS:
        counts = [one.verdict for one in measured()[claim.id].findings].count
        assert f"of {sum(map(counts, ('agrees', 'disagrees', 'undecided')))} readings" in claim.note
        assert (f"probability {LEVEL:g}" in claim.note) is (counts("undecided") > 0), claim.test_id


def test_a_bound_set_before_measuring_is_not_dropped_when_the_draws_leave_it_open() -> None:
    """0.6 at 2:4 was left out of the sentence that prints the bounds "set before measuring"."""
    (record,) = run_claims(ids=["new:output-obs-attention-in-pairs"]).records
    assert record.statement is Verdict.OPEN and "0.6 at 2:4" in record.claim.says
    assert run_claims(ids=["new:output-obs-attention-in-pairs"]).outcome == "passed"
