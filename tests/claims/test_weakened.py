"""No claim can be weakened unseen: 1 % off each part, a part dropped, a kind of instance left out.

By default 25 claims drawn with a seed, in the thorough profile all. What the stored numbers do not show has to be
proved formally, certified, or listed in `claims` as not pinned.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.relation import Relation, kind_of, scaled
from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import find
from attnprune_verify.claims.run import assemble
from attnprune_verify.theory.numbers.arithmetic import working_precision
from tests.claims.pins import _KINDS, PINS, Drawn, as_stored, pinned, pinned_claims, says_nothing

Said = Mapping[int, Sequence[Relation]]
"""By case: what a claim says there."""
STORED = json.loads(PINS.read_text("utf-8"))
SEED, SIZE = 14, 25
CLAIMS = pinned_claims()
DRAWN = sorted(np.random.default_rng(SEED).choice(len(CLAIMS), SIZE, replace=False))
NOTHING_TO_SCALE = 1e-8
"""A side no larger than this is 0, or the tolerance that two programs may differ by."""


def parts(claim: Claim) -> dict[str, bool]:
    """The parts that are stored, and whether they are bounds with something to scale."""
    found: dict[str, bool] = {}
    for kind, part, *both in (side for sides in STORED[claim.test_id]["sides"] for side in sides):
        size = max((abs(one) for one in both if one is not None), default=0.0)
        found[kind_of(part)] = found.get(kind_of(part), False) or (kind != "==" and size > NOTHING_TO_SCALE)
    return found


def weakened(claim: Claim, drawn: Drawn) -> Iterator[tuple[str, str, Said]]:
    """Yield the change, the part, and the relations of each case after it."""
    for part, scales in parts(claim).items():
        if scales:
            yield "1 % weaker", part, each(drawn, lambda case, one, part=part: weaker(one, part))
        yield "dropped", part, each(drawn, lambda case, one, part=part: one if kind_of(one.part) != part else None)
    for kind in STORED[claim.test_id]["reach"]:
        if kind != "any":
            yield "left out", kind, each(drawn, lambda case, one, kind=kind: None if _KINDS[kind](case) else one)


def weaker(one: Relation, part: str) -> Relation:
    return scaled(one, 1.01) if kind_of(one.part) == part else one


def each(drawn: Drawn, change: Callable[[Case, Relation], Relation | None]) -> Said:
    """Return the relations of each case, changed or dropped one by one."""
    changed = {}
    with working_precision():
        for case in drawn.cases:
            kept = (change(case, one) for one in drawn.said[id(case)])
            changed[id(case)] = [one for one in kept if one is not None]
    return changed


def seen(claim: Claim, drawn: Drawn, said: Said) -> bool:
    stored = STORED[claim.test_id]
    return not as_stored(pinned(claim, drawn, said, says_nothing(stored["sides"])), stored)


def every_weakening_is_seen(claim: Claim) -> None:
    drawn = Drawn(claim)
    assert not seen(claim, drawn, drawn.said)
    unseen = [(what, part) for what, part, said in weakened(claim, drawn) if not seen(claim, drawn, said)]
    if not unseen:
        return
    assert all(what == "1 % weaker" for what, _ in unseen), unseen
    (record,) = assemble([judge(claim)]).records
    proved = record.evidence.grade in ("formal", "certified")
    assert proved or {part for _, part in unseen} <= set(record.not_pinned), unseen


@pytest.mark.parametrize("claim", [CLAIMS[place] for place in DRAWN], ids=lambda claim: claim.test_id)
def test_a_weaker_claim_is_seen(claim: Claim) -> None:
    every_weakening_is_seen(claim)


@pytest.mark.thorough
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.test_id)
def test_every_weaker_claim_is_seen(claim: Claim) -> None:
    every_weakening_is_seen(claim)


def test_the_last_parts_of_a_long_claim_are_stored() -> None:
    """They came after the twelve relations of a case that were once all that was stored."""
    claim = find("new:guarantees", "any")
    drawn = Drawn(claim)
    found = {(what, part): seen(claim, drawn, said) for what, part, said in weakened(claim, drawn)}
    for part in ("delta", "threshold above", "linear-convergence", "modulus"):
        assert found["dropped", part] and found["1 % weaker", part]
