"""What can be proved or certified about a statement: read from the index that the package carries.

`evidence_index.json` is a copy of `proofs_check/evidence.json`, which replays proofs, re-checks certificates and lists
formal theorems; a test compares the two. Nothing here is typed: a piece of evidence counts for a verdict only if it
says the same, under a reading that covers the claim's.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from attnprune_verify.claims.core import Claim, Proof, Statement
from attnprune_verify.claims.judge import Verdict

__all__ = ["EXISTENTIAL", "GRADES", "Evidence", "index", "weigh"]

GRADES = ("formal", "certified", "exact", "measured")

EXISTENTIAL = "existential"
"""Tag of claims that one certified instance proves."""


class Evidence(NamedTuple):
    """The verdict on the printed proof, the best grade of evidence for the statement's verdict, and its files."""

    proof: Proof
    grade: str
    files: tuple[str, ...]
    proof_steps: tuple[str, ...]
    """The displayed steps that fail, in words."""


@cache
def index() -> dict[str, Any]:
    """The carried index, by statement id."""
    text = (resources.files("attnprune_verify.claims") / "evidence_index.json").read_text(encoding="utf-8")
    statements: dict[str, Any] = json.loads(text)["statements"]
    return statements


def weigh(verdict: Verdict) -> Evidence:
    """The evidence for a verdict: from the index, or from the arithmetic in which the judge reached it."""
    claim, entry = verdict.claim, index().get(verdict.claim.id, {})
    files: list[str] = []
    grades = {_own_grade(verdict)}
    for row in entry.get("formal", []):
        if row["supports"] == verdict.statement.value and _covers(row["reading"], claim):
            grades.add("formal")
            files.append(row["file"])
    for row in entry.get("certificates", []):
        if row["concerns"] == "statement" and _agrees(row, verdict):
            files.append(row["file"])
            if _certifies(row, verdict):
                grades.add("certified")
    if entry.get("written") and verdict.statement is Statement.HOLDS:  # a proof by hand is linked, and raises no grade
        files.append(entry["written"])
    steps = entry.get("steps")
    if steps:
        files.append(steps["file"])
        files += [row["file"] for row in entry["certificates"] if row["concerns"] == "proof"]
    failing = tuple(f"{one['step']}: {one['says']}" for one in steps["failing"]) if steps else ()
    grade = next(grade for grade in GRADES if grade in grades)
    return Evidence(Proof(entry.get("proof", "none")), grade, tuple(dict.fromkeys(files)), failing)


def _own_grade(verdict: Verdict) -> str:
    """Exact and ball arithmetic certify a witness; for a universal statement they only make the samples exact."""
    if "measured" in verdict.claim.tags:
        return "measured"
    if verdict.statement in (Statement.REFUTED, Statement.ILL_POSED) or EXISTENTIAL in verdict.claim.tags:
        return "certified" if verdict.certified else "measured"
    return "exact" if verdict.certified and verdict.claim.arithmetic == "exact" else "measured"


def _covers(reading: str, claim: Claim) -> bool:
    """A proof for any mask covers every reading; another only its own."""
    return reading == "any" or reading in (claim.reading.name, claim.reading.mask)


def _agrees(row: dict[str, Any], verdict: Verdict) -> bool:
    """Whether a certificate says the same as the verdict, on a mask that the claim's reading allows."""
    mask, allowed = row["reading"].get("mask"), verdict.claim.reading.mask
    if mask is not None and not _covers(mask, verdict.claim) and allowed not in ("any", "given", None):
        return False
    if row["kind"] == "refutation":
        return verdict.statement in (Statement.REFUTED, Statement.ILL_POSED)
    return verdict.statement is Statement.HOLDS


def _certifies(row: dict[str, Any], verdict: Verdict) -> bool:
    """One instance refutes; it proves only what says that an instance exists."""
    return row["kind"] == "refutation" or EXISTENTIAL in verdict.claim.tags
