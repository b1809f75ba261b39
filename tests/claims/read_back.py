"""Both sides that a claim prints, beside those that it computes: the same on every case.

They may differ by what keeps the relation: a common positive factor, a common summand, squares.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, relations
from attnprune_verify.claims.letters import COMMON, Letters, letters_of
from attnprune_verify.claims.notation import Unreadable
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.readback import Link, Printed, Scope
from attnprune_verify.claims.relation import kind_of
from attnprune_verify.theory.arithmetic import FLOAT

CLOSE = 1e-7  # chosen: sides are computed in float64 along two ways, derivatives among them
_CASES = 16  # chosen: cases of the supply that are compared, those that attain a bound beside them
_FEW = 4  # chosen: of claims that differentiate in each entry of M
_SEVERAL = 4  # chosen: so many relations may share the name of a part
_OF_TOKENS = {"c", "f", "p"}  # letters that a formula without tokens may define
_ROUNDING = 1e-6  # chosen: above what an identity may lose, below every quantity that is bounded

_AS_LONG = 0.95  # chosen: the longest steps of the checks are 1.95/L where 2/L is printed

Pair = tuple[float, float]
Sides = list[list[list[Pair]]]
Form = Callable[[Pair, Pair], bool]


def _near(a: float, b: float, scale: float) -> bool:
    return a == b or abs(a - b) <= CLOSE * scale


def _same(one: Pair, other: Pair) -> bool:
    return all(_near(a, b, max(abs(a), abs(b))) for a, b in zip(one, other, strict=True))


def _scaled(one: Pair, other: Pair) -> bool:
    """Both sides times one positive number."""
    if not any(one) or not any(other):
        return not any(one) and not any(other)
    return math.copysign(1, one[1] or one[0]) == math.copysign(1, other[1] or other[0]) and _near(
        one[0] * other[1], one[1] * other[0], max(abs(one[0] * other[1]), abs(one[1] * other[0]))
    )


def _moved(one: Pair, other: Pair) -> bool:
    """Both sides plus one number, or with the sides and signs exchanged."""
    return _near(one[1] - one[0], other[1] - other[0], 1e-3 * max(map(abs, (*one, *other))))


def _squared(one: Pair, other: Pair) -> bool:
    """Both sides squared with their signs, times a positive number."""
    return _scaled((one[0] * abs(one[0]), one[1] * abs(one[1])), other)


def _rooted(one: Pair, other: Pair) -> bool:
    return _squared(other, one)


FORMS: tuple[Form, ...] = (_same, _scaled, _moved, _squared, _rooted)


def cases(claim: Claim) -> list[Case]:
    """Return cases of the claim's supply, and those that attain its bounds."""
    rng = np.random.default_rng(0)
    found = chain(islice(claim.supply.families(rng), _CASES), claim.attains() if claim.attains else ())
    return [claim.supply.complete(case, rng) for case in found]


def printed(claim: Claim, known: list[Case]) -> Printed:
    """Return the relations of the claim's formula."""
    letters = letters_of(claim.id)
    common = COMMON.keys() if "X" in known[0] else COMMON.keys() - _OF_TOKENS
    names = {*common, *letters, *chain.from_iterable(case.values for case in known)}
    return Printed.of(
        claim.formula,
        names,
        _long_names(letters),
    )


def _long_names(letters: Letters) -> list[str]:
    """Return the letters that the reader must be given: those that are no word."""
    given = [name for name in (*COMMON, *letters) if not name.isalpha()]
    return [name for name in given if name != "||" and not name.startswith("range ")]


def differences(claim: Claim) -> list[str]:
    """Return what the formula and the computation do not have in common; raise `Unreadable` where it cannot be read."""
    known = cases(claim)[: _FEW if "/dM_" in claim.formula else None]
    text = printed(claim, known)
    links: list[list[list[Pair]]] = [[] for _ in text.links]
    parts: dict[tuple[str, str], list[list[Pair]]] = {}
    unmet: set[int] = set()
    near: set[int] = set()
    met = 0
    for met, (q, found) in enumerate(_evaluated(claim, known), 1):
        scope = Scope(q, letters_of(claim.id), text.definitions)
        unmet |= {index for index, one in enumerate(text.conditions) if not _holds(one, scope)}
        near |= {index for index, one in enumerate(text.conditions) if not _of_a_step(one) or _tight(one, scope)}
        for one, values in zip(text.links, links, strict=True):
            values.append(one.values(scope))
        for relation in found:
            kind = relation.kind.replace(">", "<").replace("==", "=")
            side = parts.setdefault((re.sub(r"^M_\d+$", "M_ab", kind_of(relation.part)), kind), [])
            side += [[] for _ in range(met - len(side))]
            side[-1] += _pairs(relation)
    if not met:
        raise Unreadable("no case meets the hypotheses")
    for side in parts.values():
        side += [[] for _ in range(met - len(side))]
    far = {*range(len(text.conditions))} - near
    unlike = [f"condition {index} fails" for index in sorted(unmet)]
    return [*_compared(text, links, parts), *unlike, *(f"no step comes near condition {index}" for index in far)]


def unlike_hypotheses(claim: Claim) -> list[str]:
    """Return cases, beyond the hypotheses too, on which the printed conditions and the hypotheses do not agree.

    Not asked where the formula has no condition, or the claim no hypothesis but that there are two tokens.
    """
    known = cases(claim)
    text = printed(claim, known)
    asked = [one for one in claim.hypotheses if one.name != "n >= 2"]
    if not text.conditions or not asked:
        return []
    found = []
    for case in chain.from_iterable(around(case) for case in known if "M" in case):
        with np.errstate(all="ignore"):
            q = Quantities(case, FLOAT)
            if "X" in case and q.n < 2:
                continue
            scope = Scope(q, letters_of(claim.id), text.definitions)
            if all(one.holds(q) for one in asked) != all(_holds(one, scope, exactly=True) for one in text.conditions):
                found.append(case.origin)
    return found


