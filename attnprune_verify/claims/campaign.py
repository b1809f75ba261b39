"""``python -m attnprune_verify.claims.campaign``: attack every bound for minutes and store the best attacks.

The stored attacks (`attacks.json`) are replayed first in every ordinary run, so that what took long to find once is a
regression test from then on.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from attnprune_verify.claims.core import Claim, Statement, Strength
from attnprune_verify.claims.falsifier import THOROUGH, Effort, stored_attacks
from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.registry import claims

__all__ = ["best_attack", "main"]

_LARGEST = 3000
"""Characters a stored attack may take."""


def best_attack(claim: Claim, effort: Effort = THOROUGH) -> dict[str, Any] | None:
    """The worst case a long attack finds, as JSON; None where there is nothing to attack or to improve."""
    if claim.strength is Strength.IDENTITY or claim.arithmetic != "float" or not claim.supply.free:
        return None
    verdict = judge(claim, effort)
    trial = verdict.witness or verdict.worst
    if trial is None or not math.isfinite(trial.slack):
        return None
    entry = {"origin": trial.case.origin.removeprefix("stored attack: "), "slack": trial.slack}
    entry["values"] = trial.case.as_json()
    return entry if len(json.dumps(entry)) <= _LARGEST and verdict.statement is not Statement.VACUOUS else None


def main(arguments: list[str]) -> int:
    """Attack the claims whose test ids start with an argument (all without arguments), and write attacks.json."""
    path = Path(__file__).with_name("attacks.json")
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for claim in claims():
        if arguments and not claim.test_id.startswith(tuple(arguments)):
            continue
        before = len(stored_attacks(claim.test_id))
        entry = best_attack(claim)
        if entry is not None:
            stored[claim.test_id] = [entry]
            print(f"{claim.test_id}: slack {entry['slack']:.3g} ({before} stored before)", flush=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(stored, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
