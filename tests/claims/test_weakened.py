"""No claim can be weakened unseen: 1 % off each part, a part dropped, a kind of instance left out.

By default 25 claims drawn with a seed, in the thorough profile all. What the stored numbers do not show has to be
proved formally, certified, or listed in `claims` as not pinned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnprune_verify.claims.core import Claim, neighbour, relations
from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.registry import find
from attnprune_verify.claims.relation import Relation, kind_of
from attnprune_verify.claims.run import assemble
from tests.claims.pins import _KINDS, PINS, as_stored, pin, pinned_claims, says_nothing

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


def weakened(claim: Claim) -> Iterator[tuple[str, str, Claim]]:
    """What is done, to which part, and the claim after it."""
    for part, scales in parts(claim).items():
        if scales:
            yield "1 % weaker", part, neighbour(claim, part, 1.01)
        yield "dropped", part, replace(claim, margin=without(claim, part))
    for kind in STORED[claim.test_id]["reach"]:
        if kind != "any":
            yield "left out", kind, replace(claim, margin=elsewhere(claim, kind))


def without(claim: Claim, part: str) -> Any:
    def margin(q: Quantities) -> list[Relation]:
        return [one for one in relations(claim.margin, q) if kind_of(one.part) != part]

    return margin


def elsewhere(claim: Claim, kind: str) -> Any:
    def margin(q: Quantities) -> list[Relation]:
        return [] if _KINDS[kind](q.case) else list(relations(claim.margin, q))

    return margin


def seen(claim: Claim) -> bool:
    stored = STORED[claim.test_id]
    return not as_stored(pin(claim, says_nothing(stored["sides"])), stored)


def every_weakening_is_seen(claim: Claim) -> None:
    unseen = [(what, part) for what, part, changed in weakened(claim) if not seen(changed)]
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


@pytest.mark.parametrize("part", ["delta", "threshold above", "linear-convergence", "modulus"])
def test_the_last_parts_of_a_long_claim_are_stored(part: str) -> None:
    """They came after the twelve relations of a case that were once all that was stored."""
    claim = find("new:guarantees", "any")
    assert seen(replace(claim, margin=without(claim, part))) and seen(neighbour(claim, part, 1.01))
    assert not seen(claim)
