"""Printed formulas evaluated on a case, and compared with the two sides that the claim computes there."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.formulas.letters import COMMON, Letters
from attnprune_verify.claims.formulas.notation import Clause, Node, Unreadable, clauses
from attnprune_verify.theory.numbers.arithmetic import FLOAT


class Scope:
    """The letters at one case: definitions of the text, letters of the claim, the case's values, the problem's own."""

    def __init__(self, q: Quantities, letters: Letters, definitions: Mapping[str, Node]) -> None:
        self.q, self.letters, self.definitions = q, letters, definitions
        self.indices: dict[str, int] = {}
        self.computed: dict[str, Any] = {}
        self.features: frozenset[str] = frozenset()
        """Indices of entries of M and W, which run over features."""

    @property
    def bare_norm(self) -> str:
        """The norm that is meant by one without a letter."""
        return str(self.letters["||"](self.q)) if "||" in self.letters else "_F"

    def named(self, name: str) -> Any:
        """Return the value of the letter; an array has two dimensions, a vector is a column."""
        if name in self.indices:
            return float(self.indices[name])
        base, _, index = name.rpartition("_")
        if (array := self.stands_for(name)) is not None:
            return self.entry(array, _index(name)) if np.ndim(array) > 2 else _shaped(array)
        if base and set(index) <= self.indices.keys() and (array := self.stands_for(base)) is not None:
            return self.entry(array, index)
        raise Unreadable(f"the letter {name} stands for nothing here")

    def stands_for(self, name: str) -> Any:
        """Return the array or the number of a letter, None where it has none."""
        if name in self.definitions:
            return value(self.definitions[name], self)
        if name in self.computed:
            return self.computed[name]
        if name in self.letters:
            return self.computed.setdefault(name, self.letters[name](self.q))
        if name in self.q.noted:
            return self.q.noted[name]
        if name in self.q.case and not isinstance(self.q.case[name], str):
            return self.q.case[name]
        return self.computed.setdefault(name, COMMON[name](self.q)) if name in COMMON else None

    def entry(self, array: Any, index: str) -> Any:
        """Return the entry or, of a matrix with one index, the row as a column."""
        array = np.asarray(array, dtype=float)
        if not array.ndim:
            return float(array)
        if array.ndim == 2 and array.shape[1] == 1 and len(index) == 1:
            array = array[:, 0]
        return _shaped(array[tuple(self.indices[letter] for letter in index)])

    def range(self, letter: str) -> Iterable[int]:
        """Return the range of an index: i over tokens, j and k over those that it sees, a and b over features."""
        if letter in self.features:
            return range(len(self.q.M))
        if f"range {letter}" in self.letters:
            return [int(place) for place in self.letters[f"range {letter}"](self.q)]
        if letter in "ab":
            return range(self.q.d)
        if letter in "jk" and "i" in self.indices:
            return [int(place) for place in np.flatnonzero(self.q.allowed[self.indices["i"]])]
        return range(self.q.n)


def _shaped(found: Any) -> Any:
    array = np.asarray(found, dtype=float)
    if array.ndim == 0 or array.shape == (1, 1):
        return float(array.reshape(()))
    return array[:, None] if array.ndim == 1 else array


def value(node: Node, scope: Scope) -> Any:
    """Return the number or the array that a tree stands for, in float64."""
    if node.kind == "number":
        return float(node.text)
    if node.kind == "letter":
        return scope.named(node.text)
    if node.kind == "over":
        return _over(node, scope)
    if node.kind == "times" and node.parts[1] == Node("number", text="1"):
        left = value(node.parts[0], scope)
        return left if isinstance(left, float) or left.shape[1] == 1 else _shaped(left.sum(axis=1))
    if node.kind == "entry":
        return scope.entry(value(node.parts[0], scope), node.text)
    if node.kind == "norm" and node.parts[0] == Node("number", text="1"):
        return math.sqrt(scope.q.n)
    if node.kind == "norm":
        return _norm(value(node.parts[0], scope), node.text or scope.bare_norm)
    parts = [value(part, scope) for part in node.parts]
    if node.kind == "function":
        return _shaped(_FUNCTIONS[node.text](parts[0]))
    return _shaped(_OPERATIONS[node.kind](*parts))


def _over(node: Node, scope: Scope) -> Any:
    """A sum, product, minimum or maximum over indices."""
    name, _, index = node.text.partition("_")
    found = [value(node.parts[0], scope) for _ in _places(scope, index)]
    return sum(found) if name == "sum" else _shaped(_OPERATIONS[name](*found))


def _times(a: Any, b: Any) -> Any:
    """A product; of two columns, such as one number for each t, entry by entry."""
    if isinstance(a, float) or isinstance(b, float) or a.shape == b.shape == (len(a), 1):
        return a * b
    return a @ b


def _power(base: Any, exponent: float) -> Any:
    if isinstance(base, float) or base.shape[1] == 1:
        return base**exponent
    return np.linalg.matrix_power(base, int(exponent))


def _norm(array: Any, suffix: str) -> float:
    if isinstance(array, float):
        return abs(array)
    return float(np.linalg.norm(array, 2 if suffix == "_2" and min(array.shape) > 1 else None))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "minus": lambda a: -a,
    "times": _times,
    "divide": lambda a, b: a / b,
    "hadamard": lambda a, b: a * b,
    "power": _power,
    "prod": lambda *several: reduce(_times, several),
    "transpose": lambda a: a if isinstance(a, float) else a.T,
    "absolute": lambda a: np.abs(a),
    "inner": lambda a, b: float(np.sum(a * b)),
    "min": lambda *several: min(several),
    "max": lambda *several: max(several),
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "exp": np.exp,
    "log": math.log,
    "W0": FLOAT.lambertw,
    "diag": lambda a: a if isinstance(a, float) else np.diag(a[:, 0]),
    "tr": lambda a: a if isinstance(a, float) else np.trace(a),
    "rank": lambda a: float(np.linalg.matrix_rank(a)),
    "floor": math.floor,
    "ceil": math.ceil,
    "det": np.linalg.det,
    "lambda_min": lambda a: a if isinstance(a, float) else np.linalg.eigvalsh((a + a.T) / 2)[0],
    "lambda_max": lambda a: a if isinstance(a, float) else np.linalg.eigvalsh((a + a.T) / 2)[-1],
}


class Link(NamedTuple):
    """One printed relation: ``small <= large``, ``small < large`` or ``small = large``, and where it is meant."""

    small: Node
    large: Node
    relation: str
    own: tuple[Link, ...] = ()

    def values(self, scope: Scope) -> list[tuple[float, float]]:
        """Return both sides at a case; one pair for each value of an index that nothing binds, or entry of an array."""
        nodes = [side for link in (self, *self.own) for side in (link.small, link.large)]
        free = sorted({letter for node in nodes for letter in _free(node, frozenset())})
        found = []
        scope.features = frozenset(letter for node in nodes for letter in _features(node))
        for _ in _places(scope, free):
            if not all(one.holds(scope) for one in self.own):
                continue
            both = np.broadcast_arrays(value(self.small, scope), value(self.large, scope))
            found += list(zip(*(side.ravel().tolist() for side in both), strict=True))
        return found

    def holds(self, scope: Scope) -> bool:
        """Return True where the relation holds exactly, at the places that the indices are set to."""
        both = np.broadcast_arrays(value(self.small, scope), value(self.large, scope))
        return bool(np.all(_RELATIONS[self.relation](*both)))


_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, "<=": operator.le, "=": operator.eq}


def _places(scope: Scope, letters: Sequence[str]) -> Iterator[None]:
    """Set the indices to each of their places in turn; a later one may depend on those before it."""
    if not letters:
        yield
        return
    before = scope.indices
    for place in scope.range(letters[0]):
        scope.indices = {**before, letters[0]: place}
        yield from _places(scope, letters[1:])
    scope.indices = before


def _free(node: Node, bound: frozenset[str]) -> Iterator[str]:
    """Yield the indices of letters that no sum, minimum or maximum binds."""
    if node.kind == "over":
        bound = bound | set(node.text.partition("_")[2])
    index = _index(node.text)
    if node.kind == "letter" and index and _indexed(node.text) and set(index) <= set("ijkab"):
        yield from set(index) - bound
    if node.kind == "entry":
        yield from set(node.text) - bound
    for part in node.parts:
        yield from _free(part, bound)


def _index(name: str) -> str:
    """Return the index of a letter; of a derivative, ``df_ij/dM_ab``, both."""
    if "/dM_" not in name:
        return name.rpartition("_")[2] if "_" in name else ""
    while (bare := re.sub(r"\([^()]*\)", "", name)) != name:
        name = bare
    return "".join(re.findall(r"_([ijkab]+)(?![a-z])", name))


def _indexed(name: str) -> bool:
    return "/dM_" in name or (name not in COMMON and " " not in name)


def _features(node: Node) -> Iterator[str]:
    base, _, index = node.text.partition("_")
    if node.kind == "letter" and base in ("M", "W") and set(index) <= {"i", "j"}:
        yield from index
    for part in node.parts:
        yield from _features(part)


class Printed(NamedTuple):
    """A formula's relations, what it defines, and its conditions."""

    links: tuple[Link, ...]
    definitions: Mapping[str, Node]
    conditions: tuple[Link, ...]

    @classmethod
    def of(cls, text: str, known: Iterable[str], more: Iterable[str] = ()) -> Printed:
        """Read a formula's text; `known` are the letters that it does not define."""
        links: list[Link] = []
        conditions: list[Link] = []
        definitions: dict[str, Node] = {}
        known = {*known}
        for clause in clauses(text, more):
            first = clause.sides[0]
            new = first.kind == "letter" and not known & {first.text, first.text.rpartition("_")[0]}
            if clause.relations == ("=",) and new:
                definitions[first.text] = clause.sides[1]
            else:
                (conditions if clause.condition else links).extend(_links(clause))
        return cls(tuple(links), definitions, tuple(conditions))


def _links(clause: Clause) -> Iterator[Link]:
    for relation, (left, right) in zip(clause.relations, pairwise(clause.sides), strict=True):
        small, large = (right, left) if relation in (">=", ">") else (left, right)
        kind = relation.replace(">", "<")
        one_of = [(small, large)] if relation == "=" else product(_each(small, "max"), _each(large, "min"))
        for a, b in one_of:
            yield Link(a, b, kind, tuple(link for one in clause.own for link in _links(one)))


def _each(node: Node, kind: str) -> Iterator[Node]:
    """Yield the sides of which one stands for all: below a minimum is below each, with positive factors too."""
    if node.kind == kind:
        yield from node.parts
    elif node.kind == "times":
        yield from (Node("times", both) for both in product(*(_each(part, kind) for part in node.parts)))
    else:
        yield node
