"""Both sides that a claim prints, beside those that it computes: the same on every case.

They may differ by what keeps the relation: a common positive factor, a common summand, squares.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import kind_of
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Hypothesis, Unmet, relations
from attnprune_verify.claims.formulas.letters import COMMON, Letters, letters_of, names_of
from attnprune_verify.claims.formulas.notation import Node, Unreadable
from attnprune_verify.claims.formulas.read_back import Link, Printed, Scope
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.theory.numbers.arithmetic import FLOAT, Undecidable
from tests.claims.outside import around, degenerate, resized

CLOSE = 1e-7  # chosen: sides are computed in float64 along two ways, derivatives among them
_CASES = 16  # chosen: cases of the supply that are compared, those that attain a bound beside them
_COSTLY = 6  # chosen: where the margin walks, for each of some forty cases outside
_FEW = 4  # chosen: of claims that differentiate in each entry of M
_SEVERAL = 4  # chosen: so many relations may share the name of a part
_OF_TOKENS = {"alpha", "c", "f", "p", "K", "R"}  # letters that a formula without tokens may define
_ROUNDING = 1e-6  # chosen: above what an identity may lose, below every quantity that is bounded

_AS_LONG = 0.949  # chosen: the longest steps of the checks are 1.9/L where 2/L is printed

Pair = tuple[float, float]
Sides = list[list[list[Pair]]]
_RELATIONS = {"<": operator.lt, "<=": operator.le, "=": operator.eq}
_LEAST = Node("letter", text="R")  # stands for the least number that the condition allows
_NEARLY_SINGULAR = {"new:kappa_masked"}  # whether an eigenvalue is 0 its hypothesis decides from the ranks
_MADE = {"new:ones_witness", "new:ones_witness_sharp"}  # their lam is made from the case, not drawn
_NEVER_EQUAL = {  # where ||c|| is the radius, eta L_seg 1, or L(M) its bound exactly; lam of a pair is drawn above 0
    "new:convex_near_dense-any", "new:segment_step-any", "new:pair_descent-heads", "new:pair_lipschitz-heads",
}  # fmt: skip
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
    gap, wanted, scale = one[1] - one[0], other[1] - other[0], max(map(abs, other))
    if abs(wanted) > _ROUNDING * scale and abs(gap - wanted) > 1e-3 * abs(wanted):
        return False  # nothing beside a printed side, but not beside what is computed
    return _near(gap, wanted, 1e-3 * max(scale, *map(abs, one)))


def _squared(one: Pair, other: Pair) -> bool:
    """Both sides squared with their signs, times a positive number."""
    return _scaled((one[0] * abs(one[0]), one[1] * abs(one[1])), other)


def _rooted(one: Pair, other: Pair) -> bool:
    return _squared(other, one)


FORMS: tuple[Form, ...] = (_same, _scaled, _moved, _squared, _rooted)


def cases(claim: Claim) -> list[Case]:
    """Return cases of the claim's supply, and those that attain its bounds; the same each time."""
    key = id(claim.supply), id(claim.attains)
    if key not in _DRAWN:
        rng = np.random.default_rng(0)
        found = chain(islice(claim.supply.families(rng), _CASES), claim.attains() if claim.attains else ())
        _DRAWN[key] = claim, [claim.supply.complete(case, rng) for case in found]
    return _DRAWN[key][1]


_DRAWN: dict[tuple[int, int], tuple[Claim, list[Case]]] = {}
"""By the supply and what attains the bounds, which the claim keeps alive."""


def printed(claim: Claim, known: list[Case], noted: Iterable[str] = ()) -> Printed:
    """Return the relations of the claim's formula; `noted` are the letters that the margin computes."""
    common = COMMON.keys() if "X" in known[0] else COMMON.keys() - _OF_TOKENS
    names = {*common, *letters_of(claim.id), *noted, *chain.from_iterable(case.values for case in known)}
    return Printed.of(claim.formula, names, names_of(claim.id))


def printed_of(claim: Claim) -> Printed:
    """Return the relations of the claim's formula, with the letters that its margin notes."""
    return printed(claim, cases(claim), _noted(claim, cases(claim)))


