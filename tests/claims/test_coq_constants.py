"""The constant of a formal sentence is the constant that its claim prints, which is compared with what is computed."""

import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from attnprune_verify.claims.evidence import index
from attnprune_verify.claims.formulas.printed import read
from attnprune_verify.claims.registry import claims
from tests.claims.coq_expressions import value


class Constant(NamedTuple):
    """A constant of a theorem and of the claim that it proves, marked by ``[[...]]`` in what stands around it."""

    claim: str
    theorem: str
    coq: str
    printed: str
    power: int = 1
    """2 where the theorem speaks of squares."""


TABLE = tomllib.loads((Path(__file__).parent / "coq_constants.toml").read_text("utf-8"))
CONSTANTS = [Constant(*row) for row in TABLE["constants"]]
WITHOUT: dict[str, str] = TABLE["without"]
FORMULAS = {claim.id: claim.formula for claim in reversed(claims())}
PRINTED = {
    "n": "n", "d": "d", "R0": "R", "r": "r", "norm": "||B||", "K": "K", "lam": "lam", "wmax": "max|W|", "T": "T",
    "eta": "eta", "theta": "theta", "Lip": "L", "alpha": "alpha", "b": "beta", "n_e": "n_e", "x": "x", "fmin": "f_min",
    "u": "u", "w": "w", "rho": "rho",
}  # fmt: skip
"""Letters of the theorems, and how claims print them."""
_SET = (5.0, 3.0, 1.3, 1.3, 1.3, 2.3, 0.6, 1.9, 11.0, 0.07, 0.4, 2.9, 0.35, 0.8, 4.0, 1.1, 0.7, 0.12, 0.23, 0.31)
VALUES = [dict(zip(PRINTED, _SET, strict=True)), {name: one**1.3 for name, one in zip(PRINTED, _SET, strict=True)}]
"""Chosen: no number is a root, a square or a multiple of another, but for R, r and ||B||, which are one bound."""
_NUMBER = re.compile(r"(?<![\w'^+])(?<!\^ )(?<!\^\+ )[2-9]\d*|sqrt|C_plus|C_minus|(?<![/\\])/ (?!\[)|/$")


def proposition(claim: str, theorem: str) -> str:
    """Return the sentence of a theorem, with the number of rows that have a choice by its letter."""
    (text,) = {row["type"] for row in index()[claim]["formal"] if row["theorem"] == theorem}
    return " ".join(text.replace("choices n Mc", "n_e").split())


def expression(text: str, marked: str) -> str:
    """Return what is marked; the text has it in its place, marks left out."""
    plain = marked.replace("[[", "").replace("]]", "")
    assert "".join(plain.split()) in "".join(text.split()), f"{plain!r} does not stand in {text!r}"
    return marked.partition("[[")[2].partition("]]")[0]


def in_coq(text: str, values: dict[str, float], sentence: str) -> float:
    """Return the value of an expression of Coq, with the definitions of Trusted.v."""
    scope = dict(values)
    if "let r := sqrt (INR n) in" in sentence:
        scope["r"] = math.sqrt(values["n"])
    if "let h := 2 - eta * (lam + C * (K * K)) in" in sentence:  # L is the bracket
        scope["h"] = 2 - values["eta"] * values["Lip"]
    return float(value(text, scope))


def as_printed(text: str, values: dict[str, float]) -> float:
    """Return the value of an expression of a formula."""
    known = {printed: values[name] for name, printed in PRINTED.items()}
    return float(read(re.sub(r"^\s*/", "1/", text), list(known))(known))


def unlike(one: Constant, sentence: str, formula: str) -> list[str]:
    """Return the places in which the two constants differ."""
    coq = expression(sentence, one.coq)
    printed = expression(re.sub(r"sqrt (\d)", r"sqrt(\1)", formula), one.printed)
    pairs = [(in_coq(coq, at, sentence), as_printed(printed, at) ** one.power) for at in VALUES]
    return [f"{coq} is {a!r}, {printed} is {b!r}" for a, b in pairs if not math.isclose(a, b, rel_tol=1e-12)]


@pytest.mark.parametrize("one", CONSTANTS, ids=lambda one: f"{one.claim}-{one.theorem}")
def test_a_theorem_has_the_constant_that_its_claim_prints(one: Constant) -> None:
    assert unlike(one, proposition(one.claim, one.theorem), FORMULAS[one.claim]) == []


def numbered() -> Iterator[str]:
    """Yield the claims that a theorem with a number supports as what holds."""
    for claim, entry in index().items():
        for row in entry.get("formal", ()):
            sentence = re.sub(r"\(\d+ <=? \w+\)%nat", "", row["type"])
            if row["part"] != "step" and row["supports"] == "holds" and "is_derive" not in sentence:
                if _NUMBER.search(sentence):
                    yield claim


def test_every_claim_with_a_formal_number_is_compared_or_has_a_reason() -> None:
    compared = {one.claim for one in CONSTANTS}
    assert not compared & WITHOUT.keys()
    assert sorted({*numbered()} - compared - WITHOUT.keys()) == []
    assert sorted(WITHOUT.keys() - {*numbered()}) == [], "no number, so no reason"


@pytest.mark.parametrize("one", CONSTANTS, ids=lambda one: f"{one.claim}-{one.theorem}")
def test_another_constant_is_noticed_with_and_without_the_table(one: Constant) -> None:
    """Three times the constant in Trusted.v; and the table brought up to date as well."""
    sentence, formula = proposition(one.claim, one.theorem), FORMULAS[one.claim]
    tripled = one._replace(coq=one.coq.replace("[[", "[[3 * (").replace("]]", ")]]"))
    plain, other = (text.replace("[[", "").replace("]]", "") for text in (one.coq, tripled.coq))
    assert plain in sentence
    assert unlike(tripled, sentence.replace(plain, other), formula)
    with pytest.raises(AssertionError, match="does not stand in"):
        unlike(one, sentence.replace(plain, other), formula)
