"""What every margin says on a few cases, in numbers: ``python -m tests.claims.pins`` writes them anew.

A margin that is weakened, a hypothesis that is widened or a supply that is thinned shows here even where no case
attains the bound; who changes one on purpose sees which statements the change reaches.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.claims.core import Claim, relations
from attnprune_verify.claims.judge import _ARITHMETIC
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.registry import claims
from attnprune_verify.theory.arithmetic import Undecidable, working_precision

PINS = Path(__file__).parent / "pinned_margins.json"
_CASES = 3
_TRIED = 24
_SIDES = 12


def pinned_claims() -> list[Claim]:
    """All but the measured ones, whose cases are the stored runs."""
    return [claim for claim in claims() if "measured" not in claim.tags]


def pin(claim: Claim) -> dict[str, Any]:
    """Of the first cases that meet the hypotheses: both sides of each relation; and how many cases there are."""
    rng = np.random.default_rng(zlib.crc32(claim.test_id.encode()))
    named = [claim.supply.complete(case, rng) for case in (claim.attains() if claim.attains else ())]
    for hypothesis in claim.hypotheses:
        named += [claim.supply.complete(case, rng) for case in hypothesis.cases(rng)]
    families = list(claim.supply.families(rng))
    step = max(1, len(families) // _TRIED)
    found: list[Any] = []
    for case in [*named[:_CASES], *families[::step]]:
        if len(found) >= _CASES + min(len(named), _CASES):
            break
        sides = _sides(claim, case)
        if sides:
            found.append(sides)
    return {"cases": [len(named), len(families)], "sides": found}


def _sides(claim: Claim, case: Any) -> list[Any]:
    with working_precision(), np.errstate(all="ignore"):
        q = Quantities(case, _ARITHMETIC[claim.arithmetic])
        try:
            if not all(hypothesis.holds(q) for hypothesis in claim.hypotheses):
                return []
            return [[one.kind, one.part, _size(one.lhs), _size(one.rhs)] for one in relations(claim.margin, q)][:_SIDES]
        except (Undecidable, ArithmeticError, np.linalg.LinAlgError, ValueError):
            return []


def _size(side: Any) -> float:
    """One number for a side: a weighted sum, so that entries that change places show."""
    entries = [float(entry) for entry in np.asarray(side, dtype=object).ravel()]
    total = math.fsum(entry * (1 + 0.1 * (place % 7)) for place, entry in enumerate(entries))
    return float(f"{total:.9g}")


def alike(one: Any, other: Any) -> bool:
    """Equal up to 1e-6 of the larger side of a relation."""
    if len(one) != len(other):
        return False
    for (kind, part, *sides), (kind_, part_, *sides_) in zip(one, other, strict=True):
        scale = max(map(abs, (*sides, *sides_)))
        if (kind, part) != (kind_, part_):
            return False
        if not all(a == b or abs(a - b) <= 1e-6 * scale + 1e-12 for a, b in zip(sides, sides_, strict=True)):
            return False
    return True


if __name__ == "__main__":
    lines = [f"{json.dumps(claim.test_id)}: {json.dumps(pin(claim))}" for claim in pinned_claims()]
    PINS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