def differences(claim: Claim) -> list[str]:
    """Return the differences of formula and computation; raise `Unreadable` where the formula cannot be read."""
    known = cases(claim)[: _FEW if "/dM_" in claim.formula else None]
    evaluated = list(_evaluated(claim, known))
    text = printed(claim, known, {name for q, _ in evaluated for name in q.noted})
    links: list[list[list[Pair]]] = [[] for _ in text.links]
    parts: dict[tuple[str, str], list[list[Pair]]] = {}
    conditions: list[list[Pair]] = [[] for _ in text.conditions]
    met = 0
    for met, (q, found) in enumerate(evaluated, 1):
        scope = Scope(q, letters_of(claim.id), text.definitions)
        for one, pairs in zip(text.conditions, conditions, strict=True):
            pairs += one.values(scope)
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
    for index, pairs in _at_edges(claim, text, known):
        conditions[index] += pairs
    judged = (
        _of_a_condition(one, pairs, claim.test_id in _NEVER_EQUAL)
        for one, pairs in zip(text.conditions, conditions, strict=True)
    )
    unlike = [f"condition {index}: {word}" for index, word in enumerate(judged) if word]
    unlike += _own_conditions(claim, evaluated, text)
    return [*_compared(text, links, parts), *unlike]


def _at_edges(claim: Claim, text: Printed, known: list[Case]) -> Iterator[tuple[int, list[Pair]]]:
    """Yield the conditions' sides at cases about the edges of hypotheses, where these hold; of steps there are none."""
    chosen = [(index, one) for index, one in enumerate(text.conditions) if not _of_a_step(one)]
    if not chosen or not claim.hypotheses or _notes(claim, text, known):
        return
    for case in chain.from_iterable(around(case) for case in known[:_FEW] if "M" in case):
        with np.errstate(all="ignore"):
            q = Quantities(case, FLOAT)
            if ("X" not in case or q.n > 1) and all(one.holds(q) for one in claim.hypotheses):
                scope = Scope(q, letters_of(claim.id), text.definitions)
                yield from ((index, one.values(scope)) for index, one in chosen if _of_the_case(one, scope))


def _own_conditions(claim: Claim, evaluated: list[tuple[Quantities, Any]], text: Printed) -> Iterator[str]:
    """Yield conditions of one relation with ``<=`` that are never met with equality, or always."""
    letters = letters_of(claim.id)
    for number, link in enumerate(text.links):
        for place, one in enumerate(link.own):
            equal = () if claim.test_id in _NEVER_EQUAL else (("<", "never met with equality"),)
            for other, word in (*equal, ("=", "an equation")) if one.relation == "<=" else ():
                changed = link._replace(own=(*link.own[:place], one._replace(relation=other), *link.own[place + 1 :]))
                scopes = [Scope(q, letters, text.definitions) for q, _ in evaluated]
                if all(len(link.values(scope)) == len(changed.values(scope)) for scope in scopes):
                    yield f"condition {place} of relation {number} is {word}"


def _of_the_case(link: Link, scope: Scope) -> bool:
    """Return True where a condition is one of the case, so that it can be read without what the margin notes."""
    try:
        link.values(scope)
    except (Unreadable, AttributeError, ArithmeticError, LookupError, ValueError):
        return False
    return not _of_a_step(link)


def _of_a_condition(link: Link, pairs: list[Pair], never_equal: bool = False) -> str:
    """Return the fault of a condition as the cases meet it: it fails, or is not as sharp as it is printed.

    ``<=`` is printed where some case meets it with equality and not all do, ``<`` where none does, and each bound is
    approached.
    """
    relation = _RELATIONS[link.relation]
    if not all(relation(a, b) or (link.relation != "<" and _close(a, b)) for a, b in pairs):
        return "fails"
    met = [abs(a - b) <= _ROUNDING * max(abs(a), abs(b)) for a, b in pairs]
    if link.relation != "=" and all(met) and link.large != _LEAST:
        return "is an equation in each case"
    if any(met) != (link.relation != "<") and not never_equal:
        return "is met with equality" if any(met) else "is never met with equality"
    sizes = [(a, b) for a, b in pairs if a and b]  # of a bound that is 0, the edges of hypotheses are compared instead
    near = any(min(a, b) > 0 and a >= _AS_LONG * b or max(a, b) < 0 and b <= a * _AS_LONG for a, b in sizes)
    return "" if near or not sizes else "is approached by no case"


