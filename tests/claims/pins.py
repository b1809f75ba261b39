"""What every margin says on a few cases, in numbers, and of which kinds of instances it says anything.

``python -m tests.claims.pins`` writes it anew.

A margin that is weakened, a hypothesis that is widened or a supply that is thinned shows here even where no case
attains the bound; who changes one on purpose sees which statements the change reaches. A side that depends on the last
bits of a case's numbers says nothing on another machine: null stands in its place, and another case is taken
where a case has no other sides.
"""

import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, kind_of
from attnprune_verify.claims.core import Claim, Hypothesis, Unmet, relations
from attnprune_verify.claims.judging.judge import _ARITHMETIC
from attnprune_verify.claims.registry import claims
from attnprune_verify.theory.numbers.arithmetic import Undecidable, working_precision

PINS = Path(__file__).parent / "pinned_margins.json"
_CASES = 3
_TRIED = 24
_SIDES = 4
_UNITS = 8
_NEAR = 0.01
_ON_THE_EDGE = 2
_TOUCHES = 5
_BINARY_PLACES = 2.0**20
_SAYS_NOTHING = (Undecidable, Unmet, ArithmeticError, np.linalg.LinAlgError, ValueError)


def pinned_claims() -> list[Claim]:
    """All but the measured ones, whose cases are the stored runs."""
    return [claim for claim in claims() if "measured" not in claim.tags]


class Drawn:
    """A claim's cases, and what its margin says on each of them, worked out once."""

    def __init__(self, claim: Claim) -> None:
        rng = np.random.default_rng(zlib.crc32(claim.test_id.encode()))
        self.named = [claim.supply.complete(case, rng) for case in (claim.attains() if claim.attains else ())]
        for hypothesis in claim.hypotheses:
            self.named += [claim.supply.complete(case, rng) for case in hypothesis.cases(rng)]
        self.families = list(claim.supply.families(rng))
        self.cases = self.named + self.families
        self.said = {id(case): _relations(claim, case) for case in self.cases}
        self.fails = _fails(claim, self.cases)


def pin(claim: Claim, silent: int | None = None) -> dict[str, Any]:
    """Both sides of each relation on the first cases that meet the hypotheses, and the first that tell more of a part.

    Beside how many cases there are, fail each hypothesis, are of each kind. Unsteady sides are null; cases with no
    other (`silent` ones, where that was found out before) are not counted.
    """
    drawn = Drawn(claim)
    return pinned(claim, drawn, drawn.said, silent)