def around(case: Case) -> Iterator[Case]:
    """Yield the case with other masks, regularisers and weights: inside, on and outside the edges of hypotheses."""
    M = case["M"]
    box = np.clip(np.abs(M), 0.0, 1.0)
    corner = box.copy()
    corner.flat[0] = 0.0
    for lam in (0.5, 0.0, 1.0, 1.5):
        yield case.but(f"{case.origin}; in the box, lam = {lam}", M=box / 2, lam=lam)
    for name, mask in {"a corner": corner, "ones": np.ones_like(M), "outside": box + 0.5, "below": box - 0.5}.items():
        yield case.but(f"{case.origin}; {name}", M=mask, lam=0.5)
    yield case.but(f"{case.origin}; near 1", M=1 + 0.01 * (box - 0.5), lam=0.5)
    if "W" in case:
        zero = case["W"].copy()
        zero.flat[0] = 0.0
        yield case.but(f"{case.origin}; a weight of 0", M=box / 2, W=zero, lam=0.5)


def holds_as_printed(condition: str, claim: Claim, q: Quantities, letters: Letters) -> bool:
    """Return whether a condition of the notation, ``beta > 0 and n >= 2``, is met at a case, exactly."""
    known = {**letters_of(claim.id), **letters}
    text = Printed.of(condition, {*COMMON, *known, *q.case.values}, _long_names(known))
    scope = Scope(q, known, text.definitions)
    return all(_holds(one, scope, exactly=True) for one in text.links)


def _evaluated(claim: Claim, known: list[Case]) -> Iterator[tuple[Quantities, Any]]:
    for case in known:
        with np.errstate(all="ignore"):
            q = Quantities(case, FLOAT)
            if all(hypothesis.holds(q) for hypothesis in claim.hypotheses) and (found := relations(claim.margin, q)):
                yield q, found


def _pairs(relation: Any) -> Iterator[Pair]:
    small, large = (relation.rhs, relation.lhs) if relation.kind == ">=" else (relation.lhs, relation.rhs)
    both = np.broadcast_arrays(np.asarray(small, dtype=float), np.asarray(large, dtype=float))
    yield from zip(*(side.ravel().tolist() for side in both), strict=True)


def _holds(link: Link, scope: Scope, exactly: bool = False) -> bool:
    """Return whether a condition is met, up to rounding or exactly."""
    relation = {"<": operator.lt, "<=": operator.le, "=": operator.eq}[link.relation]
    return all(relation(a, b) or (not exactly and link.relation != "<" and _close(a, b)) for a, b in link.values(scope))


def _of_a_step(link: Link) -> bool:
    """Return whether a condition bounds the step of a descent, which the check then takes as long."""
    return link.small.kind == "letter" and link.small.text == "eta"


def _tight(link: Link, scope: Scope) -> bool:
    return all(a >= _AS_LONG * b for a, b in link.values(scope))


def _close(a: float, b: float) -> bool:
    return _near(a, b, max(abs(a), abs(b), 1e-12))


def _compared(text: Printed, links: Sides, parts: dict[tuple[str, str], list[list[Pair]]]) -> Iterator[str]:
    unmatched = {*parts}
    for number, (one, values) in enumerate(zip(text.links, links, strict=True)):
        found = {key for key, pairs in parts.items() if key[1] == one.relation and _matches(values, pairs)}
        several = {key for key, pairs in parts.items() if key[1] == one.relation and _among(values, pairs)}
        equal = one.relation == "=" and all(_same_numbers(pairs) for pairs in values)
        if not found and not several and not equal:
            yield f"relation {number} is computed nowhere"
        if equal:  # an identity, computed as a deviation from it
            found |= {key for key, pairs in parts.items() if _deviation(key[1], pairs)}
        unmatched -= found
    for key in unmatched:
        places = range(max(map(len, parts[key])))
        alike = [[values for one, values in zip(text.links, links, strict=True) if one.relation == key[1]]]
        if not all(any(_matches(values, _at(parts[key], place)) for values in alike[0]) for place in places):
            yield f"part {key[0]!r} is printed nowhere"


def _at(pairs: list[list[Pair]], place: int) -> list[list[Pair]]:
    return [here[place : place + 1] for here in pairs]


def _among(values: list[list[Pair]], pairs: list[list[Pair]]) -> bool:
    """Whether a relation is always the same one of several that share a part."""
    sizes = {len(here) for here in pairs if here}
    return len(sizes) == 1 and any(_matches(values, _at(pairs, place)) for place in range(min(max(sizes), _SEVERAL)))


def _same_numbers(pairs: list[Pair]) -> bool:
    scale = max((max(abs(a), abs(b)) for a, b in pairs), default=0.0)
    return all(_near(a, b, scale + 1e-9) for a, b in pairs)


def _deviation(relation: str, side: list[list[Pair]]) -> bool:
    """Whether the part bounds a deviation by the rounding of it, not a quantity by another."""
    return relation == "<=" and all(0 <= a and b < _ROUNDING for pairs in side for a, b in pairs)


def _matches(printed: list[list[Pair]], computed: list[list[Pair]]) -> bool:
    pairs = [both for both in zip(printed, computed, strict=True) if both[1]]
    if not pairs or any(len(one) != len(other) for one, other in pairs):
        return False
    return any(all(form(a, b) for one, other in pairs for a, b in zip(one, other, strict=True)) for form in FORMS)
