"""What every margin says on a few cases, in numbers: ``python -m tests.claims.pins`` writes them anew.

A margin that is weakened, a hypothesis that is widened or a supply that is thinned shows here even where no case
attains the bound; who changes one on purpose sees which statements the change reaches. A side that depends on the last
bits of a case's numbers says nothing on another machine: null stands in its place, and another case is taken
where a case has no other sides.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, relations
from attnprune_verify.claims.judge import _ARITHMETIC
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.registry import claims
from attnprune_verify.theory.arithmetic import Undecidable, working_precision

PINS = Path(__file__).parent / "pinned_margins.json"
_CASES = 3
_TRIED = 24
_SIDES = 12
_UNITS = 8
_TOUCHES = 5
_BINARY_PLACES = 2.0**20


def pinned_claims() -> list[Claim]:
    """All but the measured ones, whose cases are the stored runs."""
    return [claim for claim in claims() if "measured" not in claim.tags]


def pin(claim: Claim, silent: int | None = None) -> dict[str, Any]:
    """Of the first cases that meet the hypotheses: both sides of each relation; and how many cases there are.

    Unsteady sides are null; cases with no other (`silent` ones, where that was found out before) are not counted.
    """
    rng = np.random.default_rng(zlib.crc32(claim.test_id.encode()))
    named = [claim.supply.complete(case, rng) for case in (claim.attains() if claim.attains else ())]
    for hypothesis in claim.hypotheses:
        named += [claim.supply.complete(case, rng) for case in hypothesis.cases(rng)]
    families = list(claim.supply.families(rng))
    step = max(1, len(families) // _TRIED)
    wanted = _CASES + min(len(named), _CASES)
    found: list[Any] = []
    for case in [*named[:_CASES], *families[::step]]:
        if len(found) >= wanted + (says_nothing(found) if silent is None else silent):
            break
        sides = _sides(claim, case)
        if sides:
            found.append(_steady(claim, case, sides) if silent is None else sides)
    return {"cases": [len(named), len(families)], "sides": found}


def says_nothing(found: list[Any]) -> int:
    """How many cases have no steady side."""
    return sum(all(side[2:] == [None, None] for side in sides) for sides in found)


def _steady(claim: Claim, case: Case, sides: list[Any]) -> list[Any]:
    """The sides, null where they change when the case's numbers move by a few units in the last place.

    The products and exponentials of two machines differ by as much.
    """
    rng = np.random.default_rng(zlib.crc32(case.origin.encode()))
    for _ in range(_TOUCHES):
        moved = _sides(claim, _touched(case, rng))
        if [side[:2] for side in moved] != [side[:2] for side in sides]:
            raise ValueError(f"{claim.test_id}: which relations {case.origin!r} has depends on the last bits")
        sides = [_shared(one, other) for one, other in zip(sides, moved, strict=True)]
    return sides


def _shared(one: list[Any], other: list[Any]) -> list[Any]:
    """A relation, with null for the sides in which it differs from another evaluation."""
    return [*one[:2], *(a if close else None for a, close in zip(one[2:], _close(one[2:], other[2:]), strict=True))]


def _touched(case: Case, rng: np.random.Generator) -> Case:
    """The case with every number of more than 20 binary places moved by up to 8 units in the last place.

    Shorter ones (0, 1, sixteenths) are exact everywhere, and so is what rests on them: ties, corners of the box.
    """
    moved: dict[str, Any] = {}
    for name, value in case.values.items():
        numbers = np.asarray(value)
        if numbers.dtype == np.float64:
            long = numbers * _BINARY_PLACES != np.rint(numbers * _BINARY_PLACES)
            units = rng.integers(-_UNITS, _UNITS + 1, numbers.shape)
            touched = np.where(long, numbers + units * np.spacing(numbers), numbers)
            moved[name] = touched if isinstance(value, np.ndarray) else float(touched)
    return case.but(**moved)


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
    """Equal up to 1e-6 of the larger side of a relation; null is equal to everything."""
    return len(one) == len(other) and all(
        a[:2] == b[:2] and all(_close(a[2:], b[2:])) for a, b in zip(one, other, strict=True)
    )


def _close(one: list[Any], other: list[Any]) -> list[bool]:
    scale = max((abs(side) for side in (*one, *other) if side is not None), default=0.0)
    return [
        a is None or b is None or a == b or abs(a - b) <= 1e-6 * scale + 1e-12 for a, b in zip(one, other, strict=True)
    ]


if __name__ == "__main__":
    lines = [f"{json.dumps(claim.test_id)}: {json.dumps(pin(claim))}" for claim in pinned_claims()]
    PINS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
