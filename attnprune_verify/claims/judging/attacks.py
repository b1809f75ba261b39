"""``python -m attnprune_verify.claims.judging.attacks``: attack every bound for minutes and store the best attacks.

The stored attacks (`attacks.jsonl`) are replayed first in every ordinary run, so that what took long to find once is a
regression test from then on.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

from attnprune_verify.claims.core import Claim, Strength, Verdict
from attnprune_verify.claims.judging.falsifier import THOROUGH, attacks
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims
from attnprune_verify.files import lines, write_whole

_LARGEST = 3000
"""Characters a stored attack may take."""


def best_attack(claim: Claim) -> dict[str, Any] | None:
    """The worst case a long attack finds, as JSON; None where there is nothing to attack or to improve."""
    if claim.strength is Strength.IDENTITY or claim.arithmetic != "float" or not claim.supply.free:
        return None
    judgement = judge(claim, THOROUGH)
    trial = judgement.witness or judgement.worst
    if trial is None or not math.isfinite(trial.slack):
        return None
    origin = trial.case.origin.removeprefix("stored attack: ")
    entry = {"claim": claim.test_id, "origin": origin, "slack": trial.slack, "values": trial.case.as_json()}
    return entry if len(json.dumps(entry)) <= _LARGEST and judgement.statement is not Verdict.VACUOUS else None


def main(arguments: list[str]) -> int:
    """Attack the claims whose test ids start with an argument (all without arguments), and write attacks.jsonl."""
    path = Path(__file__).with_name("attacks.jsonl")
    stored = dict(attacks())
    for claim in claims():
        if arguments and not claim.test_id.startswith(tuple(arguments)):
            continue
        entry = best_attack(claim)
        if entry is not None:
            before = f"{stored[claim.test_id]['slack']:.3g}" if claim.test_id in stored else "none"
            stored[claim.test_id] = entry
            print(f"{claim.test_id}: slack {entry['slack']:.3g} (before: {before})", flush=True)
    write_whole(path, lines(stored[name] for name in sorted(stored)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
