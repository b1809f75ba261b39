"""The verdicts on the measured sentences follow the findings of the stored runs."""

from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.statements.measured import CLAIMS
from attnprune_verify.experiments.stored.findings import measured


def test_verdicts_follow_the_measurements() -> None:
    prose = sum(id_.startswith("exp:") for id_ in measured())
    assert len(CLAIMS) == len(measured()) + prose and prose >= 14
    for claim in CLAIMS:
        words = {one.verdict for one in measured()[claim.id].findings}
        judgement = judge(claim)
        if claim.reading.name == "every":
            expected = "refuted" if "disagrees" in words else "open" if "undecided" in words else "holds"
        else:
            expected = "holds" if "agrees" in words else "open" if "undecided" in words else "refuted"
        assert judgement.statement is Verdict(expected), claim.test_id
        assert weigh(judgement).grade == "measured"
