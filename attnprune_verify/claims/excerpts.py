"""Lines of the paper's LaTeX that a statement is judged by, carried with the paper's hash and their own."""

import hashlib
import json
from functools import cache
from importlib import resources
from typing import NamedTuple

from attnprune_verify.errors import InvalidInstance


def excerpt(id_: str) -> str:
    """The lines, one below the other.

    Raises
    ------
    InvalidInstance
        If they are not as they were taken from the paper.

    Examples
    --------
    >>> excerpt("exp:baselines_reference").splitlines()[1]
    '\\\\textbf{Baselines.}'
    """
    document = json.loads((resources.files("attnprune_verify.claims") / "excerpts.json").read_text("utf-8"))
    entry = document["excerpts"][id_]
    text = "\n".join(line["text"] for line in entry["lines"])
    if hashlib.sha256(text.encode()).hexdigest() != entry["sha256"]:
        raise InvalidInstance(f"an excerpt must be as the paper has it; that of {id_} was changed since")
    return text


class Quotation(NamedTuple):
    """A sentence of the paper, or the part of it that is judged, as its LaTeX has it, and the line it stands in."""

    line: int
    text: str


@cache
def _quotations() -> dict[str, Quotation]:
    document = json.loads((resources.files("attnprune_verify.claims") / "quotations.json").read_text("utf-8"))
    return {id_: Quotation(entry["line"], entry["quote"]) for id_, entry in document["quotations"].items()}


def quotation(id_: str) -> Quotation | None:
    """The words of the paper that a statement about its text judges; None where the statement only follows from them.

    Examples
    --------
    >>> quotation("exp:exact_proportion").text
    'This ensures that only the specified proportion of weights is pruned.'
    >>> quotation("exp:mask_stays_in_box") is None
    True
    """
    return _quotations().get(id_)
