"""Values of expressions of Coq: definitions and right sides of Trusted.v, read from its text at the numbers of a test.

Real and natural arithmetic, ``fun``, ``let``, application, ``rsum`` over indices; numbers are of any type that adds.
Differences of two integers end at 0, as those of natural numbers do.
"""

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from operator import add, mul
from pathlib import Path
from typing import Any

TRUSTED = Path(__file__).parents[2] / "proofs_check" / "coq" / "Trusted.v"
Value = Callable[[Mapping[str, Any]], Any]
_TOKEN = re.compile(r"%:R|%\w+|:=|=>|\d+|[A-Za-z_][\w']*|\S")


def _by_name(name: str, real: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda x: getattr(x, name)() if hasattr(x, name) else real(x)


BASE = {
    "rsum": lambda n: lambda f: sum((f(j) for j in range(1, n)), f(0)),
    "Rabs": abs,
    "INR": float,
    "S": lambda k: k + 1,
    "exp": _by_name("exp", math.exp),
    "ln": _by_name("log", math.log),
    "sqrt": _by_name("sqrt", math.sqrt),
}


class _Reader:
    """One expression; each method reads what binds no looser than its name says."""

    def __init__(self, text: str) -> None:
        self.left = _TOKEN.findall(text)

    def take(self, *wanted: str) -> str:
        if not self.left or (wanted and self.left[0] not in wanted):
            raise ValueError(f"{wanted} where {' '.join(self.left[:8])!r} stands")
        return self.left.pop(0)

    def at(self, *tokens: str) -> bool:
        return self.left[:1] != [] and self.left[0] in tokens

    def names(self, end: str) -> list[str]:
        """Read names up to `end`: ``(x y : R) z``."""
        found = []
        while not self.at(end):
            token = self.take()
            if token == ":":
                while not self.at(")", end):
                    self.take()
            elif token not in "()":
                found.append(token)
        self.take(end)
        return found

    def whole(self) -> Value:
        if self.at("let"):
            self.take()
            name, *arguments = self.names(":=")
            bound = _function(arguments, self.whole())
            self.take("in")
            inside = self.whole()
            return lambda at: inside({**at, name: bound(at)})
        if self.at("fun"):
            self.take()
            arguments = self.names("=>")
            return _function(arguments, self.whole())
        return self.sum()

    def sum(self) -> Value:
        found = self.product()
        while self.at("+", "-"):
            found = _both(add if self.take() == "+" else _minus, found, self.product())
        return found

    def product(self) -> Value:
        found = self.opposite()
        while self.at("*", "/"):
            found = _both(mul if self.take() == "*" else _over, found, self.opposite())
        return found

    def opposite(self) -> Value:
        if self.at("/", "-"):
            sign, inside = self.take(), self.opposite()
            return _both(_over, lambda at: 1, inside) if sign == "/" else lambda at: -inside(at)
        return self.power()

    def power(self) -> Value:
        base = self.applied()
        if not self.at("^"):
            return base
        self.take()
        exponent = self.power()
        return lambda at: base(at) ** exponent(at)

    def applied(self) -> Value:
        found = self.atom()
        while self.left and re.match(r"[\w(]", self.left[0]) and not self.at("in"):
            found = _apply(found, self.atom())
        return found

    def atom(self) -> Value:
        token = self.take()
        if token == "(":
            found = self.whole()
            self.take(")")
        elif token.isdigit():
            found = lambda at: int(token)  # noqa: E731
        else:
            found = lambda at: at[token] if token in at else definition(token)(at)  # noqa: E731
        while self.left and self.left[0].startswith("%"):
            self.take()
        return found


def _function(arguments: list[str], body: Value) -> Value:
    for name in reversed(arguments):
        body = _argument(name, body)
    return body


def _argument(name: str, body: Value) -> Value:
    return lambda at: lambda value: body({**at, name: value})


def _apply(function: Value, argument: Value) -> Value:
    return lambda at: function(at)(argument(at))


def _both(operation: Callable[[Any, Any], Any], a: Value, b: Value) -> Value:
    return lambda at: operation(a(at), b(at))


def _minus(x: Any, y: Any) -> Any:
    return max(0, x - y) if type(x) is type(y) is int else x - y


def _over(x: Any, y: Any) -> Any:
    return Fraction(x, y) if type(x) is type(y) is int else x / y


@cache
def read(text: str) -> Value:
    """Return the function of the letters' values that an expression is."""
    reader = _Reader(text)
    found = reader.whole()
    if reader.left:
        raise ValueError(f"{' '.join(reader.left)!r} is left of {text!r}")
    return found


@cache
def _source() -> str:
    return re.sub(r"\(\*.*?\*\)", "", TRUSTED.read_text("utf-8"), flags=re.DOTALL)


@cache
def definition(name: str) -> Value:
    """Return a definition of Trusted.v: that of Rounding, where several modules have the name."""
    found = re.findall(rf"^Definition {re.escape(name)}\b(.*?)\.$", _source(), flags=re.MULTILINE | re.DOTALL)
    if not found:
        raise KeyError(f"{name} is neither a letter nor a definition of Trusted.v")
    reader = _Reader(found[-1])
    arguments = reader.names(":=")
    value = _function(arguments, reader.whole())
    return lambda at: value(BASE)


def value(text: str, letters: Mapping[str, Any]) -> Any:
    """Return the value of an expression of Coq at these letters."""
    return read(text)({**BASE, **letters})


def right_side(proposition: str, letters: Mapping[str, Any]) -> Any:
    """Return the right side of the inequality that a proposition ends in, with what its ``let`` say.

    Examples
    --------
    >>> float(right_side("forall u x, 0 <= u -> let K := 2 * u in Rabs x <= K / 4", {"u": 3}))
    1.5
    """
    depth, start, lets = 0, 0, []
    for found in re.finditer(r"[()]|->|\blet\b|\bin\b|<=|,", proposition):
        token = found.group()
        depth += (token == "(") - (token == ")")
        if depth == 0 and token not in "()":
            if token == "in":
                lets.append(proposition[start : found.start()])
            start = found.end()
    text = proposition[start:]
    for each in reversed(lets):
        text = f"let {each} in {text}"
    return value(text, letters)
