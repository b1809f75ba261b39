"""Claims made of the text's sentences: what they all have in common."""

from typing import Any

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.supply import Fixed, Supply
from attnprune_verify.claims.core import Claim, Kind, Margin, Strength, Wrong
from attnprune_verify.claims.hypotheses import LITERAL


def sentence(
    id_: str, title: str, formula: str, margin: Margin, supply: Supply, wrong: tuple[Wrong, ...], **more: Any
) -> Claim:
    """A sentence of the text as a claim; by default an upper bound, as printed in Section 6."""
    given = {"section": "6 Experiment", "reading": LITERAL, "strength": Strength.UPPER, "source": "the paper's text"}
    return Claim(
        id=id_, kind=Kind.EXPERIMENT, title=title, formula=formula, margin=margin, supply=supply,
        wrong=wrong, **{**given, **more},
    )  # fmt: skip


def one_case(**values: Any) -> Fixed:
    """A single case of plain numbers."""
    return Fixed(lambda: iter([Case(values, ", ".join(f"{k} = {v}" for k, v in values.items()))]))
