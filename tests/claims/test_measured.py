"""The sentences about Figure 2 follow the measurements, and the carried measurements are the experiment's."""

from attnprune_verify.claims.core import Statement
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.statements.measured import CLAIMS, measured
from attnprune_verify.report.measurements import measurements


def test_the_carried_measurements_are_current() -> None:
    assert measured() == measurements(), "run python -m attnprune_verify.report.measurements"


def test_verdicts_follow_the_measurements() -> None:
    prose = sum(id_.startswith("exp:") for id_ in measured())
    assert len(CLAIMS) == len(measured()) + prose and prose >= 14
    for claim in CLAIMS:
        words = {record["verdict"] for record in measured()[claim.id]["records"]}
        verdict = judge(claim)
        if claim.reading.name == "every":
            expected = "refuted" if "disagrees" in words else "open" if "undecided" in words else "holds"
        else:
            expected = "holds" if "agrees" in words else "open" if "undecided" in words else "refuted"
        assert verdict.statement is Statement(expected), claim.test_id
        assert weigh(verdict).grade == "measured"