def unlike_hypotheses(claim: Claim, text: Printed | None = None) -> list[str]:
    """Return cases, beyond the hypotheses too, on which the printed conditions and the hypotheses do not agree.

    That there are two tokens, the reading says. A hypothesis that the margin decides on the way is compared where it
    notes the letters of the condition.
    """
    known = cases(claim)
    if claim.id in _NEARLY_SINGULAR or isinstance(claim.supply, Fixed):
        return []
    text = printed(claim, known) if text is None else text
    several = "n >= 2" in text_of(claim) and claim.reading.name != "causal"
    asked = [one for one in claim.hypotheses if not one.limit and (several or one.name != "n >= 2")]
    if not claim.own and not (asked and text.conditions):
        return []
    if not asked and not text.conditions:
        return []
    found, noting = [], _notes(claim, text, known)
    for case in known[: _COSTLY if noting else None]:
        held = ((one, claim.id not in _MADE) for one in around(case))
        other_arrays = ((one, bool(asked)) for one in degenerate(case, text_of(claim)))
        for other, both in (
            held
            if not claim.own
            else chain(held, other_arrays, ((one, "; lam times" in one.origin) for one in resized(case)))
        ):
            with np.errstate(all="ignore"):
                q = Quantities(other, FLOAT)
                if "X" in case and q.n < 2 and not several:
                    continue
                met = (not noting or _says(claim, q)) and all(_certain(one, q) for one in asked)
                scope = Scope(q, letters_of(claim.id), text.definitions)
                given = [one for one in text.conditions if _of_the_case(one, scope)]
                exact, nearly = (all(_holds(one, scope, exactly) for one in given) for exactly in (True, False))
                if met not in (exact, nearly) if both else exact and not met:  # the check makes a step as long as it is
                    found.append(other.origin)
    return found


def _certain(hypothesis: Hypothesis, q: Quantities) -> bool:
    try:
        return bool(hypothesis.holds(q))
    except (LookupError, ValueError, ArithmeticError):
        return False


def text_of(claim: Claim) -> str:
    """Return the formula's conditions as they are printed."""
    return claim.formula.partition(" if ")[2]


def _notes(claim: Claim, text: Printed, known: list[Case]) -> bool:
    """Report whether the conditions have letters that the margin notes."""
    noted = set(chain.from_iterable(q.noted for q, _ in _evaluated(claim, known[:_FEW])))
    return bool(noted & set(chain.from_iterable(map(_letters, text.conditions))))


def _letters(link: Link) -> Iterator[str]:
    waiting = [link.small, link.large]
    while waiting:
        node = waiting.pop()
        waiting += node.parts
        if node.kind == "letter":
            yield node.text


def _says(claim: Claim, q: Quantities) -> bool:
    """Report whether the margin judges the case; what it notes stays with the quantities."""
    try:
        relations(claim.margin, q)
    except Unmet as skipped:
        return str(skipped) in {one.name for one in claim.hypotheses if one.limit}
    except (InvalidInstance, ArithmeticError, np.linalg.LinAlgError, Undecidable):
        pass  # computed outside of the hypotheses, where there may be nothing to compute
    return True


def _noted(claim: Claim, known: list[Case]) -> set[str]:
    return set(chain.from_iterable(q.noted for q, _ in _evaluated(claim, known)))


def holds_as_printed(condition: str, claim: Claim, q: Quantities, letters: Letters) -> bool:
    """Return True where a condition of the notation, ``beta > 0 and n >= 2``, is met at a case, exactly."""
    known = {**letters_of(claim.id), **letters}
    text = Printed.of(condition, {*COMMON, *known, *q.case.values}, [*names_of(claim.id), *letters])
    scope = Scope(q, known, text.definitions)
    return all(_holds(one, scope, exactly=True) for one in text.links)


