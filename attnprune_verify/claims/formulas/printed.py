"""Formulas as they are printed, read back: what a statement prints must be what is evaluated.

The notation is that of the statements: ``lam + 30 d n^{7/2} R^6``, ``4 lam sum_i W0((m_i - 1)/e)/mu``. A product is a
space or nothing, ``^{3/2}`` a power; every symbol is known from the formula's own arguments and from its folder.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attnprune_verify.claims.core import Claim
from attnprune_verify.theory import pair
from attnprune_verify.theory.formulas import conditions, momentum, newton, paper, rates, sharp
from attnprune_verify.theory.formulas.formula import FORMULAS, Formula
from attnprune_verify.theory.numbers.arithmetic import FLOAT

_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "W0": FLOAT.lambertw,
}
_NUMBERS = {"C_+": (39 + 55 * math.sqrt(33)) / 1152, "C_-": (55 * math.sqrt(33) - 39) / 1152, "e": math.e}
_CLOSE = 1e-12  # chosen: a thousand roundings; different formulas differ by more at some point
_POINTS, _MANY = 6, 60  # chosen: points where all functions are defined, and points where only some are
_CORNERS = (-1.0, 0.0, 0.25, 0.5, 1.0, 1.005, 2.0)  # both ends, both signs and both sides of the thresholds 1/2 and 1
_FOLDER = (paper, sharp, rates, newton, momentum, pair, conditions)  # importing them registers their formulas


def formulas_of(claim_id: str) -> list[Formula]:
    """The formulas that the statement with this id prints."""
    return [entry for entry in FORMULAS.values() if claim_id in entry.claims]


def misprinted(claim: Claim) -> str:
    """The reasons why the claim's text differs from what the library computes or assumes; empty if it agrees."""
    asked = {entry.path for entry in formulas_of(claim.id) if entry.module == conditions.__name__}
    assumed = {hypothesis.condition for hypothesis in claim.hypotheses if hypothesis.condition}
    if asked and asked != assumed:
        return f"{claim.id} assumes {sorted(assumed)}, the library {sorted(asked)}"
    return next(filter(None, (misprint(entry, claim.formula) for entry in formulas_of(claim.id))), "")


def misprint(entry: Formula, text: str) -> str:
    """The reasons why `text` differs from what the formula computes; empty if it agrees.

    Examples
    --------
    >>> misprint(FORMULAS["sharp.mu"], "... with mu = 2 (min|W| beta delta)^2")
    ''
    >>> misprint(FORMULAS["sharp.mu"], "... with mu = 2 min|W| beta delta")
    'sharp.mu is printed nowhere as 2 (min|W| beta delta)^2'
    """
    if "".join(entry.printed.split()) not in "".join(text.split()):
        return f"{entry.path} is printed nowhere as {entry.printed}"
    symbols = list(entry.symbols.values())
    try:
        printed = read(entry.printed, symbols)
        for values in _points(entry):
            at = dict(zip(symbols, values, strict=True))
            left, right = _value(partial(entry.function, *values, arithmetic=FLOAT)), _value(partial(printed, at))
            if not (
                left == right or (type(left) is type(right) is float and math.isclose(left, right, rel_tol=_CLOSE))
            ):
                where = ", ".join(f"{name} = {value:.6g}" for name, value in at.items())
                return f"{entry.path} is {left!r}, but {entry.printed} is {right!r} at {where}"
    except Exception as error:  # a formula that breaks is no formula
        return f"{entry.path} cannot be compared with {entry.printed}: {type(error).__name__}: {error}"
    return ""


def _value(compute: Callable[[], Any]) -> Any:
    """Return the computed value: a truth value, a float, or the name of a division by 0."""
    try:
        found = compute()
    except ZeroDivisionError as error:
        return type(error).__name__
    return found if isinstance(found, bool) else float(found)


def _points(entry: Formula) -> list[list[float]]:
    """Generic positive numbers; for a condition every choice among numbers on both sides of, and at, 0 and 1."""
    arguments = len(entry.symbols)
    rng = np.random.default_rng(arguments)
    points = [rng.uniform(0.2, 0.95, arguments).tolist() for _ in range(_POINTS)]
    if isinstance(entry.function(*points[0], arithmetic=FLOAT), bool):
        points += rng.uniform(-0.5, 1.5, (_MANY, arguments)).tolist()
        points += [list(corner) for corner in product(_CORNERS, repeat=arguments)]
    return points


def read(text: str, symbols: list[str]) -> Callable[[Mapping[str, float]], Any]:
    """The function of the symbols' values that `text` prints, in float64.

    Examples
    --------
    >>> read("2 d n^{3/2} R^3", ["n", "d", "R"])({"n": 4.0, "d": 1.0, "R": 2.0})
    128.0
    """
    known = {**_NUMBERS, **dict.fromkeys(symbols, 0.0)}
    names = {symbol: f"x{i}_" for i, symbol in enumerate(sorted(known, key=len, reverse=True))}
    pattern = "|".join([*(re.escape(symbol) for symbol in names), *_FUNCTIONS, r"\d+(?:\.\d+)?", r"\S"])
    code = compile(_python([names.get(token, token) for token in re.findall(pattern, text)]), text, "eval")

    def evaluate(values: Mapping[str, float]) -> Any:
        scope = {name: values.get(symbol, known[symbol]) for symbol, name in names.items()}
        return eval(code, {"__builtins__": {}, **_FUNCTIONS}, scope)  # noqa: S307  # our own text

    return evaluate


def _python(tokens: list[str]) -> str:
    """Python for the tokens: ``^`` is a power, braces are parentheses, neighbours are multiplied."""
    swapped = {"^": "**", "{": "(", "}": ")"}
    code, before = "", ""
    for token in tokens:
        token = swapped.get(token, token)
        operand = token[0].isalnum() or token == "("
        if operand and before and (before[-1].isalnum() or before[-1] in "_)") and before not in _FUNCTIONS:
            code += "*"
        code += token
        before = token
    return code
