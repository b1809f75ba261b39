"""Lines of the paper's LaTeX that a statement is judged by, carried with the paper's hash and their own."""

from __future__ import annotations

import hashlib
import json
from importlib import resources

from attnprune_verify.errors import InvalidInstance

__all__ = ["excerpt"]


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
