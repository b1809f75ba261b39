"""Traps of what every form of certificate has: its relation, its mask's name, its hypotheses, the last of its numbers.

A statement's own module makes the calls that refuse these. One trap for each form, so that no statement lacks one.
"""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from proofs_check.__main__ import CERTIFICATES
from proofs_check.corpus.trap import Document, Trap, put, spoiled

_RELATIONS = ("lhs<rhs", "lhs<=rhs", "lhs>rhs", "lhs>=rhs", "lhs==rhs", "zeros!=wanted", "zeros==wanted")
_OTHER_MASK = {"full": "causal", "causal": "full", "given": "full"}


def traps() -> Iterator[Trap]:
    for base, document in _shortest().items():
        relation = document["claim"]["relation"]
        other = _RELATIONS[(_RELATIONS.index(relation) + 1) % len(_RELATIONS)]
        yield spoiled(f"{base}-as-{other}", f"it claims {relation}", base, put("claim", "relation", value=other))
        yield spoiled(
            f"{base}-supposes", "a hypothesis that nobody has", base, put("hypotheses", "x", value=["0", "1"])
        )
        if (mask := document["reading"].get("mask")) in _OTHER_MASK:
            named = _OTHER_MASK[mask]
            yield spoiled(f"{base}-as-{named}", f"its mask is {mask}", base, put("reading", "mask", value=named))
        for key in sorted(document["reading"].keys() - {"mask"}):
            yield spoiled(f"{base}-{key}-nothing", f"no such {key}", base, put("reading", key, value="nothing"))
        for place, value in _lasts(document):
            yield spoiled(f"{base}-last-of-{place[1]}", "its last number is another", base, put(*place, value=value))


def _shortest() -> dict[str, Document]:
    """Return the shortest certificate of each form: statement, kind, relation and mask."""
    found: dict[tuple[Any, ...], tuple[str, Document]] = {}
    for file in sorted(CERTIFICATES.glob("*.json"), key=lambda one: (one.stat().st_size, one.name)):
        document = json.loads(file.read_text())
        form = (document["statement"], document["kind"], document["claim"]["relation"], document["reading"].get("mask"))
        found.setdefault(form, (file.stem, document))
    return dict(sorted(found.values(), key=lambda pair: pair[0]))


def _lasts(document: Document) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the place of the last entry of each list of exact numbers, and another number for it."""
    for part, name in (("hypotheses", "psd_pivots"), ("hypotheses", "gram_pivots"), ("quantities", "zeros"),
                       ("quantities", "wanted")):  # fmt: skip
        listed = document[part].get(name)
        if listed:
            last = listed[-1]
            value = last + 1 if isinstance(last, int) else 0 if last == "out of range" else str(Fraction(last) + 1)
            yield (part, name, len(listed) - 1), value