def _evaluated(claim: Claim, known: list[Case]) -> Iterator[tuple[Quantities, Any]]:
    for case in known:
        with np.errstate(all="ignore"):
            q = Quantities(case, FLOAT)
            try:
                if all(hypothesis.holds(q) for hypothesis in claim.hypotheses):
                    yield q, relations(claim.margin, q)
            except Unmet:
                continue


def _pairs(relation: Any) -> Iterator[Pair]:
    small, large = (relation.rhs, relation.lhs) if relation.kind == ">=" else (relation.lhs, relation.rhs)
    both = np.broadcast_arrays(np.asarray(small, dtype=float), np.asarray(large, dtype=float))
    yield from zip(*(side.ravel().tolist() for side in both), strict=True)


def _holds(link: Link, scope: Scope, exactly: bool = False) -> bool:
    """Return True where a condition is met, up to rounding or exactly."""
    relation = _RELATIONS[link.relation]
    return all(relation(a, b) or (not exactly and link.relation != "<" and _close(a, b)) for a, b in link.values(scope))


def _of_a_step(link: Link) -> bool:
    """Return True where a condition bounds the step of a descent, which the check then takes as long."""
    return link.small.kind == "letter" and link.small.text == "eta"


def _close(a: float, b: float) -> bool:
    return _near(a, b, max(abs(a), abs(b), 1e-12))


def _compared(text: Printed, links: Sides, parts: dict[tuple[str, str], list[list[Pair]]]) -> Iterator[str]:
    unmatched = {*parts}
    for number, (one, values) in enumerate(zip(text.links, links, strict=True)):
        found = {key for key, pairs in parts.items() if key[1] == one.relation and _printed_as(one, values, pairs)}
        unequal = any(not _same((a, a), (a, b)) for pairs in values for a, b in pairs)
        alike = [key for key in parts if key[1] == one.relation and unequal and not one.own]
        several = {key for key in alike if _among(values, parts[key])}
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
    """Return True where a relation is always the same one of several that share a part."""
    sizes = {len(here) for here in pairs if here}
    return len(sizes) == 1 and any(_matches(values, _at(pairs, place)) for place in range(min(max(sizes), _SEVERAL)))


def _same_numbers(pairs: list[Pair]) -> bool:
    scale = max((max(abs(a), abs(b)) for a, b in pairs), default=0.0)
    return all(_near(a, b, scale + 1e-9) for a, b in pairs)


def _deviation(relation: str, side: list[list[Pair]]) -> bool:
    """Return True where the part bounds a deviation by its rounding, not a quantity by another."""
    return all(0 <= a and b < _ROUNDING if relation == "<=" else a == b == 0 for pairs in side for a, b in pairs)


def _printed_as(link: Link, values: list[list[Pair]], pairs: list[list[Pair]]) -> bool:
    """Return True where a relation is that of a part: where it is meant only there, and an equation up to its scale."""
    if link.own and any(len(one) != len(other) for one, other in zip(values, pairs, strict=True)):
        return False
    return _matches(values, pairs) or (link.relation == "=" and all(map(_equal_sides, values, pairs)))


def _equal_sides(printed: list[Pair], computed: list[Pair]) -> bool:
    """Return True where entries of both sides are equal but for what is nothing beside the largest."""
    if not computed or len(printed) != len(computed):
        return not computed
    scale = max(max(abs(a), abs(b)) for a, b in computed)
    return all(
        _near(x, y, scale)
        for one, other in zip(printed, computed, strict=True)
        for x, y in zip(one, other, strict=True)
    )


def _matches(printed: list[list[Pair]], computed: list[list[Pair]]) -> bool:
    pairs = [both for both in zip(printed, computed, strict=True) if both[1]]
    if not pairs or any(len(one) != len(other) for one, other in pairs):
        return False
    return any(all(form(a, b) for one, other in pairs for a, b in zip(one, other, strict=True)) for form in FORMS)