def pinned(claim: Claim, drawn: Drawn, said: Mapping[int, Sequence[Relation]], silent: int | None) -> dict[str, Any]:
    """`pin`, of what is said on the cases that were drawn."""
    named, families = drawn.named, drawn.families
    step = max(1, len(families) // _TRIED)
    wanted = _CASES + min(len(named), _CASES)
    found: list[Any] = []
    parts: set[tuple[str, bool]] = set()
    for case in [*named[:_CASES], *families[::step], *named[_CASES:]]:
        sides = _sized(said[id(case)])
        full = len(found) >= wanted + (says_nothing(found) if silent is None else silent)
        if not sides or (full and _telling(sides) <= parts):
            continue
        found.append(_steady(claim, case, sides) if silent is None else sides)
        parts |= _telling(sides)
    reach = _reach([case for case in drawn.cases if said[id(case)]])
    return {"cases": [len(named), len(families)], "fails": drawn.fails, "reach": reach, "sides": found}


def _telling(sides: list[Any]) -> set[tuple[str, bool]]:
    """The parts there are, and whether their sides are of one size: 1 % of a side far from the other shows little."""
    found = set()
    for kind, part, *both in sides:
        low, high = sorted(map(abs, both))
        found |= {(kind_of(part), False), (kind_of(part), kind == "==" or low >= _NEAR * high > 0)}
    return found


def _fails(claim: Claim, cases: list[Case]) -> dict[str, int]:
    """By hypothesis: on how many of some cases it fails, whatever the others say; undecided is no."""
    some = cases[:: max(1, len(cases) // _TRIED)]
    with working_precision(), np.errstate(all="ignore"):
        return {one.name: sum(not _meets(claim, one, case) for case in some) for one in claim.hypotheses}


def _reach(cases: Sequence[Case]) -> dict[str, int]:
    """By kind of instance: how many of the cases on which the margin says anything."""
    reached: Counter[str] = Counter()
    for case in cases:
        reached.update(["any", *(kind for kind, is_one in _KINDS.items() if is_one(case))])
    return dict(sorted(reached.items()))


def _zero(case: Case) -> bool:
    return any((np.asarray(case[name]) == 0).any() for name in ("W", "W_Q", "W_K") if name in case)


def _outside(case: Case) -> bool:
    M = np.asarray(case.get("M", 0.0), dtype=float)
    return bool((M < 0).any() or (M > 1).any())


_KINDS: dict[str, Callable[[Case], bool]] = {
    "a mask of its own": lambda case: isinstance(case.get("mask"), np.ndarray),
    "a row without a choice": lambda case: (
        isinstance(case.get("mask"), np.ndarray) and bool((case["mask"].sum(axis=1) == 1).any())
    ),
    "causal": lambda case: isinstance(case.get("mask"), str),
    "n > d": lambda case: "X" in case and np.ndim(case["X"]) == 2 and np.shape(case["X"])[0] > np.shape(case["X"])[1],
    "a weight of 0": _zero,
    "M outside the box": _outside,
    "lam = 0": lambda case: case.get("lam") == 0,
    "lam > 1/2": lambda case: np.ndim(case.get("lam", 0.0)) == 0 and float(case.get("lam", 0.0)) > 0.5,
    "several samples": lambda case: len(case.get("others", ())) > 0,
    "several heads": lambda case: case.get("heads", 1) > 1,
    "shared key heads": lambda case: case.get("heads", 1) > case.get("kv_heads", 1),
}


def _meets(claim: Claim, hypothesis: Hypothesis, case: Case) -> bool:
    try:
        return bool(hypothesis.holds(Quantities(case, _ARITHMETIC[claim.arithmetic])))
    except _SAYS_NOTHING:
        return False


def says_nothing(found: list[Any]) -> int:
    """Count the cases without a steady side."""
    return sum(all(side[2:] == [None, None] for side in sides) for sides in found)


def _steady(claim: Claim, case: Case, sides: list[Any]) -> list[Any]:
    """The sides, null where they change when the case's numbers move by a few units in the last place.

    The products and exponentials of two machines differ by as much.
    """
    rng = np.random.default_rng(zlib.crc32(case.origin.encode()))
    for _ in range(_TOUCHES):
        moved = _sized(_relations(claim, _touched(case, rng)))
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


def _relations(claim: Claim, case: Case) -> Sequence[Relation]:
    """The first few relations of every part on a case; none where a hypothesis fails or nothing can be said."""
    with working_precision(), np.errstate(all="ignore"):
        q = Quantities(case, _ARITHMETIC[claim.arithmetic])
        try:
            if not all(hypothesis.holds(q) for hypothesis in claim.hypotheses):
                return []
            found = _some(relations(claim.margin, q))
            _sized(found)  # a side without a size says nothing either
            return found
        except _SAYS_NOTHING:
            return []


def _sized(said: Sequence[Relation]) -> list[Any]:
    return [[one.kind, one.part, _size(one.lhs), _size(one.rhs)] for one in said]


def _some(found: Sequence[Relation]) -> list[Relation]:
    """The first few of every part: of many rows or steps not all."""
    seen: Counter[str] = Counter()
    kept = []
    for one in found:
        seen[kind_of(one.part)] += 1
        if seen[kind_of(one.part)] <= _SIDES:
            kept.append(one)
    return kept


def _size(side: Any) -> float:
    """One number for a side: a weighted sum, so that entries that change places show."""
    entries = [float(entry) for entry in np.asarray(side, dtype=object).ravel()]
    total = math.fsum(entry * (1 + 0.1 * (place % 7)) for place, entry in enumerate(entries))
    return float(f"{total:.9g}")


def as_stored(found: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Return True where a claim's margin is the pinned one on the pinned cases."""
    return (
        found["cases"] == stored["cases"]
        and same_reach(found["fails"], stored["fails"])
        and same_reach(found["reach"], stored["reach"])
        and len(found["sides"]) == len(stored["sides"])
        and all(map(alike, found["sides"], stored["sides"]))
    )


def same_reach(one: dict[str, int], other: dict[str, int]) -> bool:
    """The same kinds of instances, and about as many: the last bits decide whether a case on the edge counts."""
    return one.keys() == other.keys() and all(
        bool(one[kind]) is bool(other[kind]) and abs(one[kind] - other[kind]) <= _ON_THE_EDGE for kind in one
    )


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
