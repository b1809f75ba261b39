"""Statements that a comparison of two computed numbers refutes: inputs in, lhs and rhs out, always lhs < rhs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, square_root
from proofs_check.checker.questions import Question, contains, decide, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim

Inputs = Document
Sides = tuple[Number, Number]


@dataclass(frozen=True)
class Comparison:
    """One reading of a statement: the keys of its inputs, its two sides at a precision, the meaning of lhs < rhs."""

    reading: str
    keys: tuple[str, ...]
    sides: Callable[[Inputs, int], Sides]
    says: str
    reported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Inputs that are the paper's own numbers, and the values it reports: with others the certificate says nothing."""


def check_among(comparisons: tuple[Comparison, ...]) -> Callable[[Document], str]:
    """The check of a statement with these readings; `reading` is {"of": one of their names}."""

    def check(certificate: Document) -> str:
        require_claim(certificate, "refutation", "lhs<rhs")
        reading = fields.closed(certificate["reading"], ("of",), "reading")
        named = fields.choice(reading["of"], tuple(found.reading for found in comparisons), "reading.of")
        comparison = next(found for found in comparisons if found.reading == named)
        inputs = fields.closed(certificate["inputs"], comparison.keys, "inputs")
        require_reported(inputs, comparison.reported)
        no_hypotheses(certificate)
        claimed = enclosures(certificate, ("lhs", "rhs"))

        def ask(bits: int) -> list[Question]:
            left, right = (bounds(side) for side in comparison.sides(inputs, bits))
            return [
                ("lhs", contains(claimed["lhs"], left)),
                ("rhs", contains(claimed["rhs"], right)),
                ("lhs<rhs", less(left, right)),
            ]

        decide(precisions(claimed.values(), 20_000, 1_000), ask)
        return f"refutation: {comparison.says}"

    return check


def require_reported(inputs: Inputs, reported: Mapping[str, tuple[str, ...]]) -> None:
    """The numbers that the paper reports are constants here: a certificate may repeat them, not choose them."""
    for key, values in reported.items():
        given = inputs[key]
        number = fields.rational(str(given) if type(given) is int else given, f"inputs.{key}")
        if number not in {Fraction(value) for value in values}:
            raise Reject(f"inputs.{key} must be what the paper reports, {' or '.join(values)}")


def require_movable(X: fields.Matrix, W: fields.Matrix) -> None:
    """Some row of the attention depends on M: W is not 0 where a row of X is not, nor are all tokens equal there."""
    moving = (
        x[a] and weight and len({y[b] for y in X}) > 1
        for x in X
        for a, ws in enumerate(W)
        for b, weight in enumerate(ws)
    )
    if not any(moving):
        raise Reject("the attention must depend on M: one token, equal tokens or W = 0 say nothing")


def positive(inputs: Inputs, *keys: str) -> list[Fraction]:
    values = [fields.rational(inputs[key], f"inputs.{key}", 60) for key in keys]
    if min(values) <= 0:
        raise Reject(f"inputs {', '.join(keys)} must be > 0")
    return values


def sizes(inputs: Inputs, *keys: str) -> list[int]:
    return [fields.integer(inputs[key], f"inputs.{key}", 1, 10**6) for key in keys]


def paper_lipschitz(n: int, d: int, R: Fraction, lam: Fraction, bits: int) -> Number:
    """lam + 30 d n^3.5 R^6."""
    return lam + 30 * d * n**3 * R**6 * square_root(Fraction(n), bits)


def short_matrix(value: Any, rows: int, columns: int, where: str) -> fields.Matrix:
    """A matrix whose entries have at most 20 digits."""
    entries = fields.matrix(value, rows, columns, where)
    if any(max(abs(e.numerator), e.denominator) > 10**20 for row in entries for e in row):
        raise Reject(f"entries of {where} have at most 20 digits here")
    return entries
