"""The notation of printed formulas as a tree, which is evaluated, written in LaTeX, or compared with what is computed.

A space is a product, ``o`` the product entry by entry, ``^T`` a transpose, ``||A||_F`` a norm, ``<a, b>`` an inner
product, ``sum_i`` a sum over an index, ``x_i`` an entry. A text holds relations, definitions and conditions::

    ||p||_F <= 3 sqrt(n)             if lam > 0             with mu = 2 (min|W| beta delta)^2

A condition after ``if`` is one of all relations, one after ``wherever`` of the relation before it alone::

    f(M)_ij = 0 wherever (M_c)_ij = 0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

RELATIONS = ("<=", ">=", "=", "<", ">")
FUNCTIONS = ("sqrt", "exp", "log", "W0", "diag", "tr", "rank", "floor", "ceil", "det", "lambda_min", "lambda_max")
SEVERAL = ("min", "max")
REDUCTIONS = ("sum", "prod", "min", "max")
_CONDITIONS = ("if", "for", "when", "with", "where", "at", "over")
_OWN = "wherever"
_BETWEEN = (",", ";", "and", "implies", "that is", "so that", _OWN, *_CONDITIONS)
_TOKEN = re.compile(
    r"\s*(?:(?P<word>that is|so that)(?![\w'])"
    r"|(?P<function>(?:" + "|".join(FUNCTIONS) + r")(?![\w']))"
    r"|(?P<letter>(?:max|min)\|\|?\w+\|?\||(?:grad|Hess|Pi|vec) (?:[A-Z]\w*(?:\([^()]*\))?|f\(w\))|C_[+-]|kappa_[+T]"
    r"|[a-zA-Z]\w*'*~?(?:\([A-Z]'?\)|(?<=[fg])\([a-z]\))?(?:_\w+)?)"
    r"|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<sign>\|\|(?:_F|_2)?|<=|>=|\^T|_[a-z]+|[-+/^(){}\[\]<>=,;|]))"
)


class Unreadable(ValueError):
    """A text that is no formula of the notation; the message has the place."""


class Node(NamedTuple):
    """One operation and what it is applied to; a leaf has its text."""

    kind: str
    parts: tuple[Node, ...] = ()
    text: str = ""


class Clause(NamedTuple):
    """A chain of relations, ``left <= middle <= right``, whether it is a condition of the others, and its own ones."""

    sides: tuple[Node, ...]
    relations: tuple[str, ...]
    condition: bool
    own: tuple[Clause, ...] = ()


def clauses(text: str, letters: Iterable[str] = ()) -> list[Clause]:
    """Return the clauses of a text; `letters` are names that are longer than one word.

    Examples
    --------
    >>> [clause.relations for clause in clauses("0 <= a <= 1 implies ||M||_F <= d; ||M_c||_F <= n")]
    [('<=', '<='), ('<=',), ('<=',)]
    """
    return _Reader(text, letters).clauses()


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, text: str, letters: Iterable[str]) -> None:
        self.text, self.given = text, {*letters}
        self.tokens = list(_tokens(text, self.given))
        self.place = 0
        self.fences: list[str] = []
        """What is open: a norm, an absolute value, an inner product, or a bracket."""

    @property
    def next(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    @property
    def kind(self) -> str:
        return self.tokens[self.place][0] if self.place < len(self.tokens) else "end"

    def take(self, wanted: str = "") -> str:
        found = self.next
        if not found or (wanted and found != wanted):
            raise Unreadable(f"{wanted or 'more'} is expected before {self.rest!r} in {self.text!r}")
        self.place += 1
        return found

    @property
    def rest(self) -> str:
        return " ".join(token for _, token in self.tokens[self.place :])

    def clauses(self) -> list[Clause]:
        found: list[Clause] = []
        condition = False
        while self.next:
            found.append(self.clause(condition))
            if self.next == _OWN:
                found[-1] = found[-1]._replace(own=tuple(self.own()))
            before = self.next
            while self.next in _BETWEEN:
                word = self.take()
                if word == "implies":
                    found = [clause._replace(condition=True) for clause in found]
                condition = word in _CONDITIONS or (condition and word in (",", "and"))
            if self.next and not before:
                raise Unreadable(f"{self.rest!r} in {self.text!r}")
        return found

    def own(self) -> Iterator[Clause]:
        """Yield the conditions of one relation alone: ``wherever n > d and lam > 0``."""
        while self.next in (_OWN, "and"):
            self.place += 1
            yield self.clause(True)

    def clause(self, condition: bool) -> Clause:
        sides, relations = [self.sum()], []
        while self.next in RELATIONS and self.kind != "open":
            relations.append(self.take())
            sides.append(self.sum())
        if self.next == "for" and self.rest.startswith(("for all", "for every", "for some")):
            while self.next and self.next not in (",", ";"):  # that is what a relation means
                self.place += 1
        if self.next and self.next not in _BETWEEN:
            raise Unreadable(f"{self.rest!r} in {self.text!r}")
        if not relations:
            raise Unreadable(f"no relation before {self.rest!r} in {self.text!r}")
        return Clause(tuple(sides), tuple(relations), condition)

    def sum(self) -> Node:
        found = self.hadamard()
        while self.next in ("+", "-"):
            sign = self.take()
            found = Node("add" if sign == "+" else "subtract", (found, self.hadamard()))
        return found

    def hadamard(self) -> Node:
        found = self.product()
        while self.next == "o" and self.kind == "letter":
            self.take()
            found = Node("hadamard", (found, self.product()))
        return found

    def product(self) -> Node:
        if self.next in ("-", "+"):
            return Node("minus", (self.product(),)) if self.take() == "-" else self.product()
        found = self.power()
        while True:
            if self.next == "/":
                self.take()
                found = Node("divide", (found, self.power()))
            elif self._starts():
                found = Node("times", (found, self.power()))
            else:
                return found

    def _starts(self) -> bool:
        """Return True where a factor follows."""
        token, kind = self.next, self.kind
        if kind in ("letter", "number"):
            return token != "o" and token not in _BETWEEN
        if token.startswith("||"):
            return not token.endswith(("_F", "_2")) and "norm" not in self.fences[-1:]
        return token in ("(", "[") or kind == "open" or (token == "|" and "absolute" not in self.fences[-1:])

    def power(self) -> Node:
        found = self.factor()
        while self.next in ("^", "^T") or self.next.startswith("_"):
            sign = self.take()
            if sign == "^T":
                found = Node("transpose", (found,))
            elif sign != "^":
                found = Node("entry", (found,), sign.removeprefix("_"))
            else:
                found = Node("power", (found, self.exponent()))
        return found

    def exponent(self) -> Node:
        if self.next == "{":
            return self.inside("{", "}")
        if self.next == "-":
            self.take()
            return Node("minus", (self.factor(),))
        return self.factor()

    def inside(self, left: str, right: str) -> Node:
        self.take(left)
        self.fences.append(left)
        found = self.sum()
        self.fences.pop()
        self.take(right)
        return found

    def factor(self) -> Node:
        token, kind = self.next, self.kind
        if token == "(":
            return self.inside("(", ")")
        if token == "[":
            return self.inside("[", "]")
        if token == "||":
            return self.norm()
        if token == "|":
            self.fences.append("absolute")
            self.take()
            found = self.sum()
            self.fences.pop()
            self.take("|")
            return Node("absolute", (found,))
        if kind == "open":  # relations stand between spaces
            return self.inner()
        if kind == "number":
            return Node("number", text=self.take())
        if kind == "letter" and token not in _BETWEEN:
            return self.letter()
        raise Unreadable(f"no formula starts at {self.rest!r} in {self.text!r}")

    def norm(self) -> Node:
        self.fences.append("norm")
        self.take()
        found = self.sum()
        self.fences.pop()
        closing = self.take()
        if not closing.startswith("||"):
            raise Unreadable(f"a norm is not closed before {self.rest!r} in {self.text!r}")
        return Node("norm", (found,), closing.removeprefix("||"))

    def inner(self) -> Node:
        self.fences.append("inner")
        self.take("<")
        left = self.sum()
        self.take(",")
        right = self.sum()
        self.fences.pop()
        self.take(">")
        return Node("inner", (left, right))

    def letter(self) -> Node:
        name = self.take()
        if name in FUNCTIONS:
            return Node("function", (self.power() if self.next != "(" else self.inside("(", ")"),), name)
        if name in SEVERAL and self.next == "(":
            self.take("(")
            self.fences.append("(")
            parts = [self.sum()]
            while self.next == ",":
                self.take()
                parts.append(self.sum())
            self.fences.pop()
            self.take(")")
            return Node(name, tuple(parts))
        word, _, index = name.partition("_")
        if word in REDUCTIONS and index and name not in self.given and name.rpartition("_")[0] not in self.given:
            return Node("over", (self.product(),), name)
        return Node("letter", text=name)


def _tokens(text: str, letters: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, token); the given letters first, the longest first."""
    names = sorted(letters, key=len, reverse=True)
    known = re.compile(r"\s*((?:" + "|".join(map(re.escape, names)) + r")(?:_[a-z]+)?)(?![\w'])") if names else None
    place = 0
    while text[place:].strip():
        if known and (match := known.match(text, place)):
            yield "letter", match.group(1)
        elif match := _TOKEN.match(text, place):
            kind = str(match.lastgroup)
            after = text[match.end() : match.end() + 1]
            opens = match.group(kind) == "<" and after.strip()
            yield ("open" if opens else "letter" if kind == "function" else kind), match.group(kind)
        else:
            raise Unreadable(f"{text[place:]!r} in {text!r}")
        place = match.end()
