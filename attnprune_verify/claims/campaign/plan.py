"""Plan of a campaign: its statements, the number and the sizes of instances, and the seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from attnprune_verify.claims import registry
from attnprune_verify.claims.campaign.draw import Sizes
from attnprune_verify.claims.campaign.judge import attackable
from attnprune_verify.claims.core import Claim
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_count

DEFAULT_SIZES = Sizes((2, 8), (2, 8))
_LARGEST = 64  # chosen: a lane of 64 x 64 logits is 32 KiB, 1024 of them 32 MiB
_SEEDS = 2**64  # seeds are words of 64 bits


@dataclass(frozen=True)
class CampaignPlan:
    """A campaign's settings; its results depend on them, on the code and on the machine's rounding.

    Attributes
    ----------
    ids : tuple of str
        Statements in the registry's order, each once.
    instances, seed : int
    sizes : Sizes
    """

    ids: tuple[str, ...]
    instances: int
    seed: int
    sizes: Sizes

    @classmethod
    def of(cls, ids: str | Iterable[str], instances: object, seed: object, sizes: object) -> CampaignPlan:
        """Check the settings.

        Raises
        ------
        InvalidInstance
            If an id names no statement, or one that instances cannot attack; if a number or a size is out of range.
        """
        wanted = registry.named([ids] if isinstance(ids, str) else ids)
        if not wanted:
            raise InvalidInstance("a campaign needs at least one statement; got none")
        for id_ in sorted(wanted):
            _refuse_what_instances_cannot_attack(id_)
        order = dict.fromkeys(claim.id for claim in registry.claims() if claim.id in wanted)
        count, start = as_count("instances", instances, least=1), as_count("seed", seed)
        if start >= _SEEDS:
            raise InvalidInstance(f"seed must be below 2**64; got {start}")
        return cls(tuple(order), count, start, as_sizes(sizes))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every statement under every reading that instances can attack, in the registry's order."""
        return tuple(claim for claim in registry.claims() if claim.id in self.ids and attackable(claim))

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: claims hold functions without a name, which only some picklers take."""
        return {name: getattr(self, name) for name in ("ids", "instances", "seed", "sizes")}

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        settings = {"ids": list(self.ids), "instances": self.instances, "seed": self.seed}
        return settings | {"sizes": self.sizes.as_dict()}


def _refuse_what_instances_cannot_attack(id_: str) -> None:
    claims = [claim for claim in registry.claims() if claim.id == id_]
    if any(attackable(claim) for claim in claims):
        return
    known = list(dict.fromkeys(claim.id for claim in registry.claims() if attackable(claim)))
    related = [c for claim in claims for c in (claim.repaired_by, claim.repairs, *claim.uses) if c in known]
    near = list(dict.fromkeys([*related, *get_close_matches(id_, known, 3, 0.0)]))[:3]
    tags = frozenset().union(*(claim.tags for claim in claims))
    reason = (
        "it is about experiments that were measured"
        if "measured" in tags
        else "it says that an instance exists"
        if "existential" in tags
        else "it is about cases that are listed"
    )
    raise InvalidInstance(
        f"a campaign attacks statements about instances; got {id_!r}: {reason}; nearest are {', '.join(near)}"
    )


def as_sizes(sizes: object) -> Sizes:
    """Sizes from "n=2..8,d=4", from {"n": (2, 8), "d": 4}, or from None.

    Raises
    ------
    InvalidInstance
        If it is none of these, or a size is not from 1 to 64.

    Examples
    --------
    >>> as_sizes("n=2..3,d=4")
    Sizes(n=(2, 3), d=(4, 4))
    """
    if sizes is None:
        return DEFAULT_SIZES
    if isinstance(sizes, Sizes):
        given: Mapping[str, Any] = sizes._asdict()
    elif isinstance(sizes, Mapping):
        given = sizes
    elif isinstance(sizes, str):
        given = _parsed(sizes)
    else:
        raise InvalidInstance(f"sizes must read like 'n=2..8,d=2..8'; got {sizes!r:.60}")
    if unknown := set(given) - {"n", "d"}:
        raise InvalidInstance(f"sizes must name n and d; got {sorted(unknown)[0]!r:.60}")
    ranges = {}
    for name, default in zip("nd", DEFAULT_SIZES, strict=True):
        value = given.get(name, default)
        first, last = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
        first, last = as_count(f"{name} in sizes", first, least=1), as_count(f"{name} in sizes", last, least=1)
        if not first <= last <= _LARGEST:
            raise InvalidInstance(f"{name} in sizes must go up, to at most {_LARGEST}; got {first}..{last}")
        ranges[name] = (first, last)
    return Sizes(**ranges)


def _parsed(text: str) -> dict[str, tuple[int, int]]:
    found = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([a-z]+)\s*=\s*(\d{1,9})\s*(?:\.\.\s*(\d{1,9})\s*)?", part)
        if match is None or match[1] in found:
            raise InvalidInstance(f"sizes must read like 'n=2..8,d=2..8'; got {text!r:.60}")
        found[match[1]] = (int(match[2]), int(match[3] or match[2]))
    return found
